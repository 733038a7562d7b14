"""Hopper's warpgroups do what tensor cores do: the same fused kernel, by another schedule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.compiler.codegen.ptx import PtxCodegen
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GPU_TARGETS, SM_90A, TARGETS
from blu.passes.framework.base import find
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.schedule import MmaSchedule, WgmmaSchedule
from blu.passes.gpu.gemm.scheduling import SCHEDULER
from blu.passes.gpu.lower.lower_to_nvvm import lower_kernels
from blu.passes.kernels.choose_schedules import fit_kernel
from tests.support.kernels.gemm_text import NN, NT, TN, TT, Buffer, gemm_text
from tests.support.kernels.gpu_products import as_multiplied, bound_of_sums, emit, random_array
from tests.support.kernels.gpu_program import compile_program
from tests.support.kernels.spills import spills

ROWS, COLUMNS, DEPTH = 4096, 3072, 768
MMA, WGMMA = "mma.sync.aligned.m16n8k16", "wgmma.mma_async"


def block(x: blu.Tensor, w: blu.Tensor, bias: blu.Tensor, residual: blu.Tensor) -> tuple:
    """A product with two results and four operands."""
    before = x @ w + bias
    return before, blu.gelu(before, approximate="tanh") + residual


@cache
def fused(target: str) -> str:
    """The one kernel that `block` becomes, before it is emitted."""
    shapes = ((ROWS, DEPTH), (DEPTH, COLUMNS), (COLUMNS,), (ROWS, COLUMNS))
    traced = blu.jit(block).trace(*(blu.spec(shape, "bf16") for shape in shapes))
    module = traced.lower(target, stop="memref").module
    (kernel,) = (item for item in find(module, func.FuncOp) if "blu.kernel" in item.attributes)
    return kernel.operation.get_asm(enable_debug_info=False, use_local_scope=True)


def emit_fused(emitter: Callable[[func.FuncOp], object]) -> dict[str, str]:
    """The PTX of what an emitter makes of the kernel, for Hopper."""
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(fused("sm_90a"))
        emitter(next(iter(find(module, func.FuncOp))))
        lower_kernels(module)
        target = {"triple": SM_90A.triple, "name": SM_90A.name, "ptx": SM_90A.ptx}
        return json.loads(PtxCodegen(target).ptx_of_kernels(str(module)))


EMITTERS: dict[str, Callable[[func.FuncOp], object]] = {
    "chosen": lambda kernel: (fit_kernel(kernel, SM_90A, SCHEDULER), gemm.emit(kernel, SM_90A)),
    "tensor cores": lambda kernel: gemm.emit_with(kernel, MmaSchedule("bf16")),
    "warpgroups": lambda kernel: gemm_wgmma.emit_with(kernel, gemm.read, WgmmaSchedule("bf16"), SM_90A),
}


def test_fusion_does_not_know_the_instruction() -> None:
    assert fused("sm_80") == fused("sm_89") == fused("sm_90a")
    assert len(re.findall("linalg.contract", fused("sm_80"))) == 1


@pytest.mark.parametrize(("name", "instruction"), [("chosen", WGMMA), ("tensor cores", MMA), ("warpgroups", WGMMA)])
def test_one_kernel_is_emitted_by_either_schedule(name: str, instruction: str) -> None:
    ptx = emit_fused(EMITTERS[name])
    assert list(ptx) == ["gemm_0"]
    other = MMA if instruction == WGMMA else WGMMA
    assert instruction in ptx["gemm_0"] and other not in ptx["gemm_0"]
    if find_ptxas() is None:
        pytest.skip("assembling GPU code needs ptxas")
    assert not spills(ptx, "sm_90a")


LAYOUTS = {"nn": NN, "nt": NT, "tn": TN, "tt": TT}


def multiply(layout: str, kind: str, sizes: tuple[int, int, int], schedule: WgmmaSchedule, processors: int) -> None:
    """Check a product of small tiles, each of its sums by itself."""
    rows, columns, depth = sizes
    left, right = random_array((rows, depth), kind), random_array((depth, columns), kind, 1)
    operands = [np.ascontiguousarray(x.T if how == "t" else x) for x, how in zip((left, right), layout, strict=True)]
    element = "f32" if kind == "tf32" else kind
    buffers = [Buffer(item.shape, element) for item in operands]
    target = replace(SM_90A, processors=processors)
    (kernel,) = emit(
        gemm_text(*buffers, Buffer((rows, columns)), LAYOUTS[layout]),
        lambda item: gemm_wgmma.emit_with(item, gemm.read, schedule, target),
    )
    result = np.full((rows, columns), np.nan, np.float32)
    kernel.run(*operands, result)
    left, right = as_multiplied(left, kind), as_multiplied(right, kind)
    assert (np.abs(result - left @ right) <= bound_of_sums(left, right, kind)).all()


@pytest.mark.parametrize(("kind", "layout"), [*((k, how) for k in ("bf16", "f16") for how in LAYOUTS), ("tf32", "nt")])
def test_all_layouts_by_warpgroups(kind: str, layout: str) -> None:
    """Six tiles by two blocks: each group has its turn twice, and the ring goes round."""
    depth = 96 if kind == "tf32" else 192
    multiply(layout, kind, (128, 192, depth), WgmmaSchedule(kind, rows=64, columns=64, stages=2), processors=2)


@pytest.mark.parametrize("sizes", [(8, 8, 64), (64, 64, 72), (72, 200, 136), (56, 72, 64), (136, 56, 328)])
def test_tiles_that_reach_beyond_the_product(sizes: tuple[int, int, int]) -> None:
    multiply("nn", "bf16", sizes, WgmmaSchedule("bf16", rows=64, columns=64, stages=3), processors=3)


@pytest.mark.parametrize("sizes", [(32, 128, 64), (4, 4, 64), (36, 132, 68), (100, 260, 136), (28, 124, 328)])
@pytest.mark.parametrize(("layout", "registers"), [("nn", "right"), ("tt", "left")])
def test_a_factor_of_tf32_that_goes_through_registers(layout: str, registers: str, sizes: tuple[int, int, int]) -> None:
    """Its neighbours lie across k; tiles reach beyond the product, and the ring goes round."""
    tile = (32, 128) if registers == "right" else (128, 32)
    sizes = sizes if registers == "right" else (sizes[1], sizes[0], sizes[2])
    schedule = WgmmaSchedule("tf32", *tile, stages=3, registers=registers)
    multiply(layout, "tf32", sizes, schedule, processors=3)


def test_the_last_group_of_rows_of_tiles_is_smaller() -> None:
    schedule = WgmmaSchedule("bf16", rows=64, columns=64, stages=2, group=2)
    multiply("nt", "bf16", (192, 128, 64), schedule, processors=2)


@pytest.mark.parametrize(
    ("sizes", "kind", "group"),
    [((8192, 50304, 768), "bf16", 32), ((2048, 50304, 768), "f32", 16), ((8192, 8192, 8192), "bf16", 8)],
)
def test_bands_are_as_tall_as_stays_in_the_cache(sizes: tuple[int, int, int], kind: str, group: int) -> None:
    """Each reads all of the right factor from memory, if that does not stay there itself."""
    rows, columns, depth = sizes
    traced = blu.jit(lambda x, w: blu.matmul(x, w.T, precision="tf32" if kind == "f32" else "highest")).trace(
        blu.spec((rows, depth), kind), blu.spec((columns, depth), kind)
    )
    assert f" group = {group} : i64" in traced.lower("sm_90a", stop="kernel").text


def test_a_whole_tile_of_a_block() -> None:
    multiply("nt", "bf16", (128, 192, 256), WgmmaSchedule("bf16"), processors=1)


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
def test_all_parts_of_a_split_k_are_added(kind: str) -> None:
    """The last part is shorter than the others; what adds is a kernel of rows, or the product's own with a bias."""
    left, right, bias = (
        random_array(shape, kind, seed) for seed, shape in enumerate(((128, 4104), (136, 4104), (136,)))
    )
    fused = kind == "bf16"

    def function(x: blu.Tensor, w: blu.Tensor, bias: blu.Tensor) -> blu.Tensor:
        product = blu.matmul(x, w.swapaxes(0, 1), precision="tf32" if kind == "tf32" else "highest")
        return product + bias if fused else product

    program = compile_program(function, left, right, bias)
    assert WGMMA in program.ptx["gemm_0"] and len(program.ptx) == 2
    factors = as_multiplied(left, kind), as_multiplied(right, kind).T
    product = factors[0] @ factors[1]
    expected = product + bias.astype(np.float64) * fused
    rounded = 2.0**-8 * (np.abs(product) + np.abs(expected)) if fused else 2.0**-24 * np.abs(expected)
    bound = rounded + bound_of_sums(*factors, kind)
    assert (np.abs(program.interpret(left, right, bias)[0] - expected) <= bound).all()


@pytest.mark.parametrize(
    ("layout", "kind", "sizes", "schedule", "processors"),
    [
        # Two tiles, and three blocks for what is left of k, with a tile for each group.
        ("tn", "bf16", (104, 64, 632), {"rows": 64, "columns": 64, "split": 4, "lead": 2}, 5),
        # Four tiles; a fifth block computes two parts of each, four by each group.
        ("nt", "bf16", (128, 72, 632), {"rows": 64, "columns": 64, "split": 3, "lead": 8}, 5),
        # A lead that is too short for the others' rounds, and one factor in registers; the last part has nothing.
        ("nn", "tf32", (32, 136, 132), {"rows": 32, "columns": 128, "split": 3, "lead": 2, "registers": "right"}, 3),
        # Three tiles and two blocks for what is left: one of these ends in the second tile, where the other begins.
        ("tn", "bf16", (136, 64, 632), {"rows": 64, "columns": 64, "split": 3, "lead": 0}, 5),
        ("nt", "bf16", (128, 200, 1096), {"rows": 64, "columns": 64, "split": 3, "lead": 0, "sums": "held"}, 11),
        ("nn", "tf32", (32, 136, 420), {"rows": 32, "columns": 128, "split": 3, "lead": 0, "registers": "right"}, 3),
    ],
    ids=str,
)
def test_a_first_part_of_k_that_is_longer_than_the_others(
    layout: str,
    kind: str,
    sizes: tuple[int, int, int],
    schedule: dict,
    processors: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for table in (TARGETS, GPU_TARGETS):
        monkeypatch.setitem(table, "sm_90a", replace(SM_90A, processors=processors))
    rows, columns, depth = sizes
    left, right = random_array((rows, depth), kind), random_array((depth, columns), kind, 1)
    operands = [np.ascontiguousarray(x.T if how == "t" else x) for x, how in zip((left, right), layout, strict=True)]

    def function(x: blu.Tensor, w: blu.Tensor) -> blu.Tensor:
        factors = (item.swapaxes(0, 1) if how == "t" else item for item, how in zip((x, w), layout, strict=True))
        return blu.matmul(*factors, precision="tf32" if kind == "tf32" else "highest").astype("f32")

    wish = {"kind": "wgmma", "stages": 2, **schedule}
    program = compile_program(function, *operands, schedules={"gemm_0": wish})
    assert WGMMA in program.ptx["gemm_0"]
    left, right = as_multiplied(left, kind), as_multiplied(right, kind)
    found = program.interpret(*operands)[0]
    assert (np.abs(found - left @ right) <= bound_of_sums(left, right, kind) + 2.0**-8 * np.abs(left @ right)).all()


def test_gelu_behind_a_product_takes_few_instructions_and_keeps_its_tails() -> None:
    """Constants hold log2(e), sums are fused to products, and the reciprocal is the special function unit's."""
    x, identity = np.linspace(-9, 9, 64 * 64, dtype=np.float32).reshape(64, 64), np.eye(64, dtype=np.float32)

    def function(x: blu.Tensor, w: blu.Tensor) -> blu.Tensor:
        product = blu.matmul(x, w.swapaxes(0, 1), precision="tf32")
        return blu.gelu(product, approximate="tanh")

    small = {"gemm_0": {"kind": "wgmma", "rows": 64, "columns": 64, "stages": 2}}
    program = compile_program(function, x, identity, schedules=small)
    ptx = program.ptx["gemm_0"]
    assert "fma.rn.f32" in ptx and "rcp.approx.ftz.f32" in ptx
    assert not re.search(r"rcp\.rn|div\.|setp\.lt\.f32|0f3FB8AA3B", ptx)
    seen = as_multiplied(x, "tf32")
    expected = seen / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (seen + 0.044715 * seen**3)))
    assert (np.abs(program.interpret(x, identity)[0] - expected) <= 1e-5 * np.abs(expected) + 1e-37).all()


def chosen(left: tuple[int, int], right: tuple[int, int], field: str) -> int:
    """A field of the schedule that a product of bf16 gets."""
    specs = blu.spec(left, "bf16"), blu.spec(right, "bf16")
    module = blu.jit(lambda x, w: x @ w).trace(*specs).lower("sm_90a", stop="blu-fit-schedules").module
    (schedule,) = (line for line in str(module).splitlines() if 'kind = "wgmma"' in line)
    return int(re.findall(rf"[ {{]{field} = (\d+) : i64", schedule)[0])


def test_tiles_are_narrower_where_that_leaves_fewer_multiprocessors_idle() -> None:
    """1024 tiles of 128 columns are eight rounds of 132; 704 of 192 are six longer ones."""
    assert [chosen((4096, 256), (256, columns), "columns") for columns in (4096, 8192)] == [128, 192]


def test_narrower_tiles_have_as_many_bytes_under_way() -> None:
    assert [chosen((4096, 256), (256, columns), "stages") for columns in (4096, 8192)] == [5, 4]


@pytest.mark.parametrize(("sizes", "expected"), [((768, 3072, 65536), (3, 0, 6)), ((2304, 768, 65536), (3, 0, 1))])
def test_all_multiprocessors_have_the_same_work_of_a_deep_product(
    sizes: tuple[int, int, int], expected: tuple[int, int, int]
) -> None:
    """96 blocks take 745 of 1,024 steps of k of a tile each, and 36 what is left of all, 744 each. Those of first parts
    that follow each other share tiles of both factors."""
    rows, columns, depth = sizes
    assert tuple(chosen((rows, depth), (depth, columns), name) for name in ("split", "lead", "group")) == expected


def test_what_is_rounded_on_the_way_is_rounded_in_pairs() -> None:
    """The gradient behind GELU: a product is rounded to bf16, and multiplied in f32."""
    x, w, before = (random_array((64, 64), "bf16", seed) for seed in range(3))

    def function(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor) -> blu.Tensor:
        _, pull_back = blu.vjp(lambda value: blu.gelu(value, approximate="tanh"), before)
        return pull_back(x @ w)[0]

    small = {"gemm_0": {"kind": "wgmma", "rows": 64, "columns": 64, "stages": 2}}
    program = compile_program(function, x, w, before, schedules=small)
    assert "cvt.rn.bf16x2.f32" in program.ptx["gemm_0"] and "cvt.rn.bf16.f32" not in program.ptx["gemm_0"]
    wide = before.astype(np.float64)
    inner = np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)
    slope = 0.5 * (1 + np.tanh(inner)) + 0.5 * wide / np.cosh(inner) ** 2 * np.sqrt(2 / np.pi) * (
        1 + 0.134145 * wide**2
    )
    product = x.astype(np.float64) @ w.astype(np.float64)
    found = program.interpret(x, w, before)[0].astype(np.float64)
    assert (np.abs(found - product * slope) <= 2.0**-7 * np.abs(product) * (np.abs(slope) + 2.0**-6)).all()

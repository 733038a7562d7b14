"""Matrix products on GPUs: results of their kernels in an interpreter of PTX, and what ptxas makes of them."""

from __future__ import annotations

import json
import re
from functools import partial
from itertools import product

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.compiler.codegen.ptx import PtxCodegen
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import SM_80
from blu.passes.framework.base import find
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.gemm.scheduling import SCHEDULER
from blu.passes.gpu.lower.lower_to_nvvm import lower_kernels
from blu.passes.kernels.choose_schedules import fit_kernel
from blu.passes.kernels.launch import GRID, SHARED
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gemm_text import Buffer, gemm_text
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program
from tests.support.ptx import machine as ptx_machine

# One rounding of the result (bf16, f16), of the operands (tf32), or of sums (f32), in the norm.
TOLERANCES = {"bf16": 2.5e-3, "f16": 4e-4, "tf32": 5e-4, "f32": 4e-7}
LAYOUTS = ("nn", "nt", "tn", "tt")
SHARED_BYTES = {"sm_80": 163 * 1024, "sm_89": 99 * 1024, "sm_90a": 227 * 1024}


def _random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng([seed, *shape])
    return rng.standard_normal(shape, dtype=np.float32).astype(DTYPES["f32" if dtype == "tf32" else dtype])


def _multiply(layout: str, precision: str, left: blu.Tensor, right: blu.Tensor) -> blu.Tensor:
    left, right = (x.swapaxes(-1, -2) if kind == "t" else x for x, kind in zip((left, right), layout, strict=True))
    return blu.matmul(left, right, precision=precision)


def _operands(dtype: str, layout: str, sizes: tuple[int, int, int]) -> list[np.ndarray]:
    rows, columns, depth = sizes
    shapes = [(rows, depth), (depth, columns)]
    return [
        _random(shape[::-1] if kind == "t" else shape, dtype, seed)
        for seed, (shape, kind) in enumerate(zip(shapes, layout, strict=True))
    ]


def _expected(layout: str, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    left, right = (x.T if kind == "t" else x for x, kind in zip((left, right), layout, strict=True))
    return left.astype(np.float64) @ right.astype(np.float64)


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))


def _check(
    dtype: str, layout: str, sizes: tuple[int, int, int], target: str = "sm_80", **schedules: Fields
) -> GpuProgram:
    operands = _operands(dtype, layout, sizes)
    function = partial(_multiply, layout, "tf32" if dtype == "tf32" else "highest")
    program = compile_program(function, *operands, target=target, schedules=schedules)
    assert _error(program.interpret(*operands)[0], _expected(layout, *operands)) < TOLERANCES[dtype]
    return program


@pytest.mark.parametrize(("dtype", "layout"), list(product(TOLERANCES, LAYOUTS)))
def test_all_layouts(dtype: str, layout: str) -> None:
    _check(dtype, layout, (64, 64, 160))


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    ("layout", "sizes"),
    [("nn", (3, 17, 50)), ("tt", (17, 50, 129)), ("nt", (65, 3, 70)), ("tn", (67, 70, 66)), ("nn", (1, 1, 1))],
)
def test_odd_sizes(dtype: str, layout: str, sizes: tuple[int, int, int]) -> None:
    _check(dtype, layout, sizes)


@pytest.mark.parametrize("rest", range(1, 8))
def test_nothing_is_read_beyond_the_end_of_unaligned_rows(rest: int) -> None:
    """The interpreter knows where arrays end: here `rest` elements after the last whole 16 bytes."""
    program = _check("bf16", "nt", (16 + rest, 8 + rest, 65))
    assert "ld.global.v4" in program.ptx["gemm_0"] and "shf.r.wrap" in program.ptx["gemm_0"]


@pytest.mark.parametrize(("layout", "sizes"), [("nn", (1, 40, 270)), ("nt", (3, 21, 264)), ("nt", (1, 9, 512))])
@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32"])
def test_few_rows_read_the_matrix_once(dtype: str, layout: str, sizes: tuple[int, int, int]) -> None:
    program = _check(dtype, layout, sizes)
    assert "ld.global.v4.b32" in program.ptx["gemm_0"] and "mma" not in program.ptx["gemm_0"]


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_long_k_is_split_and_added_in_order(dtype: str) -> None:
    """The kernel that adds is one of rows, or the product's own where that rounds the result."""
    program = _check(dtype, "tn", (24, 40, 2100))
    names = ["gemm_0", "gemm_0_sum" if dtype in ("bf16", "f16") else "rows_0"]
    assert sorted(program.ptx) == names
    assert [item["kernel"] for item in program.plan["launches"]] == names


def test_long_sums_are_sums_of_chains() -> None:
    """Of products that are all alike, one chain loses bits in one direction."""
    ones = [np.full((8, 3000), 1.1, np.float32), np.full((3000, 8), 1.1, np.float32)]
    program = compile_program(lambda a, b: a @ b, *ones, target="sm_80")
    assert _error(program.interpret(*ones)[0], ones[0].astype(np.float64) @ ones[1].astype(np.float64)) < 2e-6


def test_three_products_of_tf32_are_as_exact_as_f32() -> None:
    program = _check("f32", "nt", (40, 70, 500), gemm_0={"instruction": "3xtf32"})
    assert program.ptx["gemm_0"].count("mma.sync.aligned.m16n8k8.row.col.f32.tf32") == 3 * 4 * 4 * 2


def test_short_sums_of_f32_are_chains_of_multiply_adds() -> None:
    """A term of three products is wrong by more than one of f32, which few terms do not hide."""
    assert "fma.rn.f32" in _check("f32", "nt", (40, 70, 127)).ptx["gemm_0"]
    assert "mma.sync" in _check("f32", "nt", (40, 70, 128)).ptx["gemm_0"]


@pytest.mark.parametrize("given", [{}, {"split": 2}, {"rows": 128, "columns": 64, "kind": "mma"}], ids=str)
@pytest.mark.parametrize("shape", [(1, 70, 70, 150), (3, 65, 130, 129)], ids=str)
def test_infinite_and_largest_factors_give_what_f32_gives(shape: tuple[int, ...], given: dict) -> None:
    """The rest of what rounds to infinity is infinite as well, and would make sums NaN."""
    batch, rows, columns, depth = shape
    left, right = _random((batch, rows, depth), "f32"), _random((batch, depth, columns), "f32", 1)
    left[0, 0, 3], left[-1, rows - 1, depth - 1], left[0, 40, :] = np.inf, -np.inf, 0
    left[0, 40, 5], left[0, 41, 7], right[0, 8, 11] = np.finfo(np.float32).max, np.nan, -np.inf
    right[-1, depth - 1, columns - 1] = 0
    program = compile_program(lambda a, b: a @ b, left, right, target="sm_80", schedules={"gemm_0": given})
    with np.errstate(all="ignore"):
        expected = left.astype(np.float64) @ right.astype(np.float64)
        expected = np.where(np.abs(expected) > np.finfo(np.float32).max, np.copysign(np.inf, expected), expected)
    found = program.interpret(left, right)[0]
    assert np.isinf(expected).any() and np.isnan(expected).any() and np.nanmax(np.abs(found[np.isfinite(found)])) > 1e38
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("precision", ["bf16", "f16"])
def test_f32_is_rounded_before_it_is_multiplied(precision: str) -> None:
    """Kernels of rows round the factors: products read what they multiply."""
    operands = [_random((40, 70), "f32"), _random((70, 24), "f32", 1)]
    program = compile_program(partial(_multiply, "nn", precision), *operands, target="sm_80")
    rounded = [item.astype(DTYPES[precision]) for item in operands]
    assert [item["kernel"] for item in program.plan["launches"]] == ["rows_0", "rows_1", "gemm_0"]
    assert _error(program.interpret(*operands)[0], _expected("nn", *rounded)) < 1e-6
    assert f".f32.{precision}.{precision}.f32" in program.ptx["gemm_0"]


def test_views_and_batches_are_read_in_place() -> None:
    left, right = _random((100, 200), "bf16"), _random((300, 90), "bf16", 1)
    program = compile_program(lambda a, b: a[5:75, 8:136] @ b[3:131, 8:80], left, right, target="sm_80")
    assert list(program.ptx) == ["gemm_0"] and "cp.async.cg.shared.global" in program.ptx["gemm_0"]
    expected = _expected("nn", left[5:75, 8:136], right[3:131, 8:80])
    assert _error(program.interpret(left, right)[0], expected) < TOLERANCES["bf16"]
    heads = [_random((2, 30, 3, 40), "bf16", seed) for seed in (0, 1)]
    program = compile_program(partial(blu.einsum, "bthd,bshd->bhts"), *heads, target="sm_80")
    expected = np.einsum("bthd,bshd->bhts", *(item.astype(np.float64) for item in heads))
    assert _error(program.interpret(*heads)[0], expected) < TOLERANCES["bf16"]


def test_rows_that_no_wide_copy_reaches() -> None:
    left, right = _random((40, 200), "f32"), _random((200, 33), "f32", 1)
    program = compile_program(lambda a, b: a[:, ::2] @ b[::2], left, right, target="sm_80")
    assert _error(program.interpret(left, right)[0], _expected("nn", left[:, ::2], right[::2])) < TOLERANCES["f32"]


# Several dims of each role; k of one run of a multiple of a step, and not.
MANY_DIMS = [
    (("(h, m, n, b, k) -> (b, m, h, k)", "(h, m, n, b, k) -> (b, n, h, k)", "(h, m, n, b, k) -> (h, m, n)"), 64),
    (("(h, m, n, b, k) -> (b, k, h, m)", "(h, m, n, b, k) -> (b, h, k, n)", "(h, m, n, b, k) -> (m, h, n)"), 24),
    (("(h, m, n, b, k) -> (b, k, m)", "(h, m, n, b, k) -> (h, b, k, n)", "(h, m, n, b, k) -> (m, n, h)"), 70),
]


@pytest.mark.parametrize("element", ["bf16", "f32"])
@pytest.mark.parametrize(("maps", "depth"), MANY_DIMS)
def test_dims_in_any_order(maps: tuple[str, str, str], depth: int, element: str) -> None:
    sizes = {"h": 3, "m": 40, "n": 24, "b": 2, "k": depth}
    letters = [re.findall(r"\w", map_.split("->")[1]) for map_ in maps]
    shapes = [tuple(sizes[letter] for letter in each) for each in letters]
    operands = [_random(shape, element, seed) for seed, shape in enumerate(shapes[:2])]
    buffers = [Buffer(shape, kind) for shape, kind in zip(shapes, (element, element, "f32"), strict=True)]
    ptx, launches = _emit(gemm_text(*buffers, maps))
    result = np.zeros(shapes[2], np.float32)
    for name, grid, shared in launches:
        ptx_machine.run(ptx[name], grid, [*operands, result], shared)
    equation = "{},{}->{}".format(*("".join(each) for each in letters))
    expected = np.einsum(equation, *(item.astype(np.float64) for item in operands))
    assert _error(result, expected) < TOLERANCES["f32"]


def _emit(text: str) -> tuple[dict[str, str], list[tuple[str, list[int], int]]]:
    """The PTX of a kernel's replacements, and their launches."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = next(iter(find(module, func.FuncOp)))
        launches = []
        fit_kernel(kernel, SM_80, SCHEDULER)
        for item in gemm.emit(kernel, SM_80):
            grid, shared = item.attributes[GRID], item.attributes[SHARED]
            launches.append((item.name.value, list(grid), ir.IntegerAttr(shared).value))
        lower_kernels(module)
        target = {"triple": SM_80.triple, "name": SM_80.name, "ptx": SM_80.ptx}
        return json.loads(PtxCodegen(target).ptx_of_kernels(str(module))), launches


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (70, 51)])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_fused_operations_and_several_outputs(dtype: str, rows: int, columns: int) -> None:
    shapes = ((rows, 40), (40, columns), (columns,), (rows, columns))
    arrays = [_random(shape, dtype, seed) for seed, shape in enumerate(shapes)]

    def function(x, w, bias, residual):
        before = x @ w + bias
        return before, blu.tanh(before) + residual

    program = compile_program(function, *arrays, target="sm_80")
    assert list(program.ptx) == ["gemm_0"]
    x, w, bias, residual = (item.astype(np.float64) for item in arrays)
    before = x @ w + bias
    for found, expected in zip(program.interpret(*arrays), (before, np.tanh(before) + residual), strict=True):
        assert _error(found, expected) < 3 * TOLERANCES[dtype]


@pytest.mark.parametrize("depth", [96, 1600])
def test_weights_are_updated_by_the_kernel_of_their_gradient(depth: int) -> None:
    shapes = ((depth, 24), (depth, 40), (24, 40), (24, 40))
    arrays = [_random(shape, "f32", seed) for seed, shape in enumerate(shapes)]

    def function(x, g, weights, mean):
        mean = 0.9 * mean + x.swapaxes(0, 1) @ g
        return weights - 0.1 * mean, mean

    program = compile_program(function, *arrays, target="sm_80")
    assert set(program.ptx) <= {"gemm_0", "gemm_0_sum"}
    x, g, weights, mean = (item.astype(np.float64) for item in arrays)
    mean = 0.9 * mean + x.T @ g
    for found, expected in zip(program.interpret(*arrays), (weights - 0.1 * mean, mean), strict=True):
        assert _error(found, expected) < TOLERANCES["f32"]


def test_integers_and_f64_fall_back_to_loops() -> None:
    for dtype in (np.int32, np.float64):
        operands = [np.arange(20).reshape(4, 5).astype(dtype), np.arange(15).reshape(5, 3).astype(dtype)]
        program = compile_program(lambda a, b: a @ b, *operands, target="sm_80")
        assert np.array_equal(program.interpret(*operands)[0], operands[0] @ operands[1])


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("target", SHARED_BYTES)
@pytest.mark.parametrize("dtype", [*TOLERANCES, "simt"])
def test_nothing_is_spilled(target: str, dtype: str) -> None:
    shapes = ((8192, 768), (768, 3072), (3072,))
    function = partial(_with_gelu, "tf32" if dtype == "tf32" else "highest")
    specs = [np.empty(shape, DTYPES["f32" if dtype in ("tf32", "simt") else dtype]) for shape in shapes]
    given = {"gemm_0": {"instruction": "f32"}} if dtype == "simt" else {}
    program = compile_program(function, *specs, target=target, schedules=given)
    assert not program.spills("gemm")
    assert all(item["shared_bytes"] <= SHARED_BYTES[target] for item in program.plan["launches"])
    if target == "sm_90a" and dtype in ("bf16", "f16", "tf32"):
        return  # by warpgroups: see test_gemm_wgmma.py
    text = program.ptx["gemm_0"]
    assert "cp.async.cg.shared.global" in text
    if dtype == "simt":
        assert text.count("fma.rn.f32") >= 32 * 64 // 2 and text.count("ld.shared.v4") >= 64
    else:
        # A warp's 64 x 64 sums are 32 instructions a step, of which 128 bytes of k have four; 64 x 32 three times 16.
        kind = "m16n8k8.row.col.f32.tf32" if dtype in ("tf32", "f32") else f"m16n8k16.row.col.f32.{dtype}"
        assert text.count(f"mma.sync.aligned.{kind}") == (3 * 64 if dtype == "f32" else 128)
        assert text.count("ldmatrix.sync") >= 16


def _with_gelu(precision: str, x: blu.Tensor, w: blu.Tensor, bias: blu.Tensor) -> blu.Tensor:
    return blu.gelu(blu.matmul(x, w, precision=precision) + bias, approximate="tanh")

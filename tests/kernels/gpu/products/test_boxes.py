"""Results of products that the copy engine takes from shared memory, and operands that it brings, box by box."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import func
from blu.dialects.ops.pointwise import NearestByte
from blu.dialects.targets.nvidia import SM_90A
from blu.errors import PassError
from blu.passes.framework.base import find
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.gpu_products import Launch, as_multiplied, emit, random_array
from tests.support.kernels.gpu_program import compile_program
from tests.support.kernels.product_cases import Case
from tests.support.ptx.races import RaceError

SMALL: Fields = {"kind": "wgmma", "rows": 64, "columns": 64, "stages": 2, "sums": "boxed"}
WIDE: Fields = {**SMALL, "rows": 128, "columns": 128}
# One column of 16 bytes, one row, one less and one more than a box and a tile, several tiles and products.
CASES: list[tuple[Case, Fields]] = [
    (Case("bf16", "nn", (1, 8, 64), epilogue="bias"), SMALL),
    (Case("f16", "nt", (15, 56, 72), epilogue="two"), SMALL),
    (Case("bf16", "tn", (72, 72, 64), epilogue="tanh"), SMALL),
    (Case("f16", "tt", (64, 136, 136), epilogue="bias"), WIDE),
    (Case("bf16", "nt", (129, 120, 64), epilogue="two"), WIDE),
    (Case("tf32", "nt", (65, 72, 68), epilogue="cast"), SMALL),
    (Case("bf16", "nn", (17, 8, 64), (3,)), SMALL),
    (Case("tf32", "nt", (1, 4, 64), epilogue="bias"), SMALL),
    (Case("tf32", "nt", (15, 28, 68), epilogue="tanh"), SMALL),
    (Case("tf32", "nt", (65, 36, 64), (3,)), SMALL),
    (Case("tf32", "nt", (129, 132, 72), epilogue="two"), WIDE),
]


@pytest.mark.parametrize(("case", "fields"), CASES, ids=str)
def test_boxes_and_what_is_beyond_them(case: Case, fields: Fields) -> None:
    arrays = case.arrays()
    program = compile_program(case.compute, *arrays, schedules={"gemm_0": fields})
    ptx = program.ptx["gemm_0"]
    assert ("stmatrix" in ptx) == (case.dtype != "tf32" or case.epilogue == "cast")
    assert "global.shared::cta" in ptx and "st.global" not in ptx
    case.check(program.interpret(*arrays))


def slope(x: np.ndarray) -> np.ndarray:
    """That of GELU."""
    inner = np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
    return 0.5 * (1 + np.tanh(inner)) + 0.5 * x / np.cosh(inner) ** 2 * np.sqrt(2 / np.pi) * (1 + 0.134145 * x**2)


def times(x: blu.Tensor, w: blu.Tensor) -> blu.Tensor:
    """x @ w^T, of f32 in tf32."""
    return blu.matmul(x, w.T, precision="tf32" if str(x.dtype) == "f32" else "highest")


def gradient(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor) -> blu.Tensor:
    """One operand, one result in its place: four boxes of a warp come ahead."""
    _, pull_back = blu.vjp(lambda value: blu.gelu(value, approximate="tanh"), before)
    return pull_back(times(x, w))[0]


def two_results(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor) -> tuple:
    """Two boxes come ahead."""
    total = times(x, w) + before
    return total, total * before


def three_results(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor) -> tuple:
    """One box comes at a time."""
    total = times(x, w) + before
    return total, total * before, before - total


def no_operand(x: blu.Tensor, w: blu.Tensor) -> tuple:
    """Places are used again while boxes leave."""
    total = times(x, w)
    return total, total + 1.0, total * 2.0


EXPECTED: dict[Callable, Callable] = {
    gradient: lambda product, before: [product * slope(before)],
    two_results: lambda product, before: [product + before, (product + before) * before],
    three_results: lambda product, before: [product + before, (product + before) * before, -product],
    no_operand: lambda product, before: [product, product + 1.0, product * 2.0],
}
ROWS, COLUMNS, DEPTH = 200, 136, 72
SHAPES = (ROWS, DEPTH), (COLUMNS, DEPTH), (ROWS, COLUMNS)


@cache
def kernel_of(function: Callable, tile: tuple[int, int], kind: str = "bf16") -> Launch:
    """One block that computes all tiles: each group has its turn twice or more."""
    shapes, element = SHAPES[: 2 if function is no_operand else 3], "f32" if kind == "tf32" else kind
    module = blu.jit(function).trace(*(blu.spec(s, element) for s in shapes)).lower("sm_90a", stop="memref").module
    (kernel,) = (item for item in find(module, func.FuncOp) if "blu.kernel" in item.attributes)
    text = kernel.operation.get_asm(enable_debug_info=False, use_local_scope=True)
    schedule, target = WgmmaSchedule(kind, *tile, stages=2, sums="boxed"), replace(SM_90A, processors=1)
    (launch,) = emit(text, lambda item: gemm_wgmma.emit_with(item, gemm.read, schedule, target))
    return launch


def check(function: Callable, launch: Launch, kind: str = "bf16") -> None:
    """Run a kernel, and compare every element with f64's: three roundings to bf16 come one after the other."""
    x, w, before = (random_array(s, kind, n) for n, s in enumerate(SHAPES))
    product = as_multiplied(x, kind) @ as_multiplied(w, kind).T
    expected = EXPECTED[function](product, before.astype(np.float64))
    results = [np.full((ROWS, COLUMNS), np.nan, x.dtype) for _ in expected]
    launch.run(*[x, w, before][: 2 if function is no_operand else 3], *results)
    scale = (np.abs(product) + np.abs(before.astype(np.float64)) + 1) * (1 + np.abs(before.astype(np.float64)))
    bound = 2.0**-17 if kind == "tf32" else 3 * 2.0**-8
    for found, wanted in zip(results, expected, strict=True):
        assert (np.abs(found.astype(np.float64) - wanted) <= bound * scale).all()


@pytest.mark.parametrize("kind", ["bf16", "tf32"])
@pytest.mark.parametrize("function", list(EXPECTED), ids=lambda function: function.__name__)
def test_warps_use_their_places_for_many_tiles(function: Callable, kind: str) -> None:
    """Twelve tiles of one or two boxes a warp; the last ones reach beyond the result."""
    check(function, kernel_of(function, (64, 64), kind), kind)


def test_places_of_a_large_tile_are_used_again() -> None:
    """Six or twelve boxes a warp, of which four have places."""
    check(gradient, kernel_of(gradient, (128, 192)))
    check(gradient, kernel_of(gradient, (128, 192), "tf32"), "tf32")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        (r"fence\.proxy\.async\.shared::cta;", r"no fence\.proxy\.async"),
        (r"cp\.async\.bulk\.wait_group\.read \t?\d;", "a copy reads that has not been waited for"),
    ],
)
def test_boxes_that_leave_too_early_or_too_late_are_found(pattern: str, message: str) -> None:
    launch = kernel_of(no_operand, (64, 64))
    ptx, count = re.subn(pattern, "", launch.ptx)
    assert count
    with pytest.raises(RaceError, match=message):
        check(no_operand, replace(launch, ptx=ptx))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("tf32", "nt", (64, 66, 64)), "rows begin at multiples of 16 bytes"),
        (Case("bf16", "tt", (64, 68, 64)), "rows begin at multiples of 16 bytes"),
        (Case("bf16", "nt", (64, 64, 4096)), "whole sums"),
    ],
    ids=str,
)
def test_what_does_not_go_in_boxes_is_refused(case: Case, message: str) -> None:
    fields = {**SMALL, "split": 2} if case.sizes[2] > 64 else SMALL
    with pytest.raises(PassError, match=message):
        compile_program(case.compute, *case.arrays(), schedules={"gemm_0": fields})


def test_numbers_of_two_widths_do_not_go_in_boxes() -> None:
    def two_widths(x: blu.Tensor, w: blu.Tensor, before: blu.Tensor) -> tuple:
        total = times(x, w)
        return total, total + before

    x, w, before = (
        random_array(s, kind, n) for n, (s, kind) in enumerate(zip(SHAPES, ("bf16", "bf16", "f32"), strict=True))
    )
    with pytest.raises(PassError, match="numbers of as many bits"):
        compile_program(two_widths, x, w, before, schedules={"gemm_0": SMALL})


def coded(x: blu.Tensor, w: blu.Tensor) -> tuple:
    """A result of halves, and one of bytes."""
    total = blu.matmul(x, w)
    return total, (total.astype("f32").clip(-12, 12) * 10.0 + 128.5).astype("u8")


def decoded(x: blu.Tensor, w: blu.Tensor, code: blu.Tensor) -> blu.Tensor:
    """A result of halves in the place of an operand of bytes."""
    return (blu.matmul(x, w).astype("f32") * (code.astype("f32") - 128.0)).astype(x.dtype)


def nearest(x: blu.Tensor, w: blu.Tensor) -> tuple:
    """A result of halves, and one of bytes that need no comparison."""
    total = blu.matmul(x, w)
    return total, NearestByte(total.astype("f32").clip(-12, 12) * 10.0, above=128)


@pytest.mark.parametrize(
    ("function", "kind", "sizes", "fields"),
    [
        (coded, "bf16", (15, 16, 64), SMALL),
        (nearest, "f16", (1, 16, 64), SMALL),
        (coded, "f16", (65, 80, 72), SMALL),
        (nearest, "bf16", (63, 48, 64), SMALL),
        (coded, "bf16", (129, 144, 64), WIDE),
        (nearest, "f16", (127, 144, 64), WIDE),
        (nearest, "bf16", (400, 208, 64), {**WIDE, "columns": 192}),
    ],
    ids=lambda value: value.__name__ if callable(value) else str(value),  # not where a function lies
)
def test_bytes_beside_halves(function: Callable, kind: str, sizes: tuple[int, int, int], fields: Fields) -> None:
    rows, columns, depth = sizes
    x, w = random_array((rows, depth), kind), random_array((depth, columns), kind, 1)
    product = x.astype(np.float32) @ w.astype(np.float32)
    program = compile_program(function, x, w, schedules={"gemm_0": fields})
    ptx = program.ptx["gemm_0"]
    assert "st.global" not in ptx and ("prmt" in ptx) == (function is nearest)
    halves, code = program.interpret(x, w)
    scaled = np.clip(halves.astype(np.float32), -12, 12) * 10
    assert (np.abs(halves.astype(np.float32) - product) <= 2.0**-8 * np.abs(product) + 1e-4).all()
    assert (code == (np.rint(scaled + 128) if function is nearest else np.floor(scaled + 128.5))).all()
    program = compile_program(decoded, x, w, code, schedules={"gemm_0": fields})
    assert "ld.shared.u16" in program.ptx["gemm_0"] and "st.global" not in program.ptx["gemm_0"]
    (found,) = program.interpret(x, w, code)
    expected = halves.astype(np.float32) * (code.astype(np.float32) - 128)
    # Rounded, as what it is made of is.
    assert (np.abs(found.astype(np.float32) - expected) <= 2.0**-6 * np.abs(expected)).all()

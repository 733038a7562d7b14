"""Scans on GPUs, interpreted: every dtype, rows of a warp, of a block and of several blocks, columns, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import NUMBERS, DType, f16, f32, f64
from blu.passes.gpu.others import choice
from tests.support.kernels.gpu_program import GpuProgram, compile_program
from tests.support.kernels.scan_check import check_running_sum, numbers

make_context()
Case = tuple[tuple[int, ...], int]


def _compiled(cases: Sequence[Case], dtype: DType, change: Callable, target: str = "sm_90a") -> GpuProgram:
    """One program with all running sums of arrays of some shapes along axes."""

    def sums(*arrays):
        found = [blu.cumsum(change(x), axis=axis) for x, (_, axis) in zip(arrays, cases, strict=True)]
        # Sums of integers are i64: as the dtype, they are what a running sum in that dtype is.
        return [x.astype(dtype) for x in found] if dtype.is_integer else found

    return compile_program(sums, *(numbers(shape, dtype) for shape, _ in cases), target=target)


def _check(cases: Sequence[Case], dtype: DType, change: Callable = lambda x: x) -> GpuProgram:
    program = _compiled(cases, dtype, change)
    arrays = [numbers(shape, dtype) for shape, _ in cases]
    for result, array, (_, axis) in zip(program.interpret(*arrays), arrays, cases, strict=True):
        check_running_sum(result, change(array), axis)
    return program


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_rows_and_columns_of_every_dtype(dtype: DType) -> None:
    _check([((3, 131), 1), ((1, 1100), 1), ((2, 7, 5), 1)], dtype)


def test_lengths_around_threads_warps_and_tiles() -> None:
    _check([((2, length), 1) for length in (1, 3, 4, 5, 31, 33, 127, 129, 1023, 1024, 1025, 2047, 2049)], f32)


def test_more_rows_than_a_block_has_warps() -> None:
    _check([((rows, 9), 1) for rows in (7, 9)], f32)


@pytest.mark.parametrize("dtype", [f16, f32, f64], ids=str)
def test_a_long_row_is_cut_into_pieces(dtype: DType) -> None:
    length = 3 * choice.PIECE + 5
    program = _check([((length,), 0)], dtype)
    assert [launch["grid"][0] for launch in program.plan["launches"]] == [7, 7]


def test_pieces_of_several_tiles() -> None:
    x = numbers((2, 5000), f32)
    wish = {"scan_0": {"kind": "scan_rows", "length": 2048}}
    program = compile_program(lambda x: blu.cumsum(x, axis=1), x, schedules=wish)
    assert [launch["grid"][0] for launch in program.plan["launches"]] == [6, 6]
    check_running_sum(program.interpret(x)[0], x, 1)


def test_a_piece_of_an_argument_is_read_before_the_kernel_waits() -> None:
    text = compile_program(lambda x: blu.cumsum(x, axis=0), numbers((3 * choice.PIECE,), f32)).ptx["scan_0"]
    assert 0 < text.index("ld.global") < text.index("griddepcontrol.wait") < text.rindex("ld.global")


def test_long_columns_are_cut_into_pieces() -> None:
    program = _check([((3 * choice.COLUMN_PIECE + 1, 5), 0)], f32)
    assert len(program.plan["launches"]) == 2


def test_views_are_read_in_place() -> None:
    _check([((12, 40), 1)], f32, lambda x: x[::-1, ::3])
    _check([((12, 40), 1)], f32, lambda x: x.T[3:, 1::2])


def test_the_gradient_sums_from_the_end() -> None:
    weights = numbers((2, 150), f32)

    def gradient(x, w):
        return blu.grad(lambda x: (blu.cumsum(x, axis=1) * w).sum())(x)

    (result,) = compile_program(gradient, weights, weights).interpret(np.zeros_like(weights), weights)
    check_running_sum(result[:, ::-1], weights[:, ::-1], 1)


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
def test_kernels_spill_nothing(target: str) -> None:
    cases = [((3, 131), 1), ((1, 1100), 1), ((3 * choice.PIECE,), 0), ((3 * choice.COLUMN_PIECE, 5), 0)]
    for dtype in (f16, f64):
        program = _compiled(cases, dtype, lambda x: x, target)
        assert len(program.kernels("scan")) == 6
        assert not program.spills("scan")


@pytest.mark.parametrize("name", ["cumprod", "cummax", "cummin", "logcumsumexp"])
def test_other_scans_and_their_gradients(name: str) -> None:
    """Rows of a warp, of a block, of pieces, and columns. Gradients carry two numbers, whose order matters."""
    shapes = [((3, 131), 1), ((1, 1100), 1), ((2, 7, 5), 1), ((1, choice.PIECE + 7), 1)]
    rng = np.random.default_rng(3)
    arrays = [rng.normal(1, 0.02, shape).astype(np.float32) for shape, _ in shapes]

    def values(*arrays):
        return [getattr(blu, name)(x, axis) for x, (_, axis) in zip(arrays, shapes, strict=True)]

    def both(*arrays):
        slopes = blu.grad(lambda *arrays: sum((x * x).sum() for x in values(*arrays)), argnums=range(len(arrays)))
        return [*values(*arrays), *slopes(*arrays)]

    wide = [array.astype(np.float64) for array in arrays]
    expected = blu.jit(both)(*wide)
    for found, other in zip(compile_program(both, *arrays).interpret(*arrays), expected, strict=True):
        np.testing.assert_allclose(found, other, rtol=2e-4)

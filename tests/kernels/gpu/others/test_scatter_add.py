"""Adding at indices on GPUs: runs of equal indices that lie in a piece, cross pieces, or are all there is."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program
from tests.support.kernels.scatter_order import WARP, WARPS, scatter_in_pieces

PIECE = 4
"""Of sorted places, for tests: the least that there is."""
ROWS = 700
COUNTS = (1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE - 1, 2 * PIECE, 33, (WARP * WARPS + WARP + 2) * PIECE + 1)
"""Of updates: around a piece, and so many that a warp adds up parts of more than its first 32 pieces."""
CHOSEN: dict[str, Callable[[int], np.ndarray]] = {
    "one": lambda count: np.full(count, ROWS - 1),
    "one, from the end": lambda count: np.full(count, -ROWS),
    "different": lambda count: np.random.default_rng(0).permutation(ROWS)[:count] - 7,
    "as long as pieces": lambda count: np.random.default_rng(0).permutation(np.arange(count) // PIECE),
    "one longer than pieces": lambda count: np.arange(count)[::-1] // (PIECE + 1),
    "half as long": lambda count: np.arange(count) // (PIECE // 2),
    "few": lambda count: np.random.default_rng(1).integers(-3, 3, count),
    "one most of the time": lambda count: np.minimum(np.random.default_rng(2).integers(0, 9 * count, count), 5),
}


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers whose sums depend on their order, where there are such."""
    found = np.random.default_rng([seed, *shape]).standard_normal(shape) * 9
    return (np.abs(found) if dtype == "u8" else found).astype(DTYPES[dtype])


def compiled(kind: str, *arguments: np.ndarray) -> GpuProgram:
    return compile_program(blu.scatter_add, *arguments, schedules={"scatter_add_0": {"kind": kind, "piece": PIECE}})


def check(program: GpuProgram, table: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> None:
    expected = scatter_in_pieces(table, indices, updates, PIECE)
    (found,) = program.interpret(table, indices, updates)
    np.testing.assert_array_equal(found, expected)
    assert np.array_equal(np.signbit(found.astype(np.float64)), np.signbit(expected.astype(np.float64)))


@pytest.mark.parametrize("count", COUNTS)
def test_runs_around_pieces_are_added_in_a_fixed_order(count: int) -> None:
    table, updates = values((ROWS, 3), "f32"), values((count, 3), "f32", 1)
    program = compiled("radix", table, np.zeros(count, np.int64), updates)
    for chosen in CHOSEN.values():
        check(program, table, chosen(count).astype(np.int64), updates)


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool" and not name.startswith("f8")])
def test_every_dtype_is_added_in_that_order(dtype: str) -> None:
    """Two columns are one load of some dtypes; indices are i32 here."""
    table, updates = values((9, 6), dtype), values((45, 6), dtype, 1)
    indices = np.random.default_rng(0).integers(-9, 9, 45).astype(np.int32)
    indices[::2] = 5
    check(compiled("sorted", table, indices, updates), table, indices, updates)


@pytest.mark.parametrize("width", [1, 31, 32, 33, 768, 769])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_rows_of_every_width(width: int, dtype: str) -> None:
    """One lane of a warp, some vectors of a warp, more columns than a block has."""
    table, updates = values((5, width), dtype), values((19, width), dtype, 1)
    indices = np.array([1] * 10 + [3, 4] * 4 + [2])
    check(compiled("radix", table, indices, updates), table, indices, updates)


def test_zeros_keep_their_signs() -> None:
    """A sum of zeros is -0 if all are, however many pieces they are in."""
    table, updates = np.full((3, 4), -0.0, np.float32), np.full((30, 4), -0.0, np.float32)
    indices, updates[20] = np.array([0] * 15 + [1] * 14 + [2]), 0.0
    check(compiled("radix", table, indices, updates), table, indices, updates)


def test_columns_before_and_behind_the_axis() -> None:
    """Indices of two dimensions, and no columns behind them, which are one element after the other."""
    table, updates = values((2, 7, 4), "f32"), values((2, 5, 3, 4), "f32", 1)
    indices = np.arange(15).reshape(5, 3) % 4 // 2
    schedules = {f"scatter_add_{number}": {"kind": "radix", "piece": PIECE} for number in range(2)}

    def add(table: blu.Tensor, indices: blu.Tensor, updates: blu.Tensor) -> tuple:
        last = blu.scatter_add(table.transpose(0, 2, 1), indices, updates.transpose(0, 3, 1, 2), axis=2)
        return blu.scatter_add(table, indices, updates, axis=1), last

    arguments = table, indices, updates
    found, last = compile_program(add, *arguments, schedules=schedules).interpret(*arguments)
    expected = np.stack(
        [scatter_in_pieces(table[n], indices.ravel(), updates[n].reshape(15, 4), PIECE) for n in range(2)]
    )
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(last, expected.transpose(0, 2, 1))


def test_updates_that_begin_between_vectors() -> None:
    """Rows of a slice begin where no wide load may; those of the table do not."""
    table, updates = values((5, 8), "f32"), values((19, 9), "f32", 1)
    indices = np.array([1] * 10 + [3, 4] * 4 + [2])
    schedules = {"scatter_add_0": {"kind": "radix", "piece": PIECE}}
    arguments = table, indices, updates
    program = compile_program(
        lambda table, indices, updates: blu.scatter_add(table, indices, updates[:, 1:]), *arguments, schedules=schedules
    )
    check_against = scatter_in_pieces(table, indices, updates[:, 1:], PIECE)
    np.testing.assert_array_equal(program.interpret(*arguments)[0], check_against)


def test_many_updates_of_one_row_are_added_more_exactly_than_one_by_one() -> None:
    table, indices = np.zeros((2, 1), np.float32), np.ones(4096, np.int32)
    updates = np.random.default_rng(0).random((4096, 1), np.float32)
    (found,) = compile_program(blu.scatter_add, table, indices, updates).interpret(table, indices, updates)
    exact, serial = updates.sum(dtype=np.float64), np.add.accumulate(updates[:, 0])[-1]
    assert abs(found[1, 0] - exact) <= 2e-7 * exact < abs(serial - exact)


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("dtype", ["i8", "f16", "f32", "f64"])
def test_nothing_is_spilled(dtype: str) -> None:
    """Of the widest vectors, and of single elements."""
    for width in (768, 769):
        arguments = values((300, width), dtype), np.zeros(5000, np.int32), values((5000, width), dtype)
        assert compile_program(blu.scatter_add, *arguments).spills("scatter_add") == {}


@pytest.mark.parametrize(
    ("count", "width", "dtype", "kind", "piece"),
    [
        (64, 3, "f32", "in_order", None),
        (2, 3, "bf16", "sorted", 64),
        (64, 3, "bf16", "sorted", 64),
        (65, 3, "f32", "sorted", 16),
        (4096, 3, "f32", "sorted", 16),
        (4097, 3, "f32", "radix", 16),
        (16384, 3, "f32", "radix", 16),
        (16385, 3, "f32", "radix", 64),
        (5000, 0, "bf16", "in_order", None),
        (0, 3, "bf16", "in_order", None),
    ],
)
def test_sizes_choose_how_updates_are_added(count: int, width: int, dtype: str, kind: str, piece: int | None) -> None:
    specs = blu.spec((50, width), dtype), blu.spec((count,), "i32"), blu.spec((count, width), dtype)
    text = str(blu.jit(blu.scatter_add).trace(*specs).lower("sm_90a", stop="blu-choose-schedules").module)
    found = re.search(r'kind = "(in_order|sorted|radix)"(?:, piece = (\d+) : i64)?', text)
    assert found and found[1] == kind and found[2] == (None if piece is None else str(piece))

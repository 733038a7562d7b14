"""Kernels for GPUs at sizes around a warp, a block and more, in every dtype and family, against NumPy, in all bits.

Numbers are chosen so that sums are exact, whatever their order, and use all bits of their dtype: what gets lost between
threads, warps, blocks or launches is seen. All sizes of a family and dtype are one program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import DTYPES, compile_program

Arrays = tuple[np.ndarray, ...]
LENGTHS = (0, 1, 31, 32, 33, 127, 128, 129, 1023, 1025, 5000)
"""Around a warp, a block, a block's vectors, and more than a few blocks."""
FEW = (0, 1, 2, 31, 33, 65)
FLOATS = ("f16", "bf16", "f32", "f64")
ALL = tuple(dtype for dtype in DTYPES if not dtype.startswith("f8"))
NUMBERS = tuple(dtype for dtype in ALL if dtype != "bool")
OF_EACH_SIZE = ("bool", "i8", "bf16", "f32", "f64")
"""Of 1, 2, 4 and 8 bytes."""
# Bits of whole numbers, and of the fractions that they are: few enough that sums of some thousands are exact.
_BITS = {"f16": (9, 6), "bf16": (7, 5), "f32": (16, 12), "f64": (45, 40)}


def numbers(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    """Random numbers that use all bits of their dtype."""
    generator = np.random.default_rng([seed, *shape])
    if dtype in _BITS:
        bits, fraction = _BITS[dtype]
        return (generator.integers(-(1 << bits) + 1, 1 << bits, shape) * 2.0**-fraction).astype(DTYPES[dtype])
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    limits = np.iinfo(DTYPES[dtype])
    return generator.integers(limits.min, limits.max, shape, dtype=DTYPES[dtype], endpoint=True)


def exact_sum(x: np.ndarray, axis: int) -> np.ndarray:
    """Sums as Blu has them: of whole numbers in i64, or u64 where there are no others, of halves rounded once."""
    if x.dtype.kind in "biu":
        return x.sum(axis, dtype=np.uint64 if x.dtype.kind == "u" else np.int64)
    return x.astype(np.float64).sum(axis).astype(x.dtype)


@dataclass(frozen=True)
class Family:
    """A function of arrays, what it is in NumPy, and its arguments for each shape and dtype."""

    function: Callable
    reference: Callable
    shapes: tuple[tuple[int, ...], ...]
    arguments: Callable[[tuple[int, ...], str], Arrays] = lambda shape, dtype: (numbers(shape, dtype),)
    dtypes: tuple[str, ...] = ALL
    # The shape that is checked first, of one more than a block.
    beyond: int = -2


def pairs(shape: tuple[int, ...], dtype: str) -> Arrays:
    """Two arrays of a shape."""
    return numbers(shape, dtype), numbers(shape, dtype, 1)


def few_values(shape: tuple[int, ...], dtype: str) -> Arrays:
    """Numbers of which many are equal."""
    low = 0 if dtype in ("bool", "u8") else -9
    return (np.random.default_rng(shape).integers(low, 2 if dtype == "bool" else 9, shape).astype(DTYPES[dtype]),)


def chosen(shape: tuple[int, ...], dtype: str) -> Arrays:
    """A table of 7 rows, and indices into it, some counted from the end."""
    count, width = shape
    return numbers((7, width), dtype), np.random.default_rng(shape).integers(-7, 7, count)


def added(shape: tuple[int, ...], dtype: str) -> Arrays:
    """A table of 7 rows, indices into it, most of them one row's, and what is added there."""
    count, width = shape
    indices = np.minimum(np.random.default_rng(shape).integers(-7, 30, count), 3)
    return numbers((7, width), dtype), indices, numbers(shape, dtype, 1)


def scatter(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
    """Sums of whole numbers wrap."""
    result = x.copy()
    np.add.at(result, indices, updates)
    return result


def windows(shape: tuple[int, ...], dtype: str) -> Arrays:
    """An array, an update two smaller in each dimension, and where it goes."""
    inner = tuple(max(size - 2, 0) for size in shape)
    return numbers(shape, dtype), numbers(inner, dtype, 1), np.int32(1), np.int32(2)


def put_window(x: np.ndarray, update: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Windows are moved inside."""
    first, second = (
        min(int(start), size - inner) for start, size, inner in zip((row, column), x.shape, update.shape, strict=True)
    )
    result = x.copy()
    result[first : first + update.shape[0], second : second + update.shape[1]] = update
    return result


def vectors(*lengths: int) -> tuple[tuple[int, ...], ...]:
    return tuple((length,) for length in lengths)


def rows(count: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
    return tuple((count, length) for length in lengths)


def columns(count: int, *lengths: int) -> tuple[tuple[int, ...], ...]:
    return tuple((length, count) for length in lengths)


FAMILIES = {
    "pointwise": Family(lambda x, y: blu.where(x != y, y, x), lambda x, y: y, vectors(*LENGTHS), pairs),
    "pointwise, strided": Family(
        lambda x: blu.where(x[1:, :-1:3] != x[1:, 1::3], x[1:, :-1:3], x[1:, 1::3]),
        lambda x: x[1:, :-1:3],
        rows(3, 2, 5, 98, 386, 1541),
    ),
    "pointwise, broadcast": Family(
        lambda x: blu.where(x[:, None] != x, x, x[:, None]),
        lambda x: np.broadcast_to(x, (len(x), len(x))),
        vectors(*FEW),
    ),
    "row sums": Family(lambda x: blu.sum(x, axis=1), lambda x: exact_sum(x, 1), rows(3, *LENGTHS)),
    "sums of many rows": Family(lambda x: blu.sum(x, axis=1), lambda x: exact_sum(x, 1), columns(3, 129, 1500)),
    "row maxima": Family(
        lambda x: (blu.max(x, axis=1), blu.min(x, axis=1)),
        lambda x: (x.max(1), x.min(1)),
        rows(3, *LENGTHS[1:]),
        dtypes=NUMBERS,
    ),
    "differences from maxima": Family(
        lambda x: blu.max(x, axis=1, keepdims=True) == x,
        lambda x: x.max(1, keepdims=True) == x,
        rows(5, *LENGTHS[1:]),
        dtypes=NUMBERS,
    ),
    "full sums": Family(lambda x: blu.sum(x), lambda x: exact_sum(x, 0), vectors(0, 1, 65, 5000, 20000)),
    "column sums": Family(
        lambda x: blu.sum(x, axis=0), lambda x: exact_sum(x, 0), columns(5, *LENGTHS[:-1], 1500), beyond=7
    ),
    "sums of many columns": Family(
        lambda x: blu.sum(x, axis=0), lambda x: exact_sum(x, 0), columns(257, 65, 3), beyond=-1
    ),
    "row and column sums": Family(
        lambda x: (blu.sum(x, axis=1), blu.sum(x, axis=0)),
        lambda x: (exact_sum(x, 1), exact_sum(x, 0)),
        ((1, 33), (65, 33), (300, 40)),
    ),
    "searches": Family(
        lambda x: (blu.argmax(x, axis=1), blu.argmin(x, axis=1)),
        lambda x: (x.argmax(1), x.argmin(1)),
        rows(3, *LENGTHS[1:-1], 2050),
        few_values,
        beyond=6,
    ),
    "searches in columns": Family(
        lambda x: (blu.argmax(x, axis=0), blu.argmin(x, axis=0)),
        lambda x: (x.argmax(0), x.argmin(0)),
        columns(5, 33, 65, 257),
        few_values,
    ),
    "sorting": Family(
        lambda x: (blu.sort(x, axis=-1), blu.argsort(x, axis=-1)),
        lambda x: (np.sort(x, axis=-1), np.argsort(x, axis=-1, kind="stable")),
        rows(2, *LENGTHS[:-3], 65, 257),
        few_values,
    ),
    "gathers": Family(
        lambda x, i: blu.take(x, i, axis=0),
        lambda x, i: x[i],
        ((0, 3), (1, 1), (33, 1), (129, 33), (65, 128), (3, 1025)),
        chosen,
    ),
    "gathers along rows": Family(
        lambda x, i: blu.take_along_axis(x, i[:, None], axis=0),
        lambda x, i: np.take_along_axis(x, np.broadcast_to(i[:, None], (len(i), x.shape[1])), 0),
        ((1, 1), (33, 1), (129, 33)),
        chosen,
    ),
    "scatter_add": Family(
        blu.scatter_add,
        scatter,
        ((0, 3), (1, 1), (63, 33), (64, 5), (65, 2), (257, 1), (300, 33)),
        added,
        ("i8", "i32", "i64", "u8", "f32", "f64"),
        beyond=4,
    ),
    "updates": Family(
        lambda x, update, row, column: blu.dynamic_update_slice(x, update, (row, column)),
        put_window,
        ((2, 2), (3, 3), (17, 18), (18, 18), (18, 19), (65, 257)),
        windows,
    ),
    "transposes": Family(
        lambda x: blu.where(blu.transpose(x) == blu.transpose(x), blu.transpose(x), blu.transpose(x[::-1])),
        lambda x: x.T,
        ((1, 1), (15, 17), (16, 16), (31, 33), (32, 64), (129, 65)),
    ),
    "concatenations": Family(
        lambda x, y: blu.concatenate([x, y, x[:1]]),
        lambda x, y: np.concatenate([x, y, x[:1]]),
        vectors(*LENGTHS),
        pairs,
    ),
}


def check(name: str, problems: list[tuple[tuple[int, ...], str]]) -> None:
    """Run a family's function on arguments for shapes and dtypes, all in one program."""
    family = FAMILIES[name]
    arguments = [family.arguments(*problem) for problem in problems]
    places = np.cumsum([0, *map(len, arguments)])

    def every_problem(*flat: blu.Tensor) -> list:
        return [family.function(*flat[first:last]) for first, last in pairwise(places)]

    flat = [np.asarray(item) for group in arguments for item in group]
    found = iter(compile_program(every_problem, *flat).interpret(*flat))
    for problem, group in zip(problems, arguments, strict=True):
        expected = family.reference(*group)
        for wanted in expected if isinstance(expected, tuple) else (expected,):
            result = next(found)
            assert result.dtype == wanted.dtype, f"{problem}: {result.dtype}, not {wanted.dtype}"
            np.testing.assert_array_equal(result, wanted, err_msg=f"{name} of {problem}")


@pytest.mark.parametrize("name", FAMILIES)
def test_kernels_of_every_dtype_are_right_beyond_a_block(name: str) -> None:
    family = FAMILIES[name]
    check(name, [(family.shapes[family.beyond], dtype) for dtype in family.dtypes])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, family in FAMILIES.items() for dtype in family.dtypes if dtype in OF_EACH_SIZE],
)
def test_kernels_of_every_size_are_right(name: str, dtype: str) -> None:
    check(name, [(shape, dtype) for shape in FAMILIES[name].shapes])

"""Laws of the array-API standard on arrays of random shapes and dtypes: what NumPy's main namespace gives as well."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, basic_indices

import blu.array_api as xp

SIGNED, UNSIGNED = ("int8", "int16", "int32", "int64"), ("uint8", "uint16", "uint32", "uint64")
FLOATS, COMPLEXES = ("float32", "float64"), ("complex64", "complex128")
INTEGERS = SIGNED + UNSIGNED
NUMBERS = INTEGERS + FLOATS + COMPLEXES
ALL = ("bool", *NUMBERS)
SHAPES = array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
NOT_EMPTY = array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4)
# What NumPy computes is quick; of what is compiled, each shape is another program.
on_host = settings(max_examples=25, deadline=None, derandomize=True)
compiled = settings(max_examples=4, deadline=None, derandomize=True)


def counting(shape: tuple[int, ...], dtype: str, below: int = 100) -> np.ndarray:
    return (np.arange(np.prod(shape, dtype=int)) % below).reshape(shape).astype(dtype)


def random(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    imaginary = 1j * rng.standard_normal(shape) if dtype in COMPLEXES else 0
    return (rng.standard_normal(shape) + imaginary).astype(dtype)


def same(found: Any, expected: Any, tolerance: float = 0.0) -> None:
    """Arrays of the same shape and dtype, and of the same numbers to the tolerance."""
    expected = np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("family", [("bool",), INTEGERS, FLOATS + COMPLEXES])
def test_dtypes_of_a_family_promote_as_numpys(family: tuple[str, ...]) -> None:
    for one, other in itertools.combinations_with_replacement(family, 2):
        if not {one, other} & {"uint64"} or not {one, other} & set(SIGNED):
            expected = np.result_type(one, other)
            assert xp.result_type(getattr(xp, one), getattr(xp, other)) == expected
            assert xp.result_type(xp.ones(2, dtype=other), getattr(xp, one)) == expected


@on_host
@given(SHAPES, st.sampled_from(ALL), st.integers(-3, 3))
def test_arrays_are_made_in_the_shape_and_dtype_named(shape: tuple[int, ...], dtype: str, diagonal: int) -> None:
    for name in ("zeros", "ones"):
        same(getattr(xp, name)(shape, dtype=dtype), getattr(np, name)(shape, dtype))
        like = getattr(xp, f"{name}_like")
        same(like(xp.zeros(shape, dtype="int8"), dtype=dtype), getattr(np, name)(shape, dtype))
        same(like(xp.zeros(shape, dtype=dtype)), getattr(np, name)(shape, dtype))
    same(xp.full(shape, 1, dtype=dtype), np.ones(shape, dtype))
    assert (xp.empty(shape, dtype=dtype).shape, xp.empty(shape, dtype=dtype).dtype) == (shape, dtype)
    if len(shape) == 2:
        same(xp.eye(*shape, k=diagonal, dtype=dtype), np.eye(*shape, k=diagonal, dtype=dtype))


@on_host
@given(NOT_EMPTY, st.data(), st.sampled_from(ALL))
def test_arrays_are_indexed_as_numpys(shape: tuple[int, ...], data: st.DataObject, dtype: str) -> None:
    array = counting(shape, dtype)
    x = xp.asarray(array)
    key = data.draw(basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    rows = np.array(data.draw(st.lists(st.integers(-shape[0], shape[0] - 1), max_size=3)), np.int64)
    first = (0,) * (len(shape) - 1)
    same(x[key], array[key])
    same(x[xp.asarray(rows)], array[rows])
    same(x[(xp.asarray(rows), *first)], array[(rows, *first)])
    same(x[xp.asarray(array != 0)], array[array != 0])


SPECTRA = {
    "fft": COMPLEXES,
    "ifftn": COMPLEXES,
    "rfft": FLOATS,
    "irfftn": COMPLEXES,
    "hfft": COMPLEXES,
    "ihfft": FLOATS,
}


@on_host
@given(st.sampled_from(sorted(SPECTRA)), NOT_EMPTY, st.sampled_from(("backward", "ortho", "forward")), st.data())
def test_spectra_are_numpys(name: str, shape: tuple[int, ...], norm: str, data: st.DataObject) -> None:
    array = random(shape, data.draw(st.sampled_from(SPECTRA[name])))
    axis, length = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.integers(2, 7))
    where = {"axes": (axis,), "s": (length,)} if name.endswith("n") else {"axis": axis, "n": length}
    same(
        getattr(xp.fft, name)(xp.asarray(array), norm=norm, **where),
        getattr(np.fft, name)(array, norm=norm, **where),
        1e-4,
    )


@on_host
@given(
    array_shapes(min_dims=0, max_dims=1, min_side=0), st.integers(0, 4), st.integers(0, 4), st.sampled_from(NUMBERS[8:])
)
def test_factors_of_matrices_multiply_to_them(batch: tuple[int, ...], rows: int, columns: int, dtype: str) -> None:
    matrix, square = random((*batch, rows, columns), dtype), random((*batch, columns, columns), dtype)
    q, r = map(np.asarray, xp.linalg.qr(xp.asarray(matrix)))
    u, s, v = map(np.asarray, xp.linalg.svd(xp.asarray(matrix), full_matrices=False))
    same(q @ r, matrix, 1e-4)
    same((u * s[..., None, :]).astype(dtype) @ v, matrix, 1e-4)
    hermitian = square @ square.conj().mT + np.eye(columns, dtype=dtype)
    lower = np.asarray(xp.linalg.cholesky(xp.asarray(hermitian)))
    values, vectors = map(np.asarray, xp.linalg.eigh(xp.asarray(hermitian)))
    same(lower @ lower.conj().mT, hermitian, 1e-3)
    same((vectors * values[..., None, :]).astype(dtype) @ vectors.conj().mT, hermitian, 1e-3)
    same(
        np.asarray(xp.linalg.inv(xp.asarray(hermitian))) @ hermitian,
        np.broadcast_to(np.eye(columns, dtype=dtype), hermitian.shape),
        1e-2,
    )


@compiled
@given(NOT_EMPTY, st.sampled_from(INTEGERS + FLOATS), st.booleans(), st.data())
def test_elements_are_sorted_and_found(shape: tuple[int, ...], dtype: str, down: bool, data: st.DataObject) -> None:
    array = np.random.default_rng(len(shape)).integers(0, 4, shape).astype(dtype)
    x, axis = xp.asarray(array), data.draw(st.integers(-len(shape), len(shape) - 1))
    ordered = np.sort(array, axis=axis)
    same(xp.sort(x, axis=axis, descending=down), np.flip(ordered, axis) if down else ordered)
    same(xp.take_along_axis(x, xp.argsort(x, axis=axis), axis=axis), ordered)
    same(xp.argmax(x, axis=axis, keepdims=down), np.argmax(array, axis=axis, keepdims=down))
    same(xp.count_nonzero(x, axis=axis), np.count_nonzero(array, axis=axis))
    for found, expected in zip(xp.unique_all(x), np.unique_all(array), strict=True):
        same(found, expected)


@compiled
@given(SHAPES.filter(len), st.sampled_from(ALL), st.data())
def test_elements_are_moved_as_numpys(shape: tuple[int, ...], dtype: str, data: st.DataObject) -> None:
    array = counting(shape, dtype)
    x, axis = xp.asarray(array), data.draw(st.integers(-len(shape), len(shape) - 1))
    axes = data.draw(st.permutations(range(len(shape))))
    many = [data.draw(st.integers(0, 2)) for _ in range(shape[axis])]
    same(xp.permute_dims(x, tuple(axes)), np.transpose(array, axes))
    same(xp.roll(xp.flip(x, axis=axis), 2, axis=axis), np.roll(np.flip(array, axis), 2, axis))
    same(xp.concat([x, x], axis=axis), np.concatenate([array, array], axis))
    same(xp.stack([x, x], axis=axis), np.stack([array, array], axis))
    same(xp.repeat(x, xp.asarray(many, dtype=xp.int64), axis=axis), np.repeat(array, np.array(many, np.int64), axis))
    same(xp.tile(xp.expand_dims(x, axis=axis), (2, 1)), np.tile(np.expand_dims(array, axis), (2, 1)))


@compiled
@given(NOT_EMPTY, st.sampled_from(NUMBERS), st.booleans(), st.data())
def test_statistics_are_numpys(shape: tuple[int, ...], dtype: str, keep: bool, data: st.DataObject) -> None:
    array = counting(shape, dtype, below=3) + np.ones((), dtype)
    x, axis = xp.asarray(array), data.draw(st.integers(-len(shape), len(shape) - 1))
    axes = data.draw(st.sampled_from((None, axis, tuple(range(len(shape))))))
    real = () if dtype in COMPLEXES else ("max", "min")
    floating = ("mean",) if dtype in FLOATS + COMPLEXES else ()
    for name in ("sum", "prod", "any", "all", *real, *floating):
        same(getattr(xp, name)(x, axis=axes, keepdims=keep), getattr(np, name)(array, axis=axes, keepdims=keep), 1e-4)
    for name in ("cumulative_sum", "cumulative_prod"):
        expected = getattr(np, name)(array, axis=axis, include_initial=keep)
        same(getattr(xp, name)(x, axis=axis, include_initial=keep), expected, 1e-4)


@pytest.mark.parametrize(("dtype", "number"), [("float32", 2.0), ("float32", 2), ("int8", 1), ("complex64", 2.0)])
def test_python_numbers_take_the_dtype_of_arrays(dtype: str, number: float) -> None:
    x = xp.asarray([1, 3], dtype=dtype)
    whole = () if dtype == "complex64" else ("__mod__", "__rfloordiv__")
    for name in ("__add__", "__rsub__", "__mul__", "__pow__", *whole):
        assert getattr(x, name)(number).dtype == dtype
    if dtype == "float32":
        for name in ("maximum", "atan2", "hypot", "copysign", "nextafter", "logaddexp"):
            assert {getattr(xp, name)(x, number).dtype, getattr(xp, name)(number, x).dtype} == {x.dtype}
    assert xp.where(x == 1, x, number).dtype == dtype

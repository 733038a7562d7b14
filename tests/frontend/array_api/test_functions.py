"""Functions of `blu.array_api` against those of NumPy's main namespace, eagerly and in compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
import blu.array_api as xp
from blu.errors import BluError, DTypeError

RNG = np.random.default_rng(2)
A = RNG.uniform(-2, 2, (2, 3, 4)).astype(np.float32)
N = RNG.integers(0, 5, (2, 3, 4)).astype(np.uint8)
C = A + 1j * A[:, ::-1]
M = RNG.normal(size=(2, 3, 3))
H = M @ M.mT + np.eye(3)

Call = Callable[..., Any]


def same(found: Any, expected: Any) -> None:
    """Arrays of the same shapes, dtypes and numbers."""
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    assert (found.shape, found.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=2e-6, atol=1e-6)


# What is compiled, in one program: the call, of the namespace and arrays.
COMPILED: list[tuple[Call, tuple[np.ndarray, ...]]] = [
    (lambda m, x: m.sum(x, axis=(0, 2), keepdims=True), (A,)),
    (lambda m, x: m.var(x, axis=1, correction=1.0), (A,)),
    (lambda m, x: m.mean(x), (A,)),
    (lambda m, x: m.cumulative_sum(x, axis=1, include_initial=True), (A,)),
    (lambda m, x: m.cumulative_prod(x, axis=-1, include_initial=True), (A,)),
    (lambda m, x: m.diff(x, axis=0, prepend=x[:1]), (A,)),
    (lambda m, x: m.concat([x, x], axis=None), (A,)),
    (lambda m, x: m.permute_dims(x, (2, 0, -2)), (A,)),
    (lambda m, x: m.expand_dims(x, axis=(0, -1)), (A,)),
    (lambda m, x: m.reshape(x, (4, -1)), (A,)),
    (lambda m, x: m.roll(x, (1, 2), axis=(0, -1)), (A,)),
    (lambda m, x: m.tile(x, (2, 1, 1, 1)), (A,)),
    (lambda m, x: tuple(m.unstack(x, axis=-1)), (A,)),
    (lambda m, x, y: m.broadcast_arrays(x, y), (A, A[0, :1])),
    (lambda m, x: m.take(x, m.asarray([2, 0]), axis=1), (A,)),
    (lambda m, x: m.clip(x, -1, 1), (A,)),
    (lambda m, x: m.clip(x, m.asarray(1, dtype=m.uint8), 3), (N,)),
    (lambda m, x: m.tril(x, k=1), (A,)),
    (lambda m, x: tuple(m.meshgrid(x, x, indexing="ij")), (A[0, 0],)),
    (lambda m, x: m.pow(m.abs(x), 2.5) + m.atan2(x, x) + m.hypot(x, x), (A,)),
    (lambda m, x: m.bitwise_left_shift(m.bitwise_invert(x), m.asarray(1, dtype=m.uint8)), (N,)),
    (lambda m, x: m.sort(x, axis=0, stable=False), (A,)),
    (lambda m, x: m.isin(x, x[0, 0, :2]), (N,)),
    (lambda m, x: m.tensordot(x, x, axes=((1, 2), (1, 2))), (A,)),
    (lambda m, x: m.vecdot(x, x[0], axis=-2), (A,)),
    (lambda m, x: m.linalg.trace(x[..., :3]), (A,)),
    (lambda m, x: m.linalg.outer(x[0, 0], x[1, 1]), (A,)),
    (lambda m, x: m.linalg.matrix_norm(x, ord=1), (A,)),
    (lambda m, x: m.linalg.vector_norm(x, axis=(0, 1), ord=3), (A,)),
    (lambda m, x: m.linspace(0, 3, 5, endpoint=False) + m.sum(x), (A,)),
    (lambda m: m.zeros((2, 2)) + m.full((2, 2), 3) + m.eye(2, k=1) + m.arange(2), ()),
]


def test_compiled_functions_are_numpys() -> None:
    arrays = [list(given) for _, given in COMPILED]
    found = blu.jit(lambda rows: [call(xp, *row) for (call, _), row in zip(COMPILED, rows, strict=True)])(arrays)
    for (call, given), one in zip(COMPILED, found, strict=True):
        same(one, call(np, *given))


LINEAR_ALGEBRA: list[tuple[Call, tuple[np.ndarray, ...]]] = [
    *((lambda m, x, name=name: getattr(m.linalg, name)(x), (M,)) for name in ("det", "inv", "pinv", "svdvals", "qr")),
    *((lambda m, x, name=name: getattr(m.linalg, name)(x), (H,)) for name in ("cholesky", "eigvalsh", "slogdet")),
    *((lambda m, x, order=order: m.linalg.matrix_norm(x, ord=order), (M,)) for order in (2, -2, "nuc", "fro")),
    (lambda m, x: m.linalg.matrix_rank(x), (M,)),
    (lambda m, x, y: m.linalg.solve(x, y), (H, M[0, 0])),
    (lambda m, x: m.linalg.matrix_power(x, -3), (M,)),
    (lambda m, x: m.linalg.cholesky(x, upper=True), (H,)),
    (lambda m, x: m.linalg.eigh(x)[0], (H,)),
    (lambda m, x: m.linalg.svd(x, full_matrices=False)[1], (M,)),
]


@pytest.mark.parametrize("number", range(len(LINEAR_ALGEBRA)))
def test_linear_algebra_is_compiled_where_it_is_of_tensors(number: int) -> None:
    call, given = LINEAR_ALGEBRA[number]
    same(blu.jit(lambda *arrays: call(xp, *arrays))(*given), call(np, *given))


# What NumPy computes, or what needs a program only of its own.
EAGER: list[tuple[Call, tuple[np.ndarray, ...]]] = [
    *((lambda m, x, name=name: getattr(m.linalg, name)(x), (M,)) for name in ("det", "inv", "pinv", "svdvals", "qr")),
    *((lambda m, x, name=name: getattr(m.linalg, name)(x), (H,)) for name in ("cholesky", "eigvalsh", "slogdet")),
    *((lambda m, x, name=name: getattr(m.linalg, name)(x), (M,)) for name in ("matrix_rank", "trace", "diagonal")),
    *((lambda m, x, order=order: m.linalg.matrix_norm(x, ord=order), (C,)) for order in (2, "nuc", "fro")),
    (lambda m, x, y: m.linalg.solve(x, y), (H, M[0, 0])),
    (lambda m, x: m.linalg.matrix_power(x, 3), (M,)),
    (lambda m, x: m.linalg.cholesky(x, upper=True), (H,)),
    (lambda m, x: m.linalg.eigh(x)[0], (H,)),
    (lambda m, x: m.linalg.svd(x, full_matrices=False)[1], (M,)),
    (lambda m, x: m.fft.rfft(x, n=6, axis=1, norm="ortho"), (A,)),
    (lambda m, x: m.fft.fftn(x), (C,)),
    (lambda m, x: m.fft.ifftshift(x, axes=1), (A,)),
    (lambda m: m.fft.rfftfreq(7, d=0.5), ()),
    *((lambda m, x, name=name: getattr(m, name)(x), (C,)) for name in ("abs", "imag", "conj", "square", "sign")),
    (lambda m, x: (m.sum(x), m.prod(x, axis=0), m.cumulative_sum(x[0, 0])), (N,)),
    (lambda m, x: m.add(m.astype(x, m.uint32), 7), (N,)),
    (lambda m, x: m.multiply(x, 2j), (A,)),
    (lambda m, x: m.nonzero(x), (N,)),
    (lambda m, x: tuple(m.unique_all(x)), (N,)),
    (lambda m, x: tuple(m.unique_counts(x)), (N,)),
    (lambda m, x: m.repeat(x, m.asarray([1, 0, 2]), axis=1), (A,)),
    (lambda m, x: (x * 2)[x > 0], (A,)),
    (lambda m: m.asarray([[1, 2.5]]), ()),
    (lambda m: m.full_like(m.ones((2, 0), dtype=m.uint16), 9), ()),
]


@pytest.mark.parametrize("number", range(len(EAGER)))
def test_functions_of_arrays_are_numpys(number: int) -> None:
    call, given = EAGER[number]
    found = call(xp, *(xp.asarray(array) for array in given))
    assert all(isinstance(item, blu.Array) for item in (found if isinstance(found, tuple) else (found,)))
    same(found, call(np, *given))


def test_what_numpy_computes_is_refused_of_tensors() -> None:
    for call in (xp.unique_all, xp.nonzero):
        with pytest.raises(blu.BluError, match=r"test_functions\.py:\d+: \w+: is computed by NumPy.*\n.*outside of"):
            blu.jit(lambda x, call=call: call(x))(M)
    constant = blu.jit(lambda x: x + xp.linalg.inv(M[0]))(M)  # numbers that are known are a part of the program
    same(constant, M + np.linalg.inv(M[0]))


def test_complex_numbers_are_those_of_arrays_in_compiled_functions() -> None:
    def calls(m: Any, z: Any) -> list[Any]:
        made = [m.zeros((2,), dtype=m.complex64), m.full((2,), 1j), m.asarray(2j), m.astype(z, m.complex64)]
        moved = [m.permute_dims(z, (1, 0)), m.concat([z, z * 1j]), m.stack([z, z]), m.reshape(z, (-1,)), m.flip(z)]
        folded = [
            m.sum(z, axis=0),
            m.prod(z, axis=0),
            m.mean(z),
            m.cumulative_sum(z, axis=1, include_initial=True),
            m.any(z),
        ]
        found = [m.abs(z), m.pow(z, 2), m.atan(z), m.sign(z), m.conj(z), m.real(z), m.imag(z), m.isfinite(z)]
        spectra = [m.fft.fft(z, n=5, axis=0), m.fft.ifftn(z), m.fft.irfft(z, n=3), m.fft.fftshift(z)]
        return made + moved + folded + found + spectra + [m.linalg.eigvals(z), m.linalg.trace(z), *m.linalg.svd(z)]

    z = C[0, :2, :2].astype(np.complex128)
    for found, expected in zip(blu.jit(lambda z: calls(xp, z))(z), calls(np, z), strict=True):
        same(found, expected)
    seen = []
    blu.jit(lambda z: seen.append(z.__array_namespace__().isdtype(z.dtype, "complex floating")) or z)(z)
    assert seen == [True]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_expm1_of_complex_numbers_without_an_end_is_that_of_compiled_functions(dtype: type) -> None:
    ends = (0.0, -0.0, 0.5, -np.inf, np.inf, np.nan)
    z = np.array([complex(real, imag) for real in ends for imag in ends], dtype)
    found, expected = np.asarray(xp.expm1(xp.asarray(z))), np.asarray(blu.jit(xp.expm1)(z))
    assert found.dtype == dtype and np.isposinf(found[np.isposinf(z.real)].real).all()
    np.testing.assert_allclose(found.real, expected.real, rtol=2e-7)
    np.testing.assert_allclose(found.imag, expected.imag, rtol=2e-7)


def test_as_many_as_are_said_are_found_in_compiled_functions() -> None:
    where = blu.jit(lambda x: xp.nonzero(x, size=30))(N)
    for one, other in zip(where, np.nonzero(N), strict=True):
        assert one.tolist() == [*other.tolist(), *[-1] * (30 - len(other))]
    values, counts = blu.jit(lambda x: tuple(xp.unique_counts(x, size=8)))(N)
    expected = np.unique_counts(N)
    many = len(expected.values)
    assert values.tolist()[:many] == expected.values.tolist() and set(values.tolist()[many:]) <= {expected.values[-1]}
    assert counts.tolist() == [*expected.counts.tolist(), *[0] * (8 - many)]
    with pytest.raises(IndexError):
        blu.jit(lambda x: xp.unique_values(x, size=2))(N)


def test_wide_unsigned_numbers_are_sorted_downwards_as_narrow_ones_are() -> None:
    for name in ("sort", "argsort"):
        wide, narrow = (
            getattr(xp, name)(xp.asarray(N, dtype=kind), axis=1, descending=True) for kind in (xp.uint64, xp.uint8)
        )
        np.testing.assert_array_equal(wide, narrow)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.complex64])
@pytest.mark.parametrize("given", [np.int32, np.uint8, np.uint32, np.float64])
def test_sums_are_of_the_dtype_named_whatever_they_are_of(given: type, dtype: type) -> None:
    x = N[0, :3, :3].astype(given)
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
        same(getattr(xp, name)(xp.asarray(x), axis=0, dtype=dtype), getattr(np, name)(x, axis=0, dtype=dtype))
    same(xp.linalg.trace(xp.asarray(x), dtype=dtype), np.trace(x, dtype=dtype))
    blus = xp.asarray([1], dtype=dtype).dtype  # Blu's own dtypes say it as well as NumPy's
    assert xp.sum(xp.asarray(x), dtype=blus).dtype == dtype


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.uint32, np.complex64])
def test_running_sums_and_products_of_a_number_are_of_one_element(dtype: type) -> None:
    x = xp.asarray(3, dtype=dtype)
    for name, first in (("cumulative_sum", 0), ("cumulative_prod", 1)):
        function, expected = getattr(xp, name), getattr(np, name)(np.asarray(3, dtype))
        same(function(x), expected)
        same(function(x, include_initial=True), np.asarray([first, 3], expected.dtype))
        with pytest.raises(ValueError, match=r"axis|one dimension"):
            function(xp.ones((2, 2), dtype=dtype))


@pytest.mark.parametrize("dtype", ["U1", "M8[s]", "O", "V3", np.longdouble, np.clongdouble])
def test_what_is_no_number_is_refused_wherever_arrays_are_made(dtype: Any) -> None:
    makers: list[Callable[[], Any]] = [
        lambda: xp.asarray(np.zeros(2, dtype)),
        lambda: xp.zeros(2, dtype=np.dtype(dtype)),
        lambda: xp.full((2, 3), np.zeros((), dtype)),
        lambda: xp.ones_like(xp.zeros(2), dtype=np.dtype(dtype)),
    ]
    for make in makers:
        with pytest.raises(DTypeError, match="no numbers that an array holds"):
            make()


def test_mistakes_are_the_standards() -> None:
    x = xp.asarray(A)
    with pytest.raises(IndexError, match="out of range"):
        xp.expand_dims(x, axis=7)
    with pytest.raises(ValueError, match="broadcast"):
        xp.broadcast_shapes((2, 3), (4,))
    assert xp.broadcast_shapes((2, 1), (3,)) == (2, 3) and xp.broadcast_shapes() == ()
    for wrong in (lambda: xp.take(x, xp.asarray([0])), lambda: xp.cumulative_sum(x), lambda: xp.nonzero(x[0, 0, 0])):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(TypeError, match="complex"):
        xp.astype(xp.asarray(C), xp.float32)


@pytest.mark.filterwarnings("error")
def test_sums_of_complex_numbers_in_a_real_dtype_are_of_real_parts() -> None:
    z = xp.asarray([[1 + 2j, 3j], [4.0, 5 + 6j]])
    assert float(xp.linalg.trace(z, dtype=xp.float64)) == 6 and xp.linalg.trace(z, dtype=xp.int32).dtype == xp.int32
    assert float(xp.sum(z, dtype=xp.float32)) == 10 and float(xp.prod(z, dtype=xp.float64)) == 0
    assert xp.cumulative_sum(z, axis=0, dtype=xp.float32)[1].tolist() == [5, 5]
    assert complex(xp.linalg.trace(z)) == 6 + 8j
    for make in (lambda: xp.asarray(z, dtype=xp.float32), lambda: xp.full(2, 1j, dtype=xp.int8)):
        with pytest.raises(BluError, match="complex numbers do not become"):
            make()

"""Factors of matrices: what NumPy has besides, ranks, least squares, and what has no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, BluError, MatrixError, ShapeError
from tests.frontend.linalg.cases import general, leaves


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 2)])
def test_factors_are_whole_where_that_is_asked_for(shape: tuple[int, ...]) -> None:
    x = general(*shape)
    q, r = (np.asarray(item) for item in blu.jit(lambda x: blu.linalg.qr(x, mode="complete"))(x))
    u, s, vh = (np.asarray(item) for item in blu.jit(blu.linalg.svd)(x))
    rows, columns = shape[-2:]
    assert q.shape[-2:] == (rows, rows) and u.shape[-2:] == (rows, rows) and vh.shape[-2:] == (columns, columns)
    np.testing.assert_allclose(q @ r, x, atol=1e-12)
    count = min(rows, columns)
    np.testing.assert_allclose(u[..., :count] * s[..., None, :] @ vh[..., :count, :], x, atol=1e-12)


def test_results_say_their_names() -> None:
    found = blu.jit(blu.linalg.svd)(general(2, 2))
    assert found.S.shape == (2,) and blu.linalg.eigh(np.eye(2)).eigenvalues.shape == (2,)
    assert blu.linalg.qr(np.eye(2)).R.shape == (2, 2) and blu.linalg.slogdet(np.eye(2)).logabsdet.shape == ()


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (0, 2, 2), (2, 0, 3)])
def test_nothing_has_factors_too(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    names = ["qr", "svd", "svdvals", "pinv", *(["eigh", "eigvalsh"] if shape[-1] == shape[-2] else [])]
    for name in names:
        pairs = zip(leaves(blu.jit(getattr(blu.linalg, name))(x)), leaves(getattr(np.linalg, name)(x)), strict=True)
        assert all(np.array_equal(one, other) for one, other in pairs), name
    assert np.asarray(blu.jit(blu.linalg.matrix_rank)(x)).tolist() == np.zeros(shape[:-2], int).tolist()


@pytest.mark.parametrize(("rows", "columns", "rank"), [(5, 3, 3), (3, 5, 3), (5, 3, 2), (4, 4, 1)])
def test_least_squares_of_any_rank(rows: int, columns: int, rank: int) -> None:
    rng = np.random.default_rng(rows)
    a, b = rng.normal(size=(rows, rank)) @ rng.normal(size=(rank, columns)), rng.normal(size=(rows, 2))
    found = blu.jit(blu.linalg.lstsq)(a, b)
    x, _, number, values = np.linalg.lstsq(a, b)
    np.testing.assert_allclose(found.x, x, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(found.s, values, atol=1e-12)
    np.testing.assert_allclose(found.residuals, ((a @ x - b) ** 2).sum(0), atol=1e-10)
    assert int(found.rank) == number == rank and int(blu.linalg.matrix_rank(a)) == rank
    one = blu.linalg.lstsq(a, b[:, 0])
    assert one.x.shape == (columns,) and one.residuals.shape == ()


def test_equal_values_divide_nothing() -> None:
    """Functions of the matrix alone, where vectors may be turned."""
    x = np.diag([2.0, 2.0, 0.0])
    trace = blu.jit(blu.grad(lambda x: blu.sum(blu.linalg.svd(x).S)))(x[:2, :2])
    np.testing.assert_allclose(trace, np.eye(2), atol=1e-12)

    def again(x: Any) -> Any:
        values, vectors = blu.linalg.eigh(x)
        return blu.sum((vectors * values[None, :]) @ blu.swapaxes(vectors, 0, 1) * np.arange(9.0).reshape(3, 3))

    expected = (np.arange(9.0).reshape(3, 3) + np.arange(9.0).reshape(3, 3).T) / 2
    found = np.asarray(blu.jit(blu.grad(again))(x))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(np.diag(found), np.diag(expected), atol=1e-12)


@pytest.mark.parametrize("name", ["svd", "svdvals", "eigh", "eigvalsh", "pinv"])
def test_what_does_not_converge_is_an_error(name: str) -> None:
    with pytest.raises(MatrixError, match=rf"{name}: the matrix is not finite, or has"):
        np.asarray(leaves(blu.jit(getattr(blu.linalg, name))(np.full((3, 3), np.nan)))[0])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (lambda x: blu.linalg.qr(x, mode="r"), ArgumentError, "mode must be reduced or complete"),
        (lambda x: blu.linalg.pinv(x, rtol=-1.0), ArgumentError, "a number from 0 on"),
        (lambda x: blu.linalg.matrix_power(x, 0.5), ArgumentError, "the exponent is an integer"),
        (lambda x: blu.linalg.matrix_power(x[:, :2], 2), ShapeError, "takes square matrices"),
        (lambda x: blu.linalg.eigh(x[:, :2]), ShapeError, "takes square matrices"),
        (lambda x: blu.linalg.lstsq(x, x[:2]), ShapeError, "as many rows on the right"),
        (lambda x: blu.linalg.norm(x, axis=(0, 1, 2)), ShapeError, "along one axis or of two"),
        (lambda x: blu.linalg.norm(x, axis=(0, -2)), ShapeError, "are not one"),
        (lambda x: blu.linalg.matrix_norm(x, ord=3), BluError, "no norm of order 3"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        call(np.eye(3))


def test_columns_that_are_free_have_no_gradient() -> None:
    def total(x: Any) -> Any:
        return blu.sum(blu.linalg.qr(x, mode="complete").Q)

    with pytest.raises(BluError, match="no gradient of columns of Q"):
        blu.jit(blu.grad(total))(general(4, 2))
    assert blu.jit(blu.grad(total))(general(2, 4)).shape == (2, 4)

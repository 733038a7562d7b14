"""Products of fp8 on processors: in f32, of both formats, with gradients in f32."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu

RNG = np.random.default_rng(0)
LEFT = RNG.standard_normal((70, 96)).astype(ml_dtypes.float8_e4m3fn)
RIGHT = RNG.standard_normal((40, 96)).astype(ml_dtypes.float8_e5m2)
EXACT = LEFT.astype(np.float64) @ RIGHT.astype(np.float64).T


def test_products_of_both_formats_give_f32_or_what_is_asked_for() -> None:
    def products(x: Any, w: Any) -> list[Any]:
        plain = [x @ w.T, blu.einsum("ij,kj->ki", x, w).T, blu.einsum("ij,kl->ik", x, w), x[0] @ w[0]]
        return [*plain, *(blu.matmul(x, w.T, dtype=dtype) for dtype in ("bf16", "f16", "f64"))]

    found = [np.asarray(item) for item in blu.jit(products)(LEFT, RIGHT)]
    sums = np.outer(LEFT.astype(np.float64).sum(1), RIGHT.astype(np.float64).sum(1))
    wanted = [EXACT, EXACT, sums, EXACT[0, 0], EXACT, EXACT, EXACT]
    epsilons = [2.0**-22] * 4 + [2.0**-8, 2.0**-11, 2.0**-22]
    for one, other, epsilon in zip(found, wanted, epsilons, strict=True):
        assert np.abs(one.astype(np.float64) - other).max() <= epsilon * np.abs(other).max()
    assert [item.dtype.name for item in found] == ["float32"] * 4 + ["bfloat16", "float16", "float64"]


def test_gradients_are_those_of_the_factors_as_they_are_rounded() -> None:
    def loss(x: Any, w: Any) -> Any:
        return blu.sum(blu.matmul(x.astype("f8e4m3"), w.astype("f8e5m2").T, dtype="bf16").astype("f32") * 2)

    of_left, of_right = blu.grad(loss, argnums=(0, 1))(LEFT.astype(np.float32), RIGHT.astype(np.float32))
    np.testing.assert_allclose(
        of_left, np.broadcast_to(2 * RIGHT.astype(np.float32).sum(0), (70, 96)), rtol=1e-4, atol=1e-4
    )
    np.testing.assert_allclose(
        of_right, np.broadcast_to(2 * LEFT.astype(np.float32).sum(0), (40, 96)), rtol=1e-4, atol=1e-4
    )


def test_a_batch_of_products_and_many_at_once() -> None:
    x, w = LEFT[:64].reshape(4, 16, 96), RIGHT.reshape(4, 10, 96)
    expected = np.einsum("bij,bkj->bik", x.astype(np.float64), w.astype(np.float64))
    for function in (lambda x, w: x @ w.swapaxes(1, 2), blu.vmap(lambda x, w: x @ w.T)):
        np.testing.assert_allclose(blu.jit(function)(x, w), expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, w: blu.matmul(x, w.astype("f32").T), "f8e4m3 and f32 have no common dtype"),
        (lambda x, w: x.astype("bf16") @ w.T, "bf16 and f8e5m2 have no common dtype"),
        (lambda x, w: blu.matmul(x, 2), "f8e4m3"),
        (
            lambda x, w: blu.matmul(w.astype("f32"), w.astype("f32").T, dtype="bf16"),
            "product of fp8, not of f32 and f32",
        ),
        (lambda x, w: blu.einsum("ij->i", x), "does not take f8e4m3"),
    ],
)
def test_other_factors_are_refused(function: Any, message: str) -> None:
    with pytest.raises(blu.BluError, match=message):
        blu.jit(function)(LEFT, RIGHT)

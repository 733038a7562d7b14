"""Gradients through functions of several results, and values that gradients take as given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, BluError, DTypeError, ShapeError, TraceError

X = np.linspace(-1, 1, 6).astype(np.float32).reshape(2, 3)
W = np.linspace(0.5, 2, 12).astype(np.float32).reshape(3, 4)


def product_and_sine(x: Any, parts: dict[str, Any]) -> Any:
    return {"y": x @ parts["w"], "rest": [blu.sin(x), blu.argmax(x, axis=1)]}


def expected(dy: np.ndarray, ds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return dy @ W.T + ds * np.cos(X), X.T @ dy


def cotangents() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, 4)).astype(np.float32), rng.standard_normal((2, 3)).astype(np.float32)


def assert_pulled_back(result: Any, dx: Any, dparts: Any, dy: np.ndarray, ds: np.ndarray) -> None:
    np.testing.assert_allclose(result["y"], X @ W, rtol=1e-5, atol=1e-6)
    want_x, want_w = expected(dy, ds)
    np.testing.assert_allclose(dx, want_x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(dparts["w"], want_w, rtol=1e-5, atol=1e-6)
    assert dparts["ids"] is None


def test_vjp_of_nested_results_on_arrays() -> None:
    dy, ds = cotangents()
    result, pull_back = blu.vjp(product_and_sine, X, {"w": W, "ids": np.arange(3, dtype=np.int32)})
    dx, dparts = pull_back({"y": dy, "rest": [ds, None]})
    assert_pulled_back(result, dx, dparts, dy, ds)


def test_vjp_in_a_compiled_function_computes_the_forward_pass_once() -> None:
    @blu.jit
    def both(x: Any, w: Any, dy: Any, ds: Any) -> Any:
        result, pull_back = blu.vjp(product_and_sine, x, {"w": w, "ids": blu.arange(3)})
        dx, dparts = pull_back({"y": dy, "rest": [ds, None]})
        return result, dx, dparts["w"]

    dy, ds = cotangents()
    result, dx, dw = both(X, W, dy, ds)
    assert_pulled_back(result, dx, {"w": dw, "ids": None}, dy, ds)
    text = both.trace(X, W, dy, ds).lower(stop="blu").text
    assert text.count('"blu.sin"') == 1 and text.count('"blu.cos"') == 1
    assert text.count('"blu.matmul"') == 3


def test_vjp_with_aux_and_again_with_other_gradients() -> None:
    result, pull_back, aux = blu.vjp(lambda x: (blu.square(x), blu.sum(x)), X, has_aux=True)
    np.testing.assert_array_equal(result, X * X)
    np.testing.assert_allclose(aux, X.sum(), atol=1e-6)
    for factor in (1.0, -2.0):
        (dx,) = pull_back(np.full_like(X, factor))
        np.testing.assert_allclose(dx, factor * 2 * X, rtol=1e-6)


def test_gradients_go_through_vjp() -> None:
    """d/dx of sum(vjp of x^3 with y) is 6 x y, and d/dy is 3 x^2."""

    def pulled(x: Any, y: Any) -> Any:
        _, pull_back = blu.vjp(lambda x: x * x * x, x)
        return blu.sum(pull_back(y)[0])

    y = np.full_like(X, 0.5)
    dx, dy = blu.jit(blu.grad(pulled, argnums=(0, 1)))(X, y)
    np.testing.assert_allclose(dx, 6 * X * y, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dy, 3 * X * X, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"y": np.zeros((2, 4), np.float32)}, ArgumentError, "there is no gradient for result rest.0"),
        (
            {"y": np.zeros((2, 4), np.float32), "rest": [X, np.zeros(2, np.int32)]},
            ArgumentError,
            "a gradient for result rest.1, which has none",
        ),
        ({"y": np.zeros((4, 2), np.float32), "rest": [X, None]}, ShapeError, r"result y has the shape \(4, 2\)"),
        ({"y": np.zeros((2, 4)), "rest": [X, None]}, DTypeError, "result y is f64, expected f32"),
        (X, ArgumentError, "there is no gradient for result y"),
    ],
)
def test_gradients_that_do_not_fit_the_results(given: Any, error: type[BluError], message: str) -> None:
    _, pull_back = blu.vjp(product_and_sine, X, {"w": W})
    with pytest.raises(error, match=message) as caught:
        pull_back(given)
    assert "test_vjp.py" in str(caught.value)


def test_functions_without_gradients() -> None:
    with pytest.raises(ArgumentError, match="no argument is a float tensor"):
        blu.vjp(lambda x: x * 1.5, np.arange(3))
    with pytest.raises(ArgumentError, match="no result is a float tensor"):
        blu.vjp(lambda x: x > 0, X)
    with pytest.raises(TraceError, match="with has_aux"):
        blu.vjp(lambda x: x, X, has_aux=True)


def test_stop_gradient_is_a_constant_for_gradients() -> None:
    x = np.array([1.5, -2.0, 3.0], np.float32)
    np.testing.assert_array_equal(blu.stop_gradient(x), x)
    np.testing.assert_array_equal(blu.stop_gradient(np.array([True, False])), [True, False])
    first = blu.grad(lambda x: blu.sum(x * blu.stop_gradient(x)))(x)
    np.testing.assert_array_equal(first, x)
    all_of_it = blu.grad(lambda x: blu.sum(blu.stop_gradient(blu.exp(x))))(x)
    np.testing.assert_array_equal(all_of_it, np.zeros(3))


def test_stop_gradient_in_gradients_of_gradients() -> None:
    """The gradient of x^2 stop(x) is 2 x stop(x), and the gradient of its sum 2 stop(x)."""
    x = np.array([1.5, -2.0, 3.0], np.float32)
    inner = blu.grad(lambda x: blu.sum(x * x * blu.stop_gradient(x)))
    second = blu.jit(blu.grad(lambda x: blu.sum(inner(x))))
    np.testing.assert_array_equal(second(x), 2 * x)
    assert "stop_gradient" not in second.trace(x).lower(stop="blu").text


def test_a_gradient_that_asks_for_itself_ends_in_an_error() -> None:
    def loss(x: Any) -> Any:
        return blu.sum(blu.grad(loss)(x))

    with pytest.raises(BluError, match="asks for itself"):
        blu.jit(loss)(X)

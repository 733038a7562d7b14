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
        (
            {"y": np.zeros((2, 4), np.float32), "rest": [X]},
            ArgumentError,
            r"not nested as the result is \(rest: list\(0, 1\) -> list\(0\)\)",
        ),
        (
            {"y": np.zeros((2, 4), np.float32), "rest": (X, None)},
            ArgumentError,
            r"not nested as the result is \(rest: list\(0, 1\) -> tuple\(0, 1\)\)",
        ),
        ({"y": "zeros", "rest": [X, None]}, ArgumentError, "the gradient for result y is a str"),
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
    with pytest.raises(ArgumentError, match="no argument is a float tensor"):
        blu.jit(lambda x: blu.vjp(lambda y: x * y, 2.0)[0])(X)
    with pytest.raises(TraceError, match="with has_aux"):
        blu.vjp(lambda x: x, X, has_aux=True)
    with pytest.raises(TraceError, match="result '1' is of type str"):
        blu.jit(lambda x: blu.vjp(lambda y: (y, "text"), x)[0])(X)


def test_vjp_of_arrays_in_a_compiled_function() -> None:
    """Arrays that a compiled function holds, small and large, have gradients as its arguments have; numbers do not."""
    large = np.full((100, 100), 2.0, np.float32)

    @blu.jit
    def pulled(x: Any) -> Any:
        result, pull_back = blu.vjp(lambda a, b, factor: (a * x * factor, b * x[0, 0]), X, large, 3.0)
        return result, pull_back((X, large))

    (first, second), (da, db, dfactor) = pulled(X)
    np.testing.assert_allclose(first, 3 * X * X, rtol=1e-6)
    np.testing.assert_array_equal(second, -large)
    np.testing.assert_allclose(da, 3 * X * X, rtol=1e-6)
    np.testing.assert_array_equal(db, -large)
    assert dfactor is None


def test_pull_back_of_arrays_may_be_called_in_a_compiled_function() -> None:
    result, pull_back = blu.vjp(lambda x, factor, count: x * factor * count, X, 2.0, np.array(3, np.int8))
    eager, traced = pull_back(X), blu.jit(lambda dy: pull_back(dy))(X)
    np.testing.assert_allclose(result, 6 * X, rtol=1e-6)
    for dx, dfactor, dcount in (eager, traced):
        np.testing.assert_allclose(dx, 6 * X, rtol=1e-6)
        np.testing.assert_allclose(dfactor, 3 * np.sum(X * X), rtol=1e-6)
        assert dcount is None


def test_pull_back_does_not_outlive_its_trace() -> None:
    kept: list[Any] = []

    def traced(x: Any) -> Any:
        result, pull_back = blu.vjp(blu.sin, x)
        kept.append(pull_back)
        return result

    blu.jit(traced)(X)
    with pytest.raises(TraceError, match="only while it is traced"):
        kept[0](X)
    with pytest.raises(TraceError, match="belongs to a trace that has ended"):
        blu.jit(lambda x: kept[0](x))(X)


def test_vjp_of_several_dtypes_and_of_nothing() -> None:
    """Results are added up in one scalar, of which no number is looked at: f16 may overflow in it."""
    x = np.full(300, 200, np.float16)
    for given in (np.ones(300, np.float16), np.full(300, 2, np.float16)):
        (dx,) = blu.vjp(lambda x: (x * x, x.astype("f64")), x)[1]((given, np.ones(300)))
        np.testing.assert_array_equal(dx, 400 * given + 1)
        assert dx.dtype == np.float16
    (empty,) = blu.vjp(lambda x: x * x, np.zeros((0, 2), np.float32))[1](np.zeros((0, 2), np.float32))
    assert empty.shape == (0, 2)


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


def test_stop_gradient_in_value_and_grad_of_a_nested_function() -> None:
    """The inner gradient x stop(x) + y has the derivative stop(x) + 0 with respect to x, which gives x."""

    def outer(x: Any) -> Any:
        value, gradient = blu.value_and_grad(lambda y: blu.sum(y * blu.stop_gradient(x) * x + y))(x)
        return blu.sum(gradient) + blu.stop_gradient(value)

    x = np.array([1.5, -2.0, 3.0], np.float32)
    for function in (blu.value_and_grad(outer), blu.jit(blu.value_and_grad(outer))):
        value, gradient = function(x)
        np.testing.assert_allclose(value, np.sum(x * x + 1) + np.sum(x * x * x + x), rtol=1e-6)
        np.testing.assert_array_equal(gradient, x)


def loss_of_its_gradient(x: Any) -> Any:
    return blu.sum(blu.grad(loss_of_its_gradient)(x))


def loss_of_two_gradients(x: Any) -> Any:
    return blu.sum(blu.grad(loss_of_two_gradients)(x) + blu.value_and_grad(loss_of_two_gradients)(x)[1])


def one_of_two(x: Any) -> Any:
    return blu.sum(blu.grad(other_of_two)(x))


def other_of_two(x: Any) -> Any:
    return blu.sum(blu.value_and_grad(one_of_two)(x)[1])


def result_of_its_vjp(x: Any) -> Any:
    return blu.vjp(result_of_its_vjp, x)[0]


RECURSIVE = (loss_of_its_gradient, loss_of_two_gradients, one_of_two, result_of_its_vjp)


@pytest.mark.parametrize("function", RECURSIVE, ids=lambda function: function.__name__)
def test_a_gradient_that_asks_for_itself_ends_in_an_error(function: Any) -> None:
    for call in (blu.jit(function), blu.grad(function), blu.jit(blu.grad(function)), lambda x: blu.vjp(function, x)):
        with pytest.raises(BluError, match="asks for itself") as caught:
            call(X)
        assert "test_vjp.py" in str(caught.value)


def test_a_function_that_calls_itself_without_end_ends_in_an_error() -> None:
    def again(x: Any) -> Any:
        return again(x) * 2

    for call in (blu.jit(again), blu.grad(again), lambda x: blu.vjp(again, x)):
        with pytest.raises(TraceError, match=r"functions call each other more than \d+ deep") as caught:
            call(X)
        assert "test_vjp.py" in str(caught.value)


def test_vjp_in_a_compiled_function_calls_the_function_once() -> None:
    calls = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return blu.sin(x), blu.cos(x)

    def program(x: Any) -> Any:
        (sine, _), pull_back = blu.vjp(counted, x)
        return sine, pull_back((x, x)), pull_back((2 * x, sine))

    sine, (first,), (second,) = blu.jit(program)(X)
    assert len(calls) == 1
    np.testing.assert_allclose(sine, np.sin(X), rtol=1e-6)
    np.testing.assert_allclose(first, X * (np.cos(X) - np.sin(X)), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, 2 * X * np.cos(X) - np.sin(X) ** 2, rtol=1e-5, atol=1e-6)
    blu.vjp(counted, X)[1]((X, X))
    assert len(calls) == 3  # on arrays, the result and what is pulled back are programs of their own


def test_what_vjp_is_given_besides_the_result_may_be_anything() -> None:
    def program(x: Any) -> Any:
        result, pull_back, (kept, text) = blu.vjp(lambda x: (x * x, (blu.exp(x), "text")), x, has_aux=True)
        assert text == "text"
        return result, kept, pull_back(x)

    result, kept, (dx,) = blu.jit(program)(X)
    np.testing.assert_allclose(result, X * X, rtol=1e-6)
    np.testing.assert_allclose(kept, np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(dx, 2 * X * X, rtol=1e-6)


def test_results_that_are_arguments_or_given_twice_have_gradients() -> None:
    def program(x: Any, w: Any) -> Any:
        def function(x: Any) -> Any:
            square = x * x
            return square, x, square, w

        result, pull_back = blu.vjp(function, x)
        return result, pull_back((x, w, 2 * w, w))

    w = np.full_like(X, 3)
    result, (dx,) = blu.jit(program)(X, w)
    for found, wanted in zip(result, (X * X, X, X * X, w), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(dx, (X + 2 * w) * 2 * X + w, rtol=1e-6)

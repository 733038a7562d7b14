"""Gradients that users write themselves: values, nestings, gradients of gradients, and what is said of wrong rules."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import ArgumentError, BluError, DTypeError, ShapeError, TraceError

X = np.linspace(-2, 2, 7)


@blu.custom_vjp
def scaled(x: Any, parts: Any) -> Any:
    return {"y": blu.sin(x) * parts["w"], "largest": blu.argmax(x)}


def scaled_fwd(x: Any, parts: Any) -> Any:
    return scaled(x, parts), {"x": x, "w": parts["w"]}


def scaled_bwd(kept: Any, g: Any) -> Any:
    assert g["largest"] is None
    return g["y"] * blu.cos(kept["x"]) * kept["w"] * 10, {"w": g["y"] * kept["x"], "ids": None}


scaled.defvjp(scaled_fwd, scaled_bwd)
PARTS = {"w": np.linspace(1, 2, 7), "ids": np.arange(3)}


def scaled_loss(x: Any, w: Any) -> Any:
    return blu.sum(scaled(x, {"w": w, "ids": PARTS["ids"]})["y"] ** 2)


class Scaled(torch.autograd.Function):
    """The same rule, by PyTorch."""

    @staticmethod
    def forward(ctx: Any, x: Any, w: Any) -> Any:
        ctx.save_for_backward(x, w)
        return torch.sin(x) * w

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, w = ctx.saved_tensors
        return g * torch.cos(x) * w * 10, g * x


@pytest.mark.parametrize("jit", [True, False])
def test_the_gradient_is_the_rules(jit: bool) -> None:
    program = blu.grad(scaled_loss, argnums=(0, 1))
    dx, dw = (blu.jit(program) if jit else program)(X, PARTS["w"])
    x, w = (torch.tensor(item, requires_grad=True) for item in (X, PARTS["w"]))
    wanted = torch.autograd.grad((Scaled.apply(x, w) ** 2).sum(), (x, w))
    np.testing.assert_allclose(dx, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(dw, wanted[1], rtol=1e-12)


def test_gradients_of_gradients_take_the_rule_again() -> None:
    def slope(x: Any, w: Any) -> Any:
        return blu.sum(blu.grad(scaled_loss)(x, w) ** 2)

    found = blu.jit(blu.grad(slope))(X, PARTS["w"])
    x, w = (torch.tensor(item, requires_grad=True) for item in (X, PARTS["w"]))
    [first] = torch.autograd.grad((Scaled.apply(x, w) ** 2).sum(), x, create_graph=True)
    [second] = torch.autograd.grad((first**2).sum(), x)
    np.testing.assert_allclose(found, second, rtol=1e-12)


def test_without_a_gradient_the_function_is_what_runs() -> None:
    np.testing.assert_array_equal(scaled(X, PARTS)["y"], blu.jit(scaled)(X, PARTS)["y"])
    np.testing.assert_allclose(scaled(X, PARTS)["y"], np.sin(X) * PARTS["w"], rtol=1e-14)

    @blu.custom_vjp
    def plain(x: Any) -> Any:
        return blu.exp(x)

    plain.defvjp(lambda x: (blu.log(x), None), lambda _, g: (g,))
    text = blu.jit(plain).trace(X).lower(stop="blu").text
    assert '"blu.exp"' in text and '"blu.log"' not in text and "blu.custom_vjp" not in text
    value, gradient = blu.vjp(plain, X)[0], blu.jit(blu.value_and_grad(lambda x: blu.sum(plain(x))))(X + 3)
    np.testing.assert_allclose(value, np.exp(X), rtol=1e-14)
    np.testing.assert_allclose(gradient[0], np.log(X + 3).sum(), rtol=1e-14)


def test_in_steps_of_a_scan_and_beside_what_is_kept() -> None:
    @blu.custom_vjp
    def tripled(x: Any) -> Any:
        return 3 * x

    tripled.defvjp(lambda x: (tripled(x), None), lambda _, g: (5 * g,))
    found = blu.jit(blu.grad(lambda x: blu.scan(lambda c, _: (tripled(c) * x, None), x, length=3)[0]))(2.0)
    # c' = 3 c x: with the factor 5 in the place of 3 along c, d/dx = 5x(5x(5x + 3x) + 9x^2 * 1 ...)
    slope, carried = 1.0, 2.0
    for _ in range(3):
        slope, carried = 5 * slope * 2.0 + 3 * carried, 3 * carried * 2.0
    assert np.isclose(found, slope, rtol=1e-13)


@pytest.mark.parametrize("by_name", [True, False])
def test_static_arguments_come_first_in_bwd(by_name: bool) -> None:
    @functools.partial(blu.custom_vjp, nondiff_argnums=(0, 2))
    def apply(function: Any, x: Any, count: int = 2) -> Any:
        return blu.tile(function(x), count)

    def bwd(function: Any, count: int, kept: Any, g: Any) -> Any:
        assert function is blu.exp and isinstance(count, int)
        return (g.reshape((count, -1)).sum(0) * kept * 7,)

    apply.defvjp(lambda function, x, count: (apply(function, x, count), x), bwd)

    def loss(x: Any) -> Any:
        return blu.sum(apply(blu.exp, x=x, count=3) if by_name else apply(blu.exp, x, 3))

    np.testing.assert_allclose(blu.jit(blu.grad(loss))(X), 21 * X, rtol=1e-13)
    np.testing.assert_allclose(apply(blu.exp, X, 3), np.tile(np.exp(X), 3), rtol=1e-14)


def wrong(fwd: Any, bwd: Any) -> Any:
    @blu.custom_vjp
    def rounded(x: Any, ids: Any) -> Any:
        return blu.round(x) * blu.sum(ids)

    rounded.defvjp(fwd or (lambda x, ids: (rounded(x, ids), None)), bwd)
    return blu.jit(blu.grad(lambda x: blu.sum(rounded(x, np.arange(3)))))


@pytest.mark.parametrize(
    ("bwd", "kind", "says"),
    [
        (lambda _, g: g, TraceError, "gives a Tensor for 2 arguments of rounded"),
        (lambda _, g: (g,), TraceError, "gives 1 gradients for 2 arguments of rounded"),
        (lambda _, g: (g[1:], None), ShapeError, "gives for x a gradient of f64[6], expected f64[7]"),
        (lambda _, g: (g.astype("f32"), None), DTypeError, "gives for x a gradient of f32[7], expected f64[7]"),
        (lambda _, g: (g, g), DTypeError, "gives for ids a gradient, and that is i64[3], which has none"),
        (lambda _, g: ("g", None), TraceError, "gives for x a str, which is no tensor"),
        (lambda _, g: ([g], None), TraceError, "gives for x a list, which is no tensor"),
    ],
)
def test_a_wrong_bwd_is_named_with_its_line(bwd: Any, kind: type[BluError], says: str) -> None:
    with pytest.raises(kind) as caught:
        wrong(None, bwd)(X)
    assert says in caught.value.message and "bwd, <lambda>" in caught.value.message
    file, _, line = str(caught.value.location).rpartition(":")
    assert Path(file).name == Path(__file__).name and int(line) == bwd.__code__.co_firstlineno


@pytest.mark.parametrize(
    ("fwd", "kind", "says"),
    [
        (lambda x, ids: x, TraceError, "gives a Tensor, and no pair"),
        (lambda x, ids: ([x], None), TraceError, "gives another nesting than rounded"),
        (lambda x, ids: (x[1:], None), ShapeError, "f64[6], expected f64[7]"),
    ],
)
def test_a_wrong_fwd_is_named_with_its_line(fwd: Any, kind: type[BluError], says: str) -> None:
    with pytest.raises(kind) as caught:
        wrong(fwd, lambda _, g: (g, None))(X)
    assert says in caught.value.message and "fwd, <lambda>" in caught.value.message


def test_what_is_read_from_above_has_no_gradient() -> None:
    def loss(x: Any, w: Any) -> Any:
        @blu.custom_vjp
        def weighted(x: Any) -> Any:
            return x * w

        weighted.defvjp(lambda x: (weighted(x), None), lambda _, g: (g * w,))
        return blu.sum(weighted(x))

    np.testing.assert_array_equal(blu.jit(blu.grad(loss))(X, PARTS["w"]), PARTS["w"])
    with pytest.raises(BluError, match="read from above what a gradient is asked for"):
        blu.jit(blu.grad(loss, argnums=1))(X, PARTS["w"])


def test_calls_that_cannot_be() -> None:
    without = blu.custom_vjp(lambda x: x)
    with pytest.raises(ArgumentError, match="has no gradient yet"):
        without(X)
    with pytest.raises(ArgumentError, match="called with what it does not take"):
        scaled(X)
    beyond = blu.custom_vjp(lambda x: x, nondiff_argnums=3)
    beyond.defvjp(lambda x: (x, None), lambda _, g: (g,))
    with pytest.raises(ArgumentError, match="has no argument 3"):
        beyond(X)
    static = blu.custom_vjp(lambda x, y: x * y, nondiff_argnums=1)
    static.defvjp(lambda x, y: (x * y, y), lambda y, kept, g: (g * kept,))
    with pytest.raises(ArgumentError, match="is a tensor, and in nondiff_argnums"):
        blu.jit(static)(X, X)

"""What a loop only adds up is formed after it: the same sums, to rounding, and fewer kernels in a step."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import blu

BATCH, WIDTH = 2, 3


def recurrent(w: Any, b: Any, xs: Any, is_written_out: bool, reverse: bool) -> Any:
    """The sum of the states of a network of one recurrent layer."""

    def step(h: Any, x: Any) -> Any:
        h = blu.tanh(h @ w.swapaxes(0, 1) + b + x)
        return h, h

    h = blu.zeros((BATCH, WIDTH), dtype=xs.dtype)
    if not is_written_out:
        return blu.sum(blu.scan(step, h, xs, reverse=reverse)[1] * xs)
    total = blu.zeros((), dtype=xs.dtype)
    for index in range(xs.shape[0])[:: -1 if reverse else 1]:
        h, state = step(h, xs[index])
        total = total + blu.sum(state * xs[index])
    return total


def arguments(length: int, dtype: str) -> list[Any]:
    rng = np.random.default_rng(length)
    shapes = ((WIDTH, WIDTH), (WIDTH,), (length, BATCH, WIDTH))
    return [blu.Array(rng.standard_normal(shape)).astype(dtype) for shape in shapes]


@pytest.mark.parametrize(
    ("length", "dtype", "error"), [(0, "f32", 0), (1, "f64", 1e-14), (5, "f32", 1e-6), (2, "bf16", 2e-2)]
)
def test_gradients_are_those_of_steps_written_out(length: int, dtype: str, error: float) -> None:
    given = arguments(length, dtype)

    def both(w: Any, b: Any, xs: Any) -> Any:
        return [
            blu.grad(recurrent, argnums=(0, 1, 2))(w, b, xs, is_written_out, length % 2 == 0)
            for is_written_out in (False, True)
        ]

    for found, expected in zip(*blu.jit(both)(*given), strict=True):
        scale = np.abs(np.array(expected, np.float64)).max(initial=1e-3)
        np.testing.assert_allclose(np.array(found, np.float64), np.array(expected, np.float64), 0, error * scale)


def bodies_of(function: Any, *given: Any) -> list[str]:
    """The texts of the bodies of a program's loops."""
    module = blu.jit(function).trace(*given).lower("x86-64-v3", stop="blu").module
    return re.findall(r'"blu\.scan".*?"blu\.yield"', str(module), re.DOTALL)


def test_a_step_of_a_gradient_forms_no_product_of_weights() -> None:
    def step(w: Any, b: Any, xs: Any) -> Any:
        return blu.grad(recurrent, argnums=(0, 1, 2))(w, b, xs, False, False)

    bodies = bodies_of(step, *arguments(5, "f32"))
    assert [body.count("blu.matmul") for body in bodies] == [1, 1]
    assert not any("blu.sum" in body for body in bodies)


@pytest.mark.parametrize(("width", "products"), [(8, 1), (BATCH, 3)])
def test_slices_that_are_smaller_than_a_product_are_kept_for_it(width: int, products: int) -> None:
    """Inputs that are multiplied in the loop, whose gradients nobody asks for: those of what they become are kept,
    unless they are as many numbers as the products are."""

    def loss(w: Any, u: Any, xs: Any, is_written_out: bool) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = blu.tanh(h @ w + x @ u)
            return h, h

        h, states = blu.zeros((BATCH, width)), []
        if not is_written_out:
            return blu.sum(blu.square(blu.scan(step, h, xs)[1]))
        for index in range(xs.shape[0]):
            h, state = step(h, xs[index])
            states.append(state)
        return blu.sum(blu.square(blu.stack(states)))

    rng = np.random.default_rng(0)
    shapes = ((width, width), (width, width), (4, BATCH, width))
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    bodies = bodies_of(lambda *given: blu.grad(loss, argnums=(0, 1))(*given, False), *given)
    assert [body.count("blu.matmul") for body in bodies] == [2, products]
    both = blu.jit(lambda *given: [blu.grad(loss, argnums=(0, 1))(*given, flag) for flag in (False, True)])(*given)
    for found, expected in zip(*both, strict=True):
        np.testing.assert_allclose(np.array(found), np.array(expected), 1e-5, 1e-5)


def test_sums_in_f32_have_room_for_what_f16_has_not() -> None:
    """Shares of steps that are f16 each, and would not be together."""

    def sums(xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            products, totals = carry
            return (products + (x.T @ x).astype("f32"), totals + blu.sum(x, axis=0).astype("f32")), None

        return blu.scan(step, (blu.zeros((WIDTH, WIDTH)), blu.zeros((WIDTH,))), xs)[0]

    xs = np.full((5, 2, WIDTH), 128, np.float16)
    found, shares = blu.jit(sums)(xs), blu.jit(sums)(xs * np.float16(100))[1]
    assert (np.array(found[0]) == 163840).all() and (np.array(shares) == 128000).all()


def made(x: Any, v: Any) -> tuple[Any, Any]:
    """A factor that the loop gives as well, and one that it does not."""
    y = blu.tanh(x)
    return y, [((x * 2.0).T, y)]


def captured(x: Any, v: Any) -> tuple[Any, Any]:
    """A factor that is the same in all steps."""
    return None, [(v.T, x)]


def wide(x: Any, v: Any) -> tuple[Any, Any]:
    """Slices that are more than the loop walks along."""
    return None, [(x.T, blu.concatenate([x, x, x], axis=1))]


def two(x: Any, v: Any) -> tuple[Any, Any]:
    """Twice as many slices as the loop walks along: those of one product are kept."""
    return None, [(x.T, blu.tanh(x)), (x.T, blu.exp(x))]


@pytest.mark.parametrize(("parts", "products"), [(made, 0), (captured, 1), (wide, 1), (two, 1)])
def test_which_products_are_formed_after_the_loop(parts: Any, products: int) -> None:
    def summed(xs: Any, v: Any) -> Any:
        def step(sums: Any, x: Any) -> Any:
            y, factors = parts(x, v)
            return [total + left @ right for total, (left, right) in zip(sums, factors, strict=True)], y

        starts = [blu.ones((left.shape[0], right.shape[1])) for left, right in parts(xs[0], v)[1]]
        return blu.scan(step, starts, xs)

    def expected(xs: Any, v: Any) -> Any:
        factors = [parts(x, v)[1] for x in xs]
        return [1 + sum(left @ right for left, right in each) for each in zip(*factors, strict=True)]

    xs, v = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((4, 2, 8), (2, 8)))
    (body,) = bodies_of(summed, xs, v)
    assert body.count("blu.matmul") == products
    found, wanted = blu.jit(lambda xs, v: (summed(xs, v)[0], expected([*xs], v)))(xs, v)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), 1e-5, 1e-5)

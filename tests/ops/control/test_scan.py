"""`blu.scan` gives what its steps give when they are written out, in values and in gradients of any order."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import OutOfRangeError
from blu.frontend.tracing.tree import flatten

RNG = np.random.default_rng(0)
X, W = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 4)) / 2
Scan = Callable[..., Any]


def unrolled(step: Callable, carry: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    """The steps one after the other."""
    leaves, tree = flatten(xs)
    count = leaves[0].shape[0] if length is None else length
    rows = {}
    for index in range(count)[:: -1 if reverse else 1]:
        carry, rows[index] = step(carry, tree.unflatten([leaf[index] for leaf in leaves]))
    columns = zip(*(flatten(rows[index])[0] for index in range(count)), strict=True)
    return carry, flatten(rows[0])[1].unflatten([blu.stack(list(column)) for column in columns])


def recurrent(scan: Scan, x: Any, w: Any) -> Any:
    def step(h: Any, v: Any) -> Any:
        h = blu.tanh(h @ w + v)
        return h, {"state": h, "square": h * h}

    return scan(step, x[0], x)


def backwards(scan: Scan, x: Any, w: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        a, b = carry
        return (b, blu.softmax(a @ w) + v), (a, b)

    return scan(step, (x[0], x[1]), x, reverse=True)


def counting(scan: Scan, x: Any, w: Any) -> Any:
    def step(carry: Any, _: Any) -> Any:
        i, h = carry
        return (i + 1, h @ w * i + x[1]), i

    return scan(step, (blu.zeros((), dtype="i64"), x[0]), length=3)


def nested(scan: Scan, x: Any, w: Any) -> Any:
    def outer(h: Any, v: Any) -> Any:
        def inner(g: Any, u: Any) -> Any:
            g = blu.tanh(g @ w + u * v)
            return g, g

        h, states = scan(inner, h, x[:2])
        return h, states.sum(0)

    return scan(outer, x[0], x)


def mapped(scan: Scan, x: Any, w: Any) -> Any:
    return scan(lambda carry, v: (carry, blu.exp(v @ w)), (), x)


def looked_up(scan: Scan, x: Any, w: Any) -> Any:
    def step(h: Any, i: Any) -> Any:
        return h * blu.take(x, i, axis=0), h

    return scan(step, x[0], np.array([0, 2, -1]))


def checkpointed(scan: Scan, x: Any, w: Any) -> Any:
    with blu.checkpoint():
        return recurrent(scan, x, w)


def kept(scan: Scan, x: Any, w: Any) -> Any:
    """What is carried into each step and out of it, from either end."""

    def step(h: Any, v: Any) -> Any:
        after = blu.tanh(h @ w + v)
        return after, (h, after)

    return scan(step, x[0], x), scan(step, x[1], x, reverse=True)


def contracted(scan: Scan, x: Any, w: Any) -> Any:
    """Contractions of each kind, one of which is carried as it is."""

    def step(carry: Any, v: Any) -> Any:
        h, product = carry
        read = blu.attention(h[None], x[None], blu.sin(x @ w)[None])[0]
        seen = blu.conv1d(blu.sin(read)[None], w[:, :, None], padding="same", channels_last=True)[0]
        mixed = blu.einsum("i,tj,ij->tj", blu.cos(v), seen, w)
        return (blu.tanh(mixed), product @ w), product

    return scan(step, (x[:2], x[0]), x)


CASES = (recurrent, backwards, kept, counting, nested, mapped, looked_up, checkpointed, contracted)


def total(case: Callable, scan: Scan) -> Callable:
    def loss(x: Any, w: Any) -> Any:
        leaves = [leaf for leaf in flatten(case(scan, x, w))[0] if leaf.dtype.is_float]
        return sum(blu.sum(blu.sin(leaf)) for leaf in leaves)

    return loss


def assert_alike(function: Callable, wanted: Callable, tolerance: float) -> None:
    found, expected = (flatten(blu.jit(item)(X, W))[0] for item in (function, wanted))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_steps_written_out(case: Callable) -> None:
    assert_alike(lambda x, w: case(blu.scan, x, w), lambda x, w: case(unrolled, x, w), 1e-14)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_steps_written_out(case: Callable) -> None:
    first, second = (blu.grad(total(case, scan), argnums=(0, 1)) for scan in (blu.scan, unrolled))
    assert_alike(first, second, 1e-12)


def test_gradients_of_gradients() -> None:
    def again(scan: Scan) -> Callable:
        first = blu.grad(total(recurrent, scan), argnums=(0, 1))
        return blu.grad(lambda x, w: sum(blu.sum(blu.cos(item)) for item in first(x, w)), argnums=(0, 1))

    assert_alike(again(blu.scan), again(unrolled), 1e-11)


def test_pulled_back_twice_in_one_program() -> None:
    def both(scan: Scan) -> Callable:
        def pulled(x: Any, w: Any) -> Any:
            value, pull_back = blu.vjp(lambda x: recurrent(scan, x, w)[0], x)
            return value, pull_back(value), pull_back(value * 2)

        return pulled

    assert_alike(both(blu.scan), both(unrolled), 1e-12)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_narrow_floats_are_rounded_as_in_steps_written_out(dtype: str) -> None:
    def narrow(scan: Scan) -> Callable:
        return lambda x, w: recurrent(scan, x.astype(dtype), w.astype(dtype))[0].astype("f64")

    assert_alike(narrow(blu.scan), narrow(unrolled), 1e-6 if dtype == "f32" else 2e-2)


@pytest.mark.parametrize("length", [0, 1, 2])
def test_few_steps(length: int) -> None:
    def program(x: Any) -> Any:
        return blu.scan(lambda h, v: (h + v, h), x[0], x[:length])

    last, before = blu.jit(program)(X)
    states = np.cumsum(np.concatenate([X[:1], X[:length]]), axis=0)
    np.testing.assert_allclose(last, states[-1], rtol=1e-15)
    assert before.shape == (length, 4)
    np.testing.assert_allclose(before, states[:-1], rtol=1e-15)


def test_it_is_called_on_arrays() -> None:
    last, sums = blu.scan(lambda total, x: (total + x, total + x), 0.0, X[:, 0])
    np.testing.assert_allclose(sums, np.cumsum(X[:, 0]), rtol=1e-15)
    np.testing.assert_allclose(last, X[:, 0].sum(), rtol=1e-14)


def test_a_number_in_the_carry_takes_the_dtype_that_it_has_from_the_second_step_on() -> None:
    last, count = blu.scan(lambda c, x: ((c[0] + x, c[1] + 1), None), (0.0, 0), X[:, 0].astype(np.float32))[0]
    assert (last.dtype, count.dtype, int(count)) == (np.float32, np.int64, 3)


def test_an_index_that_is_wrong_in_one_step_of_many_is_found() -> None:
    def program(x: Any, i: Any) -> Any:
        return blu.scan(lambda h, _: (blu.scan(lambda g, j: (g + x[j], None), h, i)[0], None), x[0], length=2)[0]

    compiled = blu.jit(program)
    compiled(X, np.array([0, 1, 2]))
    with pytest.raises(OutOfRangeError, match="index 9 is out of range for a dimension of size 3"):
        compiled(X, np.array([0, 9, 2]))


def lstm(x: Any, h: Any, w: Any) -> Any:
    def step(carry: Any, v: Any) -> Any:
        h, c = carry
        i, f, g, o = blu.split((blu.concatenate([v, h], axis=1) @ w), 4, axis=1)
        c = blu.sigmoid(f) * c + blu.sigmoid(i) * blu.tanh(g)
        h = blu.sigmoid(o) * blu.tanh(c)
        return (h, c), h

    return blu.sum(blu.scan(step, (h, h), x)[1] ** 2)


def test_many_steps_are_as_many_ops_and_kernels_as_few() -> None:
    def counts(steps: int) -> tuple[int, int, int]:
        program = blu.jit(blu.grad(lstm, argnums=(0, 2)))
        specs = blu.spec((steps, 2, 16)), blu.spec((2, 16)), blu.spec((32, 64))
        lowered = program.trace(*specs).lower(stop="linalg")
        text = lowered.text
        return text.count(" = "), text.count("func.func"), text.count("plan.loop")

    few, many = counts(4), counts(400)
    assert few == many
    assert many[2] == 2


def test_a_loop_over_numbers() -> None:
    def polynomial(x: Any) -> Any:
        return blu.fori_loop(1, 4, lambda i, value: value * x + i, x)

    assert float(blu.jit(polynomial)(2.0)) == 2 * 8 + 4 + 4 + 3
    assert float(blu.jit(blu.grad(polynomial))(2.0)) == 4 * 8 + 2 * 2 + 2
    assert blu.fori_loop(3, 1, lambda i, value: value * i, np.float32(3)).dtype == np.float32


@pytest.mark.parametrize("reverse", [False, True])
def test_prefixes_of_every_length(reverse: bool) -> None:
    arrays = [RNG.standard_normal((2, count, 3)) for count in (0, 1, 2, 3, 4, 5, 7, 8, 13)]

    def prefixes(arrays: list[Any]) -> list[Any]:
        return [blu.associative_scan(lambda a, b: a + b, x, reverse=reverse, axis=1) for x in arrays]

    for x, found in zip(arrays, blu.jit(prefixes)(arrays), strict=True):
        turned = x[:, :: -1 if reverse else 1]
        np.testing.assert_allclose(found, np.cumsum(turned, 1)[:, :: -1 if reverse else 1], atol=1e-13)


def test_a_linear_recurrence_and_its_gradient() -> None:
    def recurrence(decay: Any, inputs: Any) -> Any:
        joined = blu.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (decay, inputs))
        return blu.sum(joined[1] ** 2)

    def steps(decay: Any, inputs: Any) -> Any:
        states = blu.scan(lambda h, v: (h * v[0] + v[1],) * 2, 0.0, (decay, inputs))[1]
        return blu.sum(states**2)

    decay, inputs = RNG.random(9), RNG.random(9)
    found, expected = (blu.jit(blu.grad(item, argnums=(0, 1)))(decay, inputs) for item in (recurrence, steps))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_gradient_carries_and_computes_only_what_is_asked_for() -> None:
    """That of x takes sums in every step, and nobody reads what is counted. The products of the way forward are kept,
    and what steps add up of the gradient of w is one product after them."""

    def loss(w: Any, x: Any) -> Any:
        def step(carry: Any, v: Any) -> Any:
            h, count, factor = carry
            return (blu.tanh(v @ w + h), count + 1, factor), (h * factor, count)

        (last, _, factor), _ = blu.scan(step, (x[0], 0, x[1]), x)
        return blu.sum(last * factor)

    specs = blu.spec((4, 4), "f64"), blu.spec((5, 2, 4), "f64")
    text = blu.jit(blu.grad(loss)).trace(*specs).lower(stop="blu").text
    assert (text.count('"blu.scan"('), text.count('"blu.matmul"(')) == (2, 2)
    carries = {line.count("tensor<2x4xf64>") for line in text.splitlines() if "^bb0(" in line}
    assert max(carries) == 3  # the gradient so far, h, and v @ w


@pytest.mark.parametrize("policy, again", [(None, 0), ("contractions", 0), ("nothing", 1), ("everything", 0)])
def test_a_checkpoint_says_which_contractions_of_a_step_are_computed_again(policy: str | None, again: int) -> None:
    def loss(x: Any, w: Any) -> Any:
        def step(h: Any, v: Any) -> Any:
            with blu.checkpoint(policy) if policy else nullcontext():
                h = blu.tanh(blu.sin(h @ w) + v)
            return h, h

        return blu.sum(blu.scan(step, x[0], x)[1] ** 2)

    text = blu.jit(blu.grad(loss, argnums=(0, 1))).trace(X, W).lower(stop="blu").text
    assert text.count('"blu.matmul"(') == 3 + again


def test_what_was_kept_of_contractions_is_kept_for_each_of_many() -> None:
    """Gradients of what is done for many at once, and what is done for many with a gradient."""
    xs, total_of = np.stack([X, X + 1, X - 1]), total(recurrent, blu.scan)
    many = blu.jit(blu.vmap(blu.grad(total_of, argnums=(0, 1)), in_axes=(0, None)))(xs, W)
    summed = blu.jit(blu.grad(lambda xs, w: blu.sum(blu.vmap(lambda x: total_of(x, w))(xs)), argnums=(0, 1)))(xs, W)
    one = [blu.jit(blu.grad(total_of, argnums=(0, 1)))(x, W) for x in xs]
    for place, item in enumerate(one):
        np.testing.assert_allclose(many[0][place], item[0], rtol=1e-11)
        np.testing.assert_allclose(many[1][place], item[1], rtol=1e-11)
        np.testing.assert_allclose(summed[0][place], item[0], rtol=1e-11)
    np.testing.assert_allclose(summed[1], sum(np.asarray(item[1]) for item in one), rtol=1e-11)


def test_what_is_pulled_back_shares_the_loop_of_the_result() -> None:
    def pulled(x: Any, w: Any) -> Any:
        value, pull_back = blu.vjp(lambda x: recurrent(blu.scan, x, w)[0], x)
        return value, pull_back(value)

    text = blu.jit(pulled).trace(X, W).lower(stop="blu").text
    assert text.count('"blu.scan"(') == 2


def test_a_loop_that_keeps_something_for_its_gradient_takes_the_place_of_the_one_that_does_not() -> None:
    """The function keeps its own; its gradient has one forth and one back."""
    loss = lambda x: blu.sum(blu.scan(lambda c, row: (blu.sin(c + row), row), x[0], x)[0])  # noqa: E731
    assert blu.jit(blu.grad(loss)).trace(X).lower(stop="blu-differentiate").text.count('"blu.scan"') == 3


@pytest.mark.parametrize("reverse", [False, True])
def test_what_is_kept_of_each_step_is_not_copied(reverse: bool) -> None:
    def program(x: Any, w: Any) -> Any:
        def step(h: Any, v: Any) -> Any:
            after = blu.tanh(h @ w + v)
            return after, (h, after)

        return blu.scan(step, x[0], x, reverse=reverse)

    compiled = blu.jit(program).trace(blu.spec((3, 2, 4), "f64"), blu.spec((4, 4), "f64")).compile()
    [loop] = json.loads(compiled.executable["plan.json"])["loops"]
    assert (loop["last"] - loop["first"], loop["count"]) == (1, 3)


def test_a_step_that_is_wrong_is_told_under_the_loops_name_once() -> None:
    with pytest.raises(blu.BluError) as caught:
        blu.scan(lambda c, x: (c[None], x), np.ones(3), np.ones((2, 3)))
    assert caught.value.message.count("scan:") == 1

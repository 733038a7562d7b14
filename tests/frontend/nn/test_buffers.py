"""Arrays of modules that are no parameters: no gradient, no step of an optimizer, and what `forward` makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu import nn, optim
from blu.dialects.core.dtypes import as_dtype
from blu.errors import ArgumentError, TraceError

X = np.random.default_rng(0).standard_normal((5, 4))


class Counting(nn.Module):
    """x @ weight, with the sum of all x so far, and how many there were."""

    def __init__(self) -> None:
        self.weight = nn.Parameter((4, 3), as_dtype("f64"))
        self.total = nn.Buffer(np.zeros(4))
        self.count = nn.Buffer(np.zeros((), np.int64))
        self.training = True

    def forward(self, x: Any) -> Any:
        if self.training:
            self.total = self.total + x.sum(axis=0)
            self.count = self.count + 1
        return x @ self.weight


class Outer(nn.Module):
    """Holds it where a path has a list and a dict in it."""

    def __init__(self) -> None:
        self.parts = [{"inner": Counting()}]

    def forward(self, x: Any) -> Any:
        return self.parts[0]["inner"](x)


def loss(model: nn.Module, x: Any) -> Any:
    return blu.sum(model(x) ** 2)


def check_counted(model: Any, times: int) -> None:
    np.testing.assert_allclose(model.total, times * X.sum(axis=0), rtol=1e-12)
    assert int(model.count) == times


def test_what_is_a_buffer() -> None:
    model = Outer().initialize(0)
    names = ["parts.0.inner.total", "parts.0.inner.count"]
    assert [name for name, _ in model.named_buffers()] == names
    assert list(model.state_dict()) == ["parts.0.inner.weight", *names]
    assert "_buffers" not in repr(model) and "(total): float64[4]" in repr(model)


def test_gradients_and_optimizers_leave_them_out() -> None:
    model = Counting().initialize(0)
    gradients = blu.grad(loss)(model, X)
    assert gradients.total is None and gradients.count is None
    np.testing.assert_allclose(gradients.weight, X.T @ (2 * X @ np.asarray(model.weight)), rtol=1e-12)
    for rule in (optim.SGD(momentum=0.9), optim.AdamW(), optim.Adafactor(), optim.Muon(), optim.Lion()):
        state = rule.init(model)
        updated, state = blu.jit(lambda *given, rule=rule: rule.update(*given, 0.1))(model, gradients, state)
        np.testing.assert_array_equal(updated.total, model.total)
        assert int(updated.count) == int(model.count) and np.abs(np.asarray(updated.weight - model.weight)).max() > 1e-4
        kept, _ = rule.update(updated, gradients, state, 0.1, apply=np.bool_(False))
        np.testing.assert_array_equal(kept.weight, updated.weight)
    average = optim.EMA(0.5)
    followed = average.update(model, average.init(model))
    np.testing.assert_array_equal(average.weights(model, followed).total, model.total)
    sums = optim.Accumulation()
    mean = sums.mean(sums.add(sums.init(model), np.float64(1), gradients))[1]
    np.testing.assert_allclose(mean.weight, gradients.weight, rtol=1e-6)


def test_a_compiled_step_returns_the_new_values_and_leaves_what_it_was_given() -> None:
    model = Outer().initialize(0)

    @blu.jit
    def step(model, x):
        value, gradients = blu.value_and_grad(loss)(model, x)
        return value, optim.SGD().update(model, gradients, optim.SGD().init(model), 0.01)[0]

    first = step(model, X)[1]
    check_counted(first.parts[0]["inner"], 1)
    check_counted(step(first, X)[1].parts[0]["inner"], 2)
    check_counted(model.parts[0]["inner"], 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda model: model(X),
        lambda model: blu.jit(lambda model, x: model(x))(model, X),
        lambda model: blu.jit(lambda model, x: model(x)).trace(model, X).compile()(model, X),
        lambda model: blu.grad(loss)(model, X),
        lambda model: blu.jit(blu.grad(loss))(model, X),
        lambda model: blu.jit(lambda model: blu.value_and_grad(loss, has_aux=False)(model, X)[0])(model),
        lambda model: blu.vjp(lambda model: model(X), model)[1](np.ones((5, 3))),
        lambda model: blu.jit(lambda model: blu.vjp(loss, model, X)[1](1.0)[0].weight)(model),
        lambda model: blu.jit(blu.grad(lambda model: blu.sum(blu.grad(loss)(model, X).weight)))(model),
    ],
)
def test_the_caller_s_module_gets_what_is_not_returned(call) -> None:
    model = Counting().initialize(0)
    for times in (1, 2):
        call(model)
        check_counted(model, times)
    model.eval()
    call(model)
    check_counted(model, 2)


def test_each_call_of_a_compiled_function_counts() -> None:
    model = Counting().initialize(0)

    @blu.jit
    def twice(model, x):
        model(x)
        return model(x)

    twice(model, X)
    check_counted(model, 2)


def test_a_result_without_gradient_does_not_change_that_of_the_loss() -> None:
    model = Counting().initialize(0)
    expected = blu.grad(loss)(model.eval(), X).weight
    np.testing.assert_array_equal(blu.jit(blu.grad(loss))(model.train(), X).weight, expected)


def test_where_a_value_would_be_lost_an_error_says_so() -> None:
    model = Counting().initialize(0)
    line = r"test_buffers.py:\d+: "
    with pytest.raises(TraceError, match=line + "total of Counting would change in a compiled function that the"):
        blu.jit(lambda x: model(x))(X)
    with pytest.raises(TraceError, match=line + r".*changes buffers \(.*total, .*count\), and is mapped"):
        blu.jit(lambda model, x: blu.vmap(lambda model, x: model(x), in_axes=(None, 0))(model, x))(model, X[None])
    with pytest.raises(ArgumentError, match="total of Counting is a buffer, and cannot be 3"):
        model.total = 3
    with pytest.raises(ArgumentError, match="a Buffer is an array or a Parameter, got a float"):
        nn.Buffer(1.0)
    with pytest.raises(TraceError, match="changes its arguments"):
        blu.jit(lambda model: setattr(model, "weight", 2 * model.weight))(model)
    check_counted(model, 0)


@pytest.mark.parametrize("inside", ["scan", "cond"])
def test_bodies_do_not_let_them_out(inside: str) -> None:
    model = Counting().initialize(0)

    def scanned(model, x):
        return blu.scan(lambda carry, _: (carry + blu.sum(model(x)), None), blu.zeros((), "f64"), None, length=3)[0]

    def chosen(model, x):
        return blu.cond(x[0, 0] > 0, lambda: blu.sum(model(x)), lambda: blu.zeros((), "f64"))

    with pytest.raises(TraceError):
        blu.jit({"scan": scanned, "cond": chosen}[inside])(model, X)

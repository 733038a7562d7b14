"""Gradients: every op against finite differences in f64, the walk back, and planted faults that must be caught."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.evaluation import array_type
from blu.dialects.core.op import OPS, Op
from tests.support.programs.gradient_programs import cases_of, floats_of, is_differentiable, scalar_of
from tests.support.programs.interpret import interpret
from tests.support.programs.traced import traced

make_context()  # declares all ops
STEP = 1e-6
# Central differences of f64 functions of order one: half of the digits.
TOLERANCE = 2e-7


def check_gradients(cls: type[Op]) -> None:
    """Compare directional derivatives with central differences of what the op means, all samples in one program."""
    cases = cases_of(cls)
    scalars = [scalar_of(cls, case) for case in cases]
    points = [case.points() for case in cases]
    wanted = [floats_of(case.sample) for case in cases]
    pairs = list(zip(scalars, wanted, strict=True))
    gradients = blu.jit(lambda rows: [blu.grad(f, argnums=w)(*row) for (f, w), row in zip(pairs, rows, strict=True)])
    values = _meaning_of(scalars, points)
    found = gradients(points)
    directions = [_directions(row, places) for row, places in zip(points, wanted, strict=True)]
    after, before = (values(_moved(points, directions, sign * STEP)) for sign in (1, -1))
    for index, (gradient, places, direction) in enumerate(zip(found, wanted, directions, strict=True)):
        numeric = (float(after[index]) - float(before[index])) / (2 * STEP)
        exact = sum(
            float(np.sum(part.numpy() * direction[place])) for part, place in zip(gradient, places, strict=True)
        )
        error = abs(exact - numeric) / max(1.0, abs(numeric))
        assert error < TOLERANCE, f"{cls.name}, sample {index}: gradient {exact}, differences {numeric}"


def _meaning_of(scalars: list[Callable], points: list) -> Callable[[list], list[np.ndarray]]:
    """The functions of a row each, by the ops' references: how well they are compiled, other tests say."""
    ends = np.cumsum([0, *map(len, points)])
    flat = [array for row in points for array in row]
    module = traced(
        lambda *items: [f(*items[first:last]) for f, (first, last) in zip(scalars, pairwise(ends), strict=True)],
        [array_type(array) for array in flat],
    )
    return lambda rows: interpret(module, [array for row in rows for array in row])


def _directions(row: list[np.ndarray], places: list[int]) -> list[Any]:
    rng = np.random.default_rng(7)
    return [rng.uniform(-1, 1, array.shape) if index in places else None for index, array in enumerate(row)]


def _moved(points: list, directions: list, step: float) -> list:
    return [
        [array if along is None else array + step * along for array, along in zip(row, direction, strict=True)]
        for row, direction in zip(points, directions, strict=True)
    ]


DIFFERENTIABLE = [name for name, cls in OPS.items() if is_differentiable(cls)]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient_equals_finite_differences(name: str) -> None:
    check_gradients(OPS[name])


@pytest.mark.parametrize("name", list(OPS))
def test_every_op_has_a_gradient_or_a_reason(name: str) -> None:
    cls = OPS[name]
    if is_differentiable(cls):
        assert cls.vjp is not None or cls.decompose is not None, f"{name} has float results but no gradient"
        shapes = {(case.is_view, *(array.shape for array in case.points())) for case in cases_of(cls)}
        assert len(shapes) >= 5, f"{name} has too few samples to check its gradient on"


FAULTS: dict[str, Callable[[Any], Any]] = {
    "exp": lambda g, x, y: g * x,
    "tanh": lambda g, x, y: g * (1 - y),
    "multiply": lambda g, x, y, z: (g * x, g * y),
    "divide": lambda g, x, y, z: (g / y, g * z / y),
    "sum": lambda g, x, y, axes, keepdims: x,
    "max": lambda g, x, y, axes, keepdims: x * 0,
    "transpose": lambda g, x, y, permutation: g.reshape(x.shape),
    "matmul": lambda g, x, y, z, precision: (x * 0, y * 0),
    "take": lambda g, x, i, y, axis: (x * 0, None),
    "where": lambda g, c, x, y, z: (None, c.where(0, g), c.where(g, 0)),
}


@pytest.mark.parametrize("name", list(FAULTS))
def test_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLU_CACHE_LIMIT", "0")  # the cache knows Blu by its source, not by what a test plants
    monkeypatch.setattr(OPS[name], "vjp", staticmethod(FAULTS[name]))
    with pytest.raises(AssertionError):
        check_gradients(OPS[name])


def test_values_used_twice_add_their_gradients() -> None:
    x = np.linspace(0.1, 1, 6)
    found = blu.grad(lambda x: blu.sum(x * x + blu.exp(x) * x))(x)
    np.testing.assert_allclose(found.numpy(), 2 * x + np.exp(x) * (1 + x), rtol=1e-14)


def test_gradient_of_a_gradient() -> None:
    x = np.array([1.0, 2.0, -0.5])
    second = blu.grad(lambda x: blu.sum(blu.grad(lambda z: blu.sum(z**3))(x) * x))(x)
    np.testing.assert_allclose(second.numpy(), 9 * x * x, rtol=1e-13)


def test_what_the_loss_does_not_depend_on_has_gradient_zero() -> None:
    model = {"used": np.ones(3), "unused": np.ones((2, 2)), "counter": np.int32(3)}
    value, gradients = blu.value_and_grad(lambda model: blu.sum(model["used"] * 2))(model)
    assert float(value) == 6.0
    np.testing.assert_array_equal(gradients["unused"].numpy(), np.zeros((2, 2)))
    assert gradients["counter"] is None


def test_values_of_the_surrounding_function_are_constants() -> None:
    @blu.jit
    def outer(x: Any, y: Any) -> Any:
        scale = blu.exp(y)
        return blu.grad(lambda x: blu.sum(x * x * scale))(x)

    x, y = np.array([1.0, 2.0]), np.array(0.5)
    np.testing.assert_allclose(outer(x, y).numpy(), 2 * x * np.exp(0.5), rtol=1e-14)


def test_only_a_float_scalar_has_a_gradient() -> None:
    with pytest.raises(blu.BluError, match="only a float scalar has a gradient"):
        blu.grad(lambda x: x * 2)(np.ones(3))
    with pytest.raises(blu.BluError, match="the function returns nothing\n  Return it"):
        blu.grad(lambda x: None)(np.ones(3))


def test_gradient_carries_the_line_of_the_operation() -> None:
    def loss(x: Any) -> Any:
        return blu.sum(blu.tanh(x))

    text = blu.jit(blu.grad(loss)).trace(np.ones(3)).lower(stop="blu-inline").text
    line = loss.__code__.co_firstlineno + 1
    assert text.count("blu.multiply") >= 1 and f'test_gradients.py":{line}' in text

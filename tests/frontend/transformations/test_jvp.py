"""Derivatives along directions: of every op, of nested arguments, in each other, and beside PyTorch's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS, Effects, Op
from blu.errors import ArgumentError, BluError, DTypeError, ShapeError, TraceError
from tests.support.programs.gradient_programs import Case, cases_of, floats_of, is_differentiable, scalar_of
from tests.support.programs.interpret import meaning_of

make_context()
# PyTorch's own, of what it does at its first derivative along a direction.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script")
X, T = np.linspace(0.1, 0.9, 6).reshape(2, 3), np.linspace(-1, 2, 6).reshape(2, 3)
W = np.linspace(-0.5, 0.5, 12).reshape(3, 4)


# What ranks exchange would be exchanged once more for what goes back, which is refused.
FORWARD = [name for name, cls in OPS.items() if is_differentiable(cls) and cls.effects is Effects.NONE]


def both_of(cls: type[Op], cases: Sequence[Case]) -> Callable[[list, list], list]:
    """Of each case, the derivative along a move, and the gradients by what moves."""
    scalars = [scalar_of(cls, case) for case in cases]

    def both(rows: list, moves: list) -> list:
        found = []
        for case, function, row, move in zip(cases, scalars, rows, moves, strict=True):
            gradients = blu.grad(function, argnums=floats_of(case.sample))(*row)
            found.append([blu.jvp(function, row, move)[1], *gradients])
        return found

    return both


@pytest.mark.parametrize("name", FORWARD)
def test_every_ops_derivative_is_its_gradient_along_the_direction(name: str) -> None:
    """By what programs mean, for all samples; compiled, for one: how well each op is compiled, other tests say."""
    cls, rng = OPS[name], np.random.default_rng(3)
    cases = cases_of(cls)
    points = [case.points() for case in cases]
    moves = [
        [
            rng.uniform(-1, 1, array.shape) if place in floats_of(case.sample) else None
            for place, array in enumerate(row)
        ]
        for case, row in zip(cases, points, strict=True)
    ]
    _check_along(name, moves, meaning_of(both_of(cls, cases), points, moves))
    compiled = blu.jit(both_of(cls, cases[:1]))(points[:1], moves[:1])
    _check_along(name, moves[:1], [np.asarray(item) for item in compiled[0]])


def _check_along(name: str, moves: list, found: list[np.ndarray]) -> None:
    """Derivatives are those that gradients say: `found` has of each case one, and then its gradients."""
    remaining = iter(found)
    for number, move in enumerate(moves):
        along = next(remaining)
        parts = [next(remaining) * part for part in move if part is not None]
        size = max(1.0, sum(float(np.abs(part).sum()) for part in parts))
        assert abs(float(along) - sum(float(part.sum()) for part in parts)) < 1e-12 * size, f"{name}, sample {number}"
    assert next(remaining, None) is None


PROGRAMS = {
    "softmax": (lambda x, w: blu.softmax(x @ w, axis=-1), lambda x, w: torch.softmax(x @ w, -1)),
    "norm": (lambda x, w: blu.sqrt(blu.sum(x * x)) * blu.max(w), lambda x, w: torch.sqrt((x * x).sum()) * w.max()),
    "cumsum": (lambda x, w: blu.cumsum(blu.tanh(x), 1) @ w, lambda x, w: torch.tanh(x).cumsum(1) @ w),
    "sort": (lambda x, w: blu.sort(blu.sin(7 * x), axis=1) @ w, lambda x, w: torch.sin(7 * x).sort(1).values @ w),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("jit", [True, False])
def test_values_are_those_of_pytorch(name: str, jit: bool) -> None:
    ours, theirs = PROGRAMS[name]
    move = (T, np.cos(W))
    program = lambda x, w, tx, tw: blu.jvp(ours, (x, w), (tx, tw))  # noqa: E731
    found = (blu.jit(program) if jit else program)(X, W, *move)
    wanted = torch.func.jvp(theirs, (torch.tensor(X), torch.tensor(W)), tuple(map(torch.tensor, move)))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_nested_arguments_and_results() -> None:
    def function(parts: Any, ids: Any) -> Any:
        return {"y": parts["x"] @ parts["w"], "rest": [blu.argmax(parts["x"]), blu.sin(parts["x"])]}, ids

    def pushed(x: Any, w: Any) -> Any:
        return blu.jvp(function, ({"x": x, "w": w}, np.arange(3)), ({"x": T, "w": None}, None), has_aux=True)

    result, moved, ids = blu.jit(pushed)(X, W)
    np.testing.assert_allclose(result["y"], X @ W, rtol=1e-14)
    np.testing.assert_allclose(moved["y"], T @ W, rtol=1e-13, atol=1e-14)
    assert moved["rest"][0] is None and ids.shape == (3,)
    np.testing.assert_allclose(moved["rest"][1], np.cos(X) * T, rtol=1e-14)


def test_nothing_that_goes_back_is_computed() -> None:
    program = blu.jit(lambda x, t: blu.jvp(lambda x: blu.sum(blu.exp(blu.sin(x)) * x), (x,), (t,)))
    text = program.trace(X, T).lower(stop="blu").text
    counts = {name: text.count(f'"blu.{name}"') for name in ("sin", "cos", "exp", "multiply", "add", "sum")}
    assert counts == {"sin": 1, "cos": 1, "exp": 1, "multiply": 5, "add": 1, "sum": 2}


def test_gradients_and_directions_in_each_other() -> None:
    cube = lambda x: blu.sum(x**3)  # noqa: E731
    for jit in (blu.jit, lambda f: f):
        forward_over_reverse = jit(lambda x, t: blu.jvp(blu.grad(cube), (x,), (t,))[1])(X, T)
        reverse_over_forward = jit(lambda x, t: blu.grad(lambda x: blu.jvp(cube, (x,), (t,))[1])(x))(X, T)
        np.testing.assert_allclose(forward_over_reverse, 6 * X * T, rtol=1e-13)
        np.testing.assert_allclose(reverse_over_forward, 6 * X * T, rtol=1e-13)
    twice = blu.jit(lambda x: blu.jvp(lambda x: blu.jvp(blu.sin, (x,), (1.0,))[1], (x,), (1.0,))[1])
    assert np.isclose(twice(0.3), -np.sin(0.3), rtol=1e-13)


def test_loops_and_choices() -> None:
    def steps(x: Any) -> Any:
        last, all_of_them = blu.scan(lambda c, row: (blu.sin(c + row), c * row), x[0], x)
        return blu.cond(last[0] > 0, lambda: last * 2, lambda: last), all_of_them

    def theirs(x: Any) -> Any:
        c, rows = x[0], []
        for row in x:
            rows.append(c * row)
            c = torch.sin(c + row)
        return c * 2, torch.stack(rows)

    found = blu.jit(lambda x, t: blu.jvp(steps, (x,), (t,))[1])(X, T)
    wanted = torch.func.jvp(theirs, (torch.tensor(X),), (torch.tensor(T),))[1]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_linearize_gives_a_function_of_tangents() -> None:
    result, push = blu.linearize(blu.exp, X)
    np.testing.assert_allclose(result, np.exp(X), rtol=1e-14)
    for tangent in (T, 2 * T):
        np.testing.assert_allclose(push(tangent), np.exp(X) * tangent, rtol=1e-14)

    def both(x: Any, one: Any, other: Any) -> Any:
        _, push = blu.linearize(lambda x: blu.exp(blu.sin(x)), x)
        return push(one), push(other)

    program = blu.jit(both)
    for found, tangent in zip(program(X, T, T + 1), (T, T + 1), strict=True):
        np.testing.assert_allclose(found, np.exp(np.sin(X)) * np.cos(X) * tangent, rtol=1e-13)
    assert program.trace(X, T, T).lower(stop="blu").text.count('"blu.exp"') == 1


def test_rules_of_users_go_forward() -> None:
    @blu.custom_vjp
    def doubled(x: Any) -> Any:
        return x * 2

    doubled.defvjp(lambda x: (doubled(x), None), lambda _, g: (g * 7,))
    np.testing.assert_allclose(blu.jvp(doubled, (X,), (T,))[1], 7 * T, rtol=1e-14)


@pytest.mark.parametrize(
    ("primals", "tangents", "kind", "says"),
    [
        (X, (T,), ArgumentError, "primals is a ndarray, and no tuple"),
        ((X,), T, ArgumentError, "tangents is a ndarray, and no tuple"),
        ((X,), (T, T), ArgumentError, "there are 2 tangents for 1 primals"),
        ((X,), (T[1:],), ShapeError, "is given for primal 0 a tangent of f64[1, 3], expected f64[2, 3]"),
        ((X,), (T.astype(np.float32),), DTypeError, "a tangent of f32[2, 3], expected f64[2, 3]"),
        ((X,), ([T],), TraceError, "is given for primal 0 a list, which is no tensor"),
        (({"x": X},), ({"y": T},), TraceError, "a tangent of another nesting: y, expected x"),
        ((np.arange(3),), (None,), ArgumentError, "no argument is a float tensor"),
        ((X, np.arange(3)), (T, np.arange(3)), DTypeError, "and that is i64[3], which has none"),
    ],
)
def test_what_does_not_fit_is_named(primals: Any, tangents: Any, kind: type[BluError], says: str) -> None:
    function = lambda *items: blu.sum(items[0]["x"] if isinstance(items[0], dict) else items[0])  # noqa: E731
    with pytest.raises(kind) as caught:
        blu.jvp(function, primals, tangents)
    assert says in caught.value.message


def test_pulling_back_through_a_composite_alone() -> None:
    """Its result is the function's: no other op reads it."""
    _, pull_back = blu.vjp(lambda x: blu.softmax(x, axis=-1), X)
    wanted = torch.func.vjp(lambda x: torch.softmax(x, -1), torch.tensor(X))[1](torch.tensor(T))
    np.testing.assert_allclose(pull_back(T)[0], wanted[0], rtol=1e-12)
    square = blu.grad(lambda x: blu.einsum("i,i->", x, x))
    np.testing.assert_allclose(square(X[0]), 2 * X[0], rtol=1e-14)

"""All derivatives of functions of several numbers, beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import ArgumentError, BluError, DTypeError

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script")
X, W = np.linspace(-1, 1, 6).reshape(2, 3), np.linspace(0.2, 1.5, 12).reshape(3, 4)
OURS = {
    "product": lambda x, w: blu.tanh(x @ w),
    "softmax": lambda x, w: blu.softmax(x @ w, axis=-1) * blu.sum(x * x),
    "scalar": lambda x, w: blu.sum(blu.sin(x @ w)),
}
THEIRS = {
    "product": lambda x, w: torch.tanh(x @ w),
    "softmax": lambda x, w: torch.softmax(x @ w, -1) * (x * x).sum(),
    "scalar": lambda x, w: torch.sin(x @ w).sum(),
}


@pytest.mark.parametrize("name", list(OURS))
@pytest.mark.parametrize("transform", ["jacrev", "jacfwd", "hessian"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1)])
def test_values_are_those_of_pytorch(name: str, transform: str, argnums: Any) -> None:
    found = blu.jit(getattr(blu, transform)(OURS[name], argnums))(X, W)
    wanted = getattr(torch.func, transform)(THEIRS[name], argnums)(torch.tensor(X), torch.tensor(W))
    if transform == "hessian" and isinstance(argnums, tuple):
        found, wanted = ([item for row in rows for item in row] for rows in (found, wanted))
    for one, other in zip(
        *((item if isinstance(item, list | tuple) else [item]) for item in (found, wanted)), strict=True
    ):
        assert one.shape == tuple(other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd"])
def test_nested_arguments_and_results(transform: str) -> None:
    def function(parts: Any, scale: Any) -> Any:
        return {"y": parts["x"] * scale, "sum": [blu.sum(parts["b"] ** 2)]}, scale

    parts = {"x": X[0], "b": W[0]}
    found, aux = getattr(blu, transform)(function, has_aux=True)(parts, 3.0)
    np.testing.assert_allclose(found["y"]["x"], 3 * np.eye(3), rtol=1e-14)
    np.testing.assert_array_equal(found["y"]["b"], np.zeros((3, 4)))
    np.testing.assert_allclose(found["sum"][0]["b"], 2 * W[0], rtol=1e-14)
    assert found["sum"][0]["x"].shape == (3,) and float(aux) == 3


def test_the_forward_pass_is_computed_once() -> None:
    """Not once for each element."""
    text = blu.jit(blu.jacrev(lambda x: blu.exp(blu.sin(x)))).trace(X[0]).lower(stop="blu").text
    [line] = [line for line in text.splitlines() if '"blu.exp"' in line]
    assert "-> tensor<3xf64>" in line and '"blu.scan"' not in text


@pytest.mark.parametrize("transform", ["jacrev", "jacfwd", "hessian"])
def test_through_loops_and_rules_of_users(transform: str) -> None:
    @blu.custom_vjp
    def squared(x: Any) -> Any:
        return x * x

    squared.defvjp(lambda x: (squared(x), x), lambda x, g: (2 * g * x,))
    ours = lambda x: blu.sum(blu.scan(lambda c, row: (blu.sin(c) + squared(row), None), x[0], x)[0])  # noqa: E731

    def theirs(x: Any) -> Any:
        c = x[0]
        for row in x:
            c = torch.sin(c) + row * row
        return c.sum()

    wanted = getattr(torch.func, transform)(theirs)(torch.tensor(X))
    np.testing.assert_allclose(blu.jit(getattr(blu, transform)(ours))(X), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        (
            lambda: blu.jacrev(blu.sin, 1)(X),
            ArgumentError,
            "jacrev: cannot differentiate with respect to argument 1 of 1",
        ),
        (lambda: blu.jacfwd(lambda x: x * 1.0)(np.arange(3)), DTypeError, "jacfwd: argument 0 is i64[3]"),
        (
            lambda: blu.jacrev(lambda x: (x, blu.argmax(x)))(X),
            DTypeError,
            "jacrev: the result.1 is i64[], and no float",
        ),
    ],
)
def test_what_has_no_derivatives_is_named(program: Any, kind: type[BluError], says: str) -> None:
    with pytest.raises(kind) as caught:
        program()
    assert says in caught.value.message

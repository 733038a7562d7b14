"""Gradients where functions have a corner, a tie, a bound or a pole: torch's, and what is written down as another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import blu

NAN, INF = np.nan, np.inf
POINTS = np.array([0.0, 1.0, -1.0, INF, -INF], np.float32)
# Functions of one operand, with torch's name where it is another.
UNARY = {name: name for name in "sqrt rsqrt log log2 log10 log1p expm1 exp exp2 sin cos tan tanh sigmoid erf".split()}
UNARY |= {name: name for name in "erfc reciprocal square relu sinh cosh negative".split()} | {"absolute": "abs"}
UNARY |= {f"arc{name}": f"a{name}" for name in "sin cos tan sinh cosh tanh".split()}

PAIRS: dict[str, tuple[list[tuple[float, float]], Any]] = {
    "power": ([(0, -1), (0, -0.5), (0, -INF), (0, 0.5), (0, 1), (0, 2), (1, 0), (2, -1)], torch.pow),
    "remainder": ([(0.25, 0.001), (3, INF), (-3, INF), (3, 0), (0, 2), (-7, 2), (7, -2)], torch.remainder),
    "arctan2": ([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (3, 4)], torch.atan2),
    "maximum": ([(1, 1), (-2, 1), (1, -2), (0.0, -0.0), (INF, INF), (-INF, -INF)], torch.maximum),
    "minimum": ([(1, 1), (-2, 1), (1, -2), (0.0, -0.0), (INF, INF), (-INF, -INF)], torch.minimum),
    "divide": ([(1, 0), (0, 0), (1, INF), (INF, 2)], torch.div),
    "copysign": ([(0, -1), (2, -0.0), (-2, 3), (-2, -3)], torch.copysign),
    "logaddexp": ([(1, 1), (INF, 0), (-INF, 0), (INF, -INF), (0, 50)], torch.logaddexp),
}


def summed(name: str) -> Callable[..., Any]:
    """The sum of what a function gives at all points."""
    return lambda *operands: blu.sum(getattr(blu, name)(*operands))


def kinds(values: np.ndarray) -> list[float]:
    """Numbers to four digits; zeros of both signs are the same to whom compares them."""
    return [float(f"{item:.4g}") for item in values.astype(np.float64)]


def test_functions_of_one_operand_have_torchs_gradients_at_corners_and_poles() -> None:
    programs = blu.jit(lambda x: [blu.grad(summed(name))(x) for name in UNARY])
    for (name, torchs), found in zip(UNARY.items(), programs(POINTS), strict=True):
        x = torch.tensor(POINTS, requires_grad=True)
        getattr(torch, torchs)(x).sum().backward()
        assert x.grad is not None
        np.testing.assert_array_equal(kinds(np.asarray(found)), kinds(x.grad.numpy()), err_msg=name)


def test_functions_of_two_operands_have_torchs_gradients_at_ties_and_poles() -> None:
    columns = [np.array(points, np.float32).T.copy() for points, _ in PAIRS.values()]

    def program(columns: list[Any]) -> list[Any]:
        return [
            blu.grad(summed(name), argnums=(0, 1))(pair[0], pair[1]) for name, pair in zip(PAIRS, columns, strict=True)
        ]

    for (name, (points, reference)), found in zip(PAIRS.items(), blu.jit(program)(columns), strict=True):
        operands = [
            torch.tensor(column, dtype=torch.float32, requires_grad=True) for column in zip(*points, strict=True)
        ]
        reference(*operands).sum().backward()
        for place, (operand, gradient) in enumerate(zip(operands, found, strict=True)):
            expected = np.zeros(len(points)) if operand.grad is None else operand.grad.numpy()
            np.testing.assert_array_equal(
                kinds(np.asarray(gradient)), kinds(expected), err_msg=f"{name}, operand {place}, at {points}"
            )


def test_zero_to_no_power_falls_infinitely_steeply_with_the_exponent() -> None:
    """torch has 0 there; 0 to the powers around 0 is infinite below and 0 above."""
    of_base, of_exponent = blu.grad(blu.power, argnums=(0, 1))(np.float64(0), np.float64(0))
    assert (float(of_base), float(of_exponent)) == (0, -INF)


@pytest.mark.parametrize("size", [1e-30, 1e30])
def test_arctan2_has_gradients_where_squares_leave_the_range(size: float) -> None:
    points = np.array([[1, 1], [0, 1], [1, 0]], np.float32).T * np.float32(size)
    found = blu.grad(lambda p: blu.sum(blu.arctan2(p[0], p[1])))(points)
    np.testing.assert_allclose(np.asarray(found) * size, [[0.5, 1, 0], [-0.5, 0, -1]], rtol=1e-5)


def test_clip_passes_gradients_within_the_bounds_and_on_them() -> None:
    x = np.array([-1, 0, 0.5, 1, 2, NAN, INF, -INF], np.float32)
    low, high = np.zeros(8, np.float32), np.ones(8, np.float32)
    both = [blu.grad(lambda *a: blu.sum(blu.clip(*a)), argnums=(0, 1, 2))(x, *bounds) for bounds in
            ((low, high), (high, low))]  # fmt: skip
    for found, bounds in zip(both, ((low, high), (high, low)), strict=True):
        operands = [torch.tensor(item, requires_grad=True) for item in (x, *bounds)]
        torch.clamp(*operands).nansum().backward()
        for operand, gradient in zip(operands, found, strict=True):
            assert operand.grad is not None
            kept = ~np.isnan(x)
            np.testing.assert_array_equal(np.asarray(gradient)[kept], operand.grad.numpy()[kept])
            assert bounds[0] is high or not np.asarray(gradient)[~kept].any()


def test_clip_with_one_bound_or_none_passes_gradients() -> None:
    x = np.array([-1, 0, 0.5, 1, 2], np.float32)
    for bounds, expected in (((0, None), [0, 1, 1, 1, 1]), ((None, 1), [1, 1, 1, 1, 0]), ((None, None), [1] * 5)):
        found = blu.grad(lambda x, bounds=bounds: blu.sum(blu.clip(x, *bounds)))(x)
        np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_deviation_of_equal_elements_has_the_gradient_zero(dtype: Any) -> None:
    rows = np.array([[1, 1, 1, 1], [1, 2, 3, 4], [0, 0, 0, 0]], dtype)
    found = np.asarray(blu.grad(lambda x: blu.sum(blu.std(x, axis=1)).astype("f32"))(rows)).astype(np.float64)
    x = torch.tensor(rows.astype(np.float64), requires_grad=True)
    x.std(1, correction=0).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(found, x.grad.numpy(), rtol=2e-3, atol=1e-6)


def test_the_largest_and_smallest_share_a_gradient_where_they_are_several() -> None:
    rows = np.array([[3, 1, 3, 2], [1, 1, 1, 1], [2, 5, 7, 7], [4, 0, 0, 0]], np.float32)
    weights = np.array([1, 2, 3, 4], np.float32)
    found = blu.jit(lambda x, w: [blu.grad(lambda x, f=f: blu.sum(f(x, 1) * w))(x) for f in (blu.max, blu.min)])
    for name, gradient in zip(("amax", "amin"), found(rows, weights), strict=True):
        x = torch.tensor(rows, requires_grad=True)
        (getattr(torch, name)(x, 1) * torch.tensor(weights)).sum().backward()
        assert x.grad is not None
        np.testing.assert_allclose(np.asarray(gradient), x.grad.numpy(), rtol=1e-6, err_msg=name)


def test_products_with_zeros_have_finite_gradients() -> None:
    rows = np.array([[0, 0, 2], [0, 3, 4], [2, 3, 4]], np.float32)
    found = blu.grad(lambda x: blu.sum(blu.prod(x, 1)))(rows)
    np.testing.assert_allclose(np.asarray(found), [[0, 0, 0], [12, 0, 0], [12, 8, 6]])


def test_logaddexp_of_equal_infinities_shares_its_gradient() -> None:
    """torch has NaN there."""
    x = np.array([INF, -INF], np.float32)
    for found in blu.grad(lambda x, y: blu.sum(blu.logaddexp(x, y)), argnums=(0, 1))(x, x):
        np.testing.assert_array_equal(np.asarray(found), [0.5, 0.5])

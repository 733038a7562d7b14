"""What `blu.pad` puts around elements, in all of its modes, against NumPy, and the gradients; 0-d tensors' one axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, ShapeError

X = np.arange(12, dtype=np.float32).reshape(3, 4)
MODES = ("edge", "reflect", "symmetric", "wrap")
WIDTHS: tuple[Any, ...] = (0, (0, 1), (2, 3), (7, 9), ((0, 0), (5, 2)), ((1, 0), (0, 12)))


@pytest.mark.parametrize("mode", MODES)
def test_own_elements_around_are_numpys(mode: str) -> None:
    arrays = [X, np.arange(3, dtype=np.int32).reshape(3, 1) > 1, np.ones((1, 1), np.float64), np.ones((0, 2))]

    @blu.jit
    def padded(*tensors: Any) -> Any:
        whole = [blu.pad(tensor, widths, mode=mode) for tensor in tensors[:3] for widths in WIDTHS]
        return [*whole, blu.pad(tensors[3], ((0, 0), (1, 4)), mode=mode)]

    expected = [np.pad(array, widths, mode=mode) for array in arrays[:3] for widths in WIDTHS]
    for found, wanted in zip(padded(*arrays), [*expected, np.ones((0, 7))], strict=True):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", MODES)
def test_the_gradient_counts_how_often_an_element_stands(mode: str) -> None:
    weights = np.random.default_rng(0).integers(1, 9, (3 + 11, 4 + 5)).astype(np.float32)
    found = blu.jit(blu.grad(lambda x: (blu.pad(x, ((4, 7), (3, 2)), mode=mode) * weights).sum()))(X)
    places = np.pad(np.arange(12).reshape(3, 4), ((4, 7), (3, 2)), mode=mode)
    np.testing.assert_array_equal(found, np.bincount(places.ravel(), weights.ravel()).reshape(3, 4))


def with_constant(row: np.ndarray, before: int, after: int) -> np.ndarray:
    """The elements at positions -before to len(row) + after, 7 where there are none."""
    positions = np.arange(-before, len(row) + after)
    inside = (positions >= 0) & (positions < len(row))
    return np.where(inside, row[np.where(inside, positions, 0)], 7)


def test_negative_widths_take_elements_away() -> None:
    row = X[0]
    pairs = [(before, after) for before in range(-6, 7) for after in range(-6, 7) if 4 + before + after >= 0]
    found = blu.jit(lambda row: [blu.pad(row, pair, 7) for pair in pairs])(row)
    for pair, result in zip(pairs, found, strict=True):
        np.testing.assert_array_equal(result, with_constant(row, *pair), err_msg=str(pair))
    own = blu.jit(lambda row: [blu.pad(row, (-1, 2), mode=mode) for mode in MODES])(row)
    assert [result.tolist() for result in own] == [[1, 2, 3, 3, 3], [1, 2, 3, 2, 1], [1, 2, 3, 3, 2], [1, 2, 3, 1, 2]]


def test_widths_that_cannot_be_are_errors() -> None:
    with pytest.raises(ShapeError, match=r"widths \(-3, -2\) take away more than the 4 elements"):
        blu.jit(lambda row: blu.pad(row, (-3, -2)))(X[0])
    with pytest.raises(ShapeError, match="mode='reflect' needs elements along axis 0, of which f32\\[0\\] has none"):
        blu.jit(lambda row: blu.pad(row, 1, mode="reflect"))(X[0, :0])
    with pytest.raises(ArgumentError, match="mode='mirror' is none of constant, edge, reflect, symmetric, wrap"):
        blu.jit(lambda row: blu.pad(row, 1, mode="mirror"))(X[0])


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, axis: blu.cumsum(x, axis), 3.0),
        (lambda x, axis: blu.cumprod(x, axis), 3.0),
        (lambda x, axis: blu.sort(x, axis), 3.0),
        (lambda x, axis: blu.argsort(x, axis), 0),
        (lambda x, axis: blu.swapaxes(x, axis, axis), 3.0),
        (lambda x, axis: blu.vector_norm(x, axis), 3.0),
    ],
)
def test_a_tensor_without_dimensions_may_be_said_to_have_one(function: Callable[..., Any], expected: float) -> None:
    x = np.float32(3)
    found = blu.jit(lambda x: [function(x, axis) for axis in (0, -1)])(x)
    assert [(result.shape, result.item()) for result in found] == [((), expected)] * 2
    with pytest.raises(ShapeError, match="axis 1 is out of range: a 0-d tensor has no axes"):
        blu.jit(lambda x: function(x, 1))(x)

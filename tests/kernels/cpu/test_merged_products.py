"""Products of several dimensions of rows and of depth, as those of convolutions, with tiles that do not fit them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu

# Images of height x width, channels, features: rows of images shorter, longer and one more than tiles; sums of one
# chain and of several, from the middle of a line of a window on; columns of one vector, of a tile and of one more.
SIZES = ((7, 7, 64, 65), (3, 33, 5, 48), (1, 17, 3, 16), (5, 1, 96, 33))


def _operands(number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x [N, H, W, C], the weight [F, C, 3, 3] and the result's gradient, small whole numbers: no dtype rounds sums."""
    height, width, channels, features = SIZES[number]
    rng = np.random.default_rng(number)
    shapes = ((3, height, width, channels), (features, channels, 3, 3), (3, height, width, features))
    x, weight, g = (rng.integers(-1, 2, shape).astype(np.float64) for shape in shapes)
    return x, weight, g


def _expected(x: np.ndarray, weight: np.ndarray, g: np.ndarray) -> list[np.ndarray]:
    seen = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), axis=(1, 2))
    around = np.zeros_like(seen)
    for i, j in np.ndindex(3, 3):
        around[:, i : i + x.shape[1], j : j + x.shape[2]] += g @ weight[:, :, i, j]
    return [
        np.einsum("nhwcij,fcij->nhwf", windows, weight),
        around[:, 1:-1, 1:-1],
        np.einsum("nhwcij,nhwf->fcij", windows, g),
    ]


def _all(operands: list[tuple[Any, Any, Any]]) -> list[list[Any]]:
    """The result and both gradients of each convolution."""
    found = []
    for x, weight, g in operands:
        y, back = blu.vjp(lambda x, weight: blu.conv2d(x, weight, padding=1, channels_last=True), x, weight)
        found.append([y, *back(g)])
    return found


@pytest.mark.parametrize(("dtype", "count"), [("f32", len(SIZES)), ("f64", 2), ("bf16", 1), ("f16", 1)])
def test_results_and_gradients_are_exact(dtype: str, count: int) -> None:
    operands = [_operands(number) for number in range(count)]
    given = [tuple(blu.astype(blu.asarray(array), dtype) for array in arrays) for arrays in operands]
    found = blu.jit(_all)(given)
    for number, arrays in enumerate(operands):
        for own, expected in zip(found[number], _expected(*arrays), strict=True):
            rounded = np.asarray(blu.astype(blu.asarray(expected), dtype)).astype(np.float64)
            np.testing.assert_array_equal(np.asarray(own).astype(np.float64), rounded, err_msg=str(SIZES[number]))


def test_rows_between_images_are_not_computed() -> None:
    arrays = [tuple(array.astype(np.float32) for array in _operands(number)) for number in (0, 1)]
    module = blu.jit(_all).trace(arrays).lower("x86-64-v3", stop="linalg").text
    products = [line for line in module.splitlines() if "linalg.contract" in line]
    shapes = [line.rsplit("tensor<", 1)[1].split("xf32")[0] for line in products]
    assert sorted(shapes) == sorted(["3x7x7x65", "3x7x7x64", "3x3x64x65", "3x3x33x48", "3x3x33x5", "3x15x48"])


def test_products_of_more_dimensions_than_a_matrix_has() -> None:
    rng = np.random.default_rng(0)
    left, right = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((5, 4, 3, 2, 6, 9), (2, 5, 9, 40, 3)))

    def product(left: Any, right: Any) -> Any:
        return blu.einsum("abcijk,iakfc->bcaf", left, right), blu.einsum("abcijk,iakfd->jbfd", left, right)

    expected = product_of_numpy(left, right)
    for own, wanted in zip(blu.jit(product)(left, right), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(own), wanted)


def product_of_numpy(left: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return (
        np.einsum("abcijk,iakfc->bcaf", left, right),
        np.einsum("abcijk,iakfd->jbfd", left, right),
    )

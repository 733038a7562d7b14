"""Convolutions with windows of 3 x 3 by tiles, on a processor: values, gradients, and what is not made so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu

WIDE = 64


def both_gradients(**along: Any) -> Any:
    def compute(x: Any, weight: Any, g: Any) -> Any:
        y, back = blu.vjp(lambda x, weight: blu.conv2d(x, weight, channels_last=True, **along), x, weight)
        return y, *back(g)

    return compute


def windows_of(x: np.ndarray, padding: tuple[int, int]) -> np.ndarray:
    """[N, H, W, C, 3, 3]."""
    around = [(0, 0), *((count, count) for count in padding), (0, 0)]
    return np.lib.stride_tricks.sliding_window_view(np.pad(x, around), (3, 3), axis=(1, 2))


def arrays(size: tuple[int, int, int], padding: tuple[int, int], widths: tuple[int, int] = (WIDE, WIDE)) -> tuple:
    rng, (channels, features) = np.random.default_rng(0), widths
    x, weight = rng.standard_normal((*size, channels)), rng.standard_normal((features, channels, 3, 3)) / 24
    g = rng.standard_normal((*windows_of(x, padding).shape[:3], features))
    return x, weight, g


def products_of(compute: Any, *operands: np.ndarray) -> int:
    """How many products there are behind the pass, when what nobody reads is gone."""
    lowered = blu.jit(compute).trace(*operands).lower("cpu", stop="blu-trim-loops")
    return str(lowered.module).count('"blu.contract"(')


# Images, padding, and how many of results and gradients are by tiles: those of rows without others between are not.
SIZES = (
    ((1, 2, 2), (1, 1), 3),  # one tile
    ((2, 4, 4), (1, 1), 3),  # lines share zeros
    ((2, 6, 10), (0, 0), 2),
    ((2, 6, 4), (0, 1), 3),
)


@pytest.mark.parametrize(("size", "padding", "count"), SIZES)
def test_results_and_gradients_are_those_of_windows(size: tuple[int, int, int], padding: tuple[int, int], count: int):
    x, weight, g = arrays(size, padding)
    seen = windows_of(x, padding)
    back = np.pad(np.zeros_like(x), [(0, 0), *((count, count) for count in padding), (0, 0)])
    for line, column in np.ndindex(3, 3):
        back[:, line:, column:][:, : g.shape[1], : g.shape[2]] += g @ weight[:, :, line, column]
    low, (_, height, width) = padding, size
    expected = (
        np.einsum("nhwcij,fcij->nhwf", seen, weight, optimize=True),
        back[:, low[0] : low[0] + height, low[1] : low[1] + width],
        np.einsum("nhwcij,nhwf->fcij", seen, g, optimize=True),
    )
    compute, operands = both_gradients(padding=padding), [item.astype(np.float32) for item in (x, weight, g)]
    assert products_of(compute, *operands) == 16 * count + 3 - count
    for found, wanted in zip(blu.jit(compute)(*operands), expected, strict=True):
        assert np.linalg.norm(np.asarray(found) - wanted) <= 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize(
    ("size", "widths", "dtype", "along"),
    [
        ((2, 5, 4), (WIDE, WIDE), np.float32, {}),
        ((2, 4, 4), (WIDE, 16), np.float32, {}),
        ((2, 4, 4), (WIDE, WIDE), np.float64, {}),
        ((2, 4, 4), (WIDE, WIDE), np.float32, {"dilation": 2, "padding": 2}),
    ],
)
def test_others_stay_as_they_are(size: tuple[int, int, int], widths: tuple[int, int], dtype: type, along: dict):
    operands = [item.astype(dtype) for item in arrays(size, (1, 1), widths)]
    assert products_of(both_gradients(**{"padding": 1} | along), *operands) == 3


def test_what_takes_too_much_memory_stays_as_it_is():
    x, weight = np.zeros((1, 512, 512, WIDE), np.float32), np.zeros((WIDE, WIDE, 3, 3), np.float32)
    convolve = lambda x, weight: blu.conv2d(x, weight, channels_last=True, padding=1)  # noqa: E731
    assert products_of(convolve, x, weight) == 1
    assert products_of(convolve, x[:, :128, :128], weight) == 16


def test_small_whole_numbers_are_exact():
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((2, 4, 4, WIDE), (WIDE, WIDE, 3, 3)))
    found = blu.jit(lambda x, weight: blu.conv2d(x, weight, channels_last=True, padding=1))(x, weight)
    np.testing.assert_array_equal(found, np.einsum("nhwcij,fcij->nhwf", windows_of(x, (1, 1)), weight))

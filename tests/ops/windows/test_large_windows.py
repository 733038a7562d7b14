"""Windows of `max_pool` that have many places are looked at in stages: the same values, and the same are chosen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.ops.convolution.pooling import MaxPool
from blu.dialects.ops.convolution.pooling_gradient import WINDOWS, MaxPoolGradient, MaxPoolPlace
from blu.dialects.ops.convolution.pooling_stages import stages_of
from blu.dialects.ops.convolution.windows import Dimension

RNG = np.random.default_rng(0)
# Shape of the operand, window, strides, low, high, dilation.
CASES = {
    "long": ((2, 90, 2), (33,), (1,), (0,), (0,), (1,)),
    "strided": ((1, 83, 2), (37,), (3,), (18,), (17,), (1,)),
    "beside": ((1, 9, 1), (40,), (5,), (45,), (43,), (1,)),
    "dilated": ((1, 90, 1), (36,), (2,), (3,), (0,), (2,)),
    "apart": ((1, 50, 1), (36,), (2,), (10,), (14,), (2,)),
    "square": ((1, 9, 8, 2), (7, 6), (1, 2), (3, 2), (2, 0), (1, 1)),
}


def drawn(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Few whole numbers, of which many are equal; or numbers that are not finite, too."""
    if kind == "equal":
        return RNG.integers(0, 3, shape).astype(np.float64)
    return RNG.choice([-np.inf, -np.inf, -np.inf, np.nan, np.inf, 1.0, -0.0, 0.0], shape, p=[0.3] * 3 + [0.02] * 5)


@pytest.mark.parametrize("name", CASES)
def test_the_first_of_the_largest_is_chosen(name: str) -> None:
    shape, *numbers = CASES[name]
    along: dict[str, Any] = dict(zip(WINDOWS, numbers, strict=True))

    def value_and_gradient(x: Any, g: Any) -> Any:
        return MaxPool(x, **along), blu.vjp(lambda x: MaxPool(x, **along), x)[1](g)[0]

    run = blu.jit(value_and_gradient)
    lowest = np.full(shape, -np.inf)
    rising = np.arange(lowest.size, dtype=np.float64).reshape(shape)
    for x in (drawn(shape, "equal"), drawn(shape, "special"), lowest, rising):
        expected = MaxPool.reference(x, **along)
        g = RNG.integers(-4, 5, expected.shape).astype(np.float64)
        back = MaxPoolGradient.reference(g, MaxPoolPlace.reference(x, **along), sizes=shape[1:-1], **along)
        found, gradient = run(x, g)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(gradient, back)


@pytest.mark.parametrize("window", [32, 33, 35, 64, 251, 255, 1000])
def test_stages_see_what_the_window_does(window: int) -> None:
    dim = Dimension(3 * window, window, 3, 0, 0, 2)
    seen = {0}
    stages = stages_of(dim)
    for stage in stages:
        seen = {at + place * stage.dilation for at in seen for place in range(stage.window)}
    assert seen == {place * 2 for place in range(window)} and stages[-1].count == dim.count
    most = 2 * (math.isqrt(window - 1) + 1) + (2 if len(stages) > 2 else 0)
    assert sum(stage.window for stage in stages) <= (32 if len(stages) == 1 else most)
    assert (len(stages) == 1) == (window == 32)

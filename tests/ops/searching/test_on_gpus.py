"""What looks for elements, as kernels of GPUs, which the interpreter of PTX runs: the processor's results."""

from __future__ import annotations

from typing import Any

import numpy as np

import blu
from tests.support.kernels.gpu_program import compile_program
from tests.support.ptx.rounding import high_product

RNG = np.random.default_rng(0)


def test_all_find_what_the_processor_finds() -> None:
    x = RNG.normal(size=(5, 33)).astype(np.float32)
    x[0, 3] = np.nan
    numbers = RNG.integers(0, 9, 300)

    def found(x: Any, numbers: Any) -> list[Any]:
        return [
            *blu.nonzero(x > 0, size=200),
            blu.compress(x > 0, x, size=200),
            *blu.unique(numbers, True, True, True, size=12),
            blu.bincount(numbers, size=9),
            *blu.histogram(x, 7, (-2, 2)),
            blu.nanmedian(x, 1),
            blu.quantile(x, [0.1, 0.5], 1),
            blu.nanquantile(x, 0.3, 0, "nearest"),
            blu.cdist(x, x),
            blu.cdist(x[1:], x, 1),
            blu.grad(lambda x: blu.cdist(x, x).sum())(x[1:]),
            blu.grad(lambda x: blu.nanmedian(x, 1).sum())(x),
            blu.repeat(numbers[:6], numbers[6:12], size=60),
            blu.fmod(x, 0.3),
            *blu.cummax(x, 1, return_indices=True),
            blu.max(x, 1),
        ]

    expected = blu.jit(found)(x, numbers)
    for one, other in zip(compile_program(found, x, numbers).interpret(x, numbers), expected, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)


def test_the_interpreter_multiplies_signed_numbers_of_64_bits() -> None:
    """What divisions by constants become."""
    left, right = RNG.integers(-(2**63), 2**63 - 1, (2, 200))
    left[:3], right[:3] = [-(2**63), -1, 5], [-(2**63), -1, -7]
    expected = [(int(one) * int(other)) >> 64 for one, other in zip(left, right, strict=True)]
    assert high_product(left, right).tolist() == expected

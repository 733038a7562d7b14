"""Kernels of scalars, as many ops as they may have: a thread does them."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program


@pytest.mark.parametrize(("terms", "launches"), [(2, 1), (96, 1), (97, 1), (98, 2), (193, 2), (194, 3)])
def test_sums_of_scalars(terms: int, launches: int) -> None:
    """Of 97 terms the sum is 96 ops."""

    def total(*scalars: blu.Tensor) -> blu.Tensor:
        found = scalars[0]
        for scalar in scalars[1:]:
            found = found + scalar
        return found

    scalars = [np.float32(number * 0.5) for number in range(terms)]
    program = compile_program(total, *scalars)
    assert len(program.plan["launches"]) == launches
    assert program.interpret(*scalars)[0] == np.sum(scalars), "these sums are exact"
    assert blu.jit(total)(*scalars).numpy() == np.sum(scalars)

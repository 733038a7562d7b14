"""Conversions from and to fp8 on GPUs, interpreted: by instructions, and in integer arithmetic where there are none."""

from __future__ import annotations

import pytest

from tests.support.kernels import float8_cases
from tests.support.kernels.gpu_program import compile_program


@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
def test_conversions_are_those_of_ml_dtypes_to_the_bit(target: str) -> None:
    arrays = float8_cases.arguments(all_halves=False)
    program = compile_program(float8_cases.conversions, *arrays, target=target)
    text = "".join(program.ptx.values())
    for instruction in ("cvt.rn.satfinite.e4m3x2.f32", "cvt.rn.f16x2.e5m2x2"):
        assert (instruction in text) == (target != "sm_80")
    float8_cases.check(program.interpret(*arrays), arrays)
    assert not program.spills()

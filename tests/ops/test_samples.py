"""Every op, compiled: all samples of an op in one program give the reference's numbers."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS
from tests.support.programs.op_programs import arrays_of, expected_of, program_of
from tests.support.tolerances import assert_close

make_context()
# Their samples divide integers by zero, which gives 0 and a warning, as in NumPy.
WARNS = ("floor_divide", "remainder")


@pytest.mark.parametrize("name", sorted(OPS))
def test_compiled_op_gives_the_reference(name: str) -> None:
    cls = OPS[name]
    samples = list(cls.samples())
    with pytest.warns(RuntimeWarning, match="division by zero") if name in WARNS else nullcontext():
        found = blu.jit(program_of(cls, samples), name=f"test_{name}")(arrays_of(samples))
    expected = expected_of(cls, samples)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert_close(name, np.asarray(one), other, f"result {number}")

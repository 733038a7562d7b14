"""Every op, compiled: all samples of an op in one program give the reference's numbers."""

from __future__ import annotations

import numpy as np
import pytest
from op_programs import arrays_of, expected_of, program_of
from tolerances import assert_close

import blu
from blu.dialects.context import make_context
from blu.dialects.op import OPS

make_context()


@pytest.mark.parametrize("name", sorted(OPS))
def test_compiled_op_gives_the_reference(name: str) -> None:
    cls = OPS[name]
    samples = list(cls.samples())
    found = blu.jit(program_of(cls, samples), name=f"test_{name}")(arrays_of(samples))
    expected = expected_of(cls, samples)
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        assert_close(name, np.asarray(one), other, f"result {number}")

"""The families of kernels: each has an emitter for every target, and its name is said in one place."""

from __future__ import annotations

import subprocess
import sys

import pytest

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.dialect import BluDialect
from blu.dialects.core.dtypes import FLOATS
from blu.dialects.core.op import OPS
from blu.dialects.ops.pointwise import Unary
from blu.passes.cpu import families as cpu
from blu.passes.framework.families import ATTRIBUTE, FAMILIES
from blu.passes.framework.kernels import has_own_kernel
from blu.passes.gpu import families as gpu
from tests.support.folders import ROOT

make_context()


# Pieces of attention are products and rows on processors, and what is left of rows that a product began is, too.
ELSEWHERE = {"attention_piece", "settle_rows"}


@pytest.mark.parametrize(("emitters", "absent"), [(cpu.EMITTERS, ELSEWHERE), (gpu.EMITTERS, set())], ids=["cpu", "gpu"])
def test_every_family_has_an_emitter(emitters: dict, absent: set[str]) -> None:
    assert emitters.keys() == FAMILIES.keys() - absent


def test_emitters_are_imported_with_the_first_of_their_kernels() -> None:
    code = """
import sys, numpy as np, blu
from blu.passes.cpu.families import EMITTERS
x = np.ones((2, 4), np.float32)
blu.jit(lambda x: blu.exp(x), target="x86-64-v3").trace(x).lower()
print("attention" in EMITTERS, *(name for name in ("attention", "gemm") if f"blu.passes.cpu.{name}" in sys.modules))
blu.jit(lambda x: x @ x.T, target="x86-64-v3").trace(x).lower()
print(len(EMITTERS), *(name for name in ("attention", "gemm") if f"blu.passes.cpu.{name}" in sys.modules))
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == ["True", f"{len(FAMILIES) - len(ELSEWHERE)} gemm"]


def test_every_op_with_a_kernel_is_a_family() -> None:
    assert {name for name, cls in OPS.items() if cls.kernel} == {name for name in OPS if has_own_kernel(f"blu.{name}")}
    assert {name for name, cls in OPS.items() if cls.kernel} <= FAMILIES.keys()


def test_an_op_with_a_kernel_of_its_own_needs_no_rule_to_keep_its_form() -> None:
    class Whole(Unary, name="whole", dtypes=FLOATS):
        """The operand, by a kernel of its own."""

        kernel = True
        reference = staticmethod(lambda x: x.copy())

    try:
        lowered = blu.jit(lambda x: Whole(blu.exp(x)) * 2).trace(blu.spec((4,))).lower("x86-64-v3", stop="linalg")
        assert "func.func private @whole_0(" in lowered.text and '"blu.whole"(%' in lowered.text
    finally:
        BluDialect.operations.remove(OPS.pop("whole").declared)


def test_one_file_knows_how_a_kernel_says_its_family() -> None:
    files = (path for folder in ("passes", "compiler", "dialects") for path in (ROOT / folder).rglob("*.py"))
    assert [path.relative_to(ROOT).as_posix() for path in files if f'"{ATTRIBUTE}"' in path.read_text()] == [
        "passes/framework/families.py"
    ]

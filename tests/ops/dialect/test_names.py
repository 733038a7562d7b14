"""An op has one name: its class's file, its lowering, its kernels and its lit test are called as it or its file is."""

from __future__ import annotations

import re

import pytest

from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS
from blu.passes.cpu import families as cpu
from blu.passes.gpu import families as gpu
from blu.passes.loops.lower_to_linalg import RULES
from tests.support.folders import ROOT

make_context()
OURS = {name: cls for name, cls in OPS.items() if cls.__module__.startswith("blu.dialects.ops.")}
FILES = {name: cls.__module__.rpartition(".")[2] for name, cls in OURS.items()}
"""The file of `dialects/ops` that declares each op."""


def test_a_lowering_is_in_the_file_named_as_the_ops() -> None:
    """`pointwise` has those of `pointwise_unary` and `pointwise_binary`: most are lines of one table."""
    found = {name: rule.__module__.rpartition(".")[2] for name, rule in RULES.items() if name in OURS}
    wrong = {
        name: file for name, file in found.items() if FILES[name] != file and not FILES[name].startswith(f"{file}_")
    }
    assert not wrong and len(found) > 50


@pytest.mark.parametrize("emitters", [cpu.EMITTERS, gpu.EMITTERS], ids=["cpu", "gpu"])
def test_a_kernel_is_in_a_file_named_as_the_op_or_its_file(emitters: dict) -> None:
    """`attention/gradient.py` is a file of this kind: folders are a part of the name."""
    wrong = {}
    for name in (name for name, cls in OURS.items() if cls.kernel):
        if name not in emitters and OURS[name].decompose is not None:
            continue  # targets without such a kernel write the op in simpler ones
        *_, folder, file = emitters[name].emit.__module__.split(".")
        if name not in (file, f"{folder}_{file}") and file != FILES[name]:
            wrong[name] = f"{folder}/{file}.py"
    assert not wrong


@pytest.mark.parametrize("file", sorted(set(FILES.values())))
def test_every_op_is_in_the_lit_test_named_as_its_file(file: str) -> None:
    path = ROOT / "lit_tests" / "ops" / f"{file}.mlir"
    assert path.is_file(), f"write lit_tests/ops/{path.name}: what the ops of dialects/ops/{file}.py become"
    shown = set(re.findall(r'"blu\.(\w+)"', path.read_text()))
    assert not {name for name, where in FILES.items() if where == file} - shown


def test_every_lit_test_of_ops_has_a_file_of_ops() -> None:
    assert {path.stem for path in (ROOT / "lit_tests" / "ops").glob("*.mlir")} == set(FILES.values())

"""Descriptions of machines, as they are written on modules and read back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blu.compiler.pipelines import pipeline_of
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import X86_64_V3, CpuTarget
from blu.dialects.targets.nvidia import GPU_TARGETS, SM_90A, TARGETS, GpuTarget
from blu.errors import ParseError


@pytest.mark.parametrize("name", TARGETS)
def test_a_known_target_is_written_by_its_name(name: str) -> None:
    with make_context():
        attribute = TARGETS[name].to_attribute()
        assert str(attribute) == f'{{name = "{name}"}}'
        assert type(TARGETS[name]).from_attribute(attribute) == TARGETS[name]


def test_what_differs_from_the_known_target_is_written_too() -> None:
    tuned = replace(X86_64_V3, l2_bytes=262144)
    with make_context():
        assert str(tuned.to_attribute()) == '{l2_bytes = 262144 : i64, name = "x86-64-v3"}'
        assert CpuTarget.from_attribute(tuned.to_attribute()) == tuned


@pytest.mark.parametrize(
    "text", ['{name = "sm_90a", processors = 7 : i64}', '{name = "sm_90a", speed = 1 : i64}', "{}"]
)
def test_no_other_gpu_is_read(text: str) -> None:
    with make_context(), pytest.raises(ParseError, match="does not describe a GPU"):
        GpuTarget.from_attribute(ir.Attribute.parse(text))


def test_what_hopper_can_do_chooses_its_pipeline() -> None:
    for target in GPU_TARGETS.values():
        is_hopper = target == SM_90A
        assert (target.tma, target.wgmma, target.clusters) == (is_hopper,) * 3
        assert pipeline_of(target).name == ("sm90" if is_hopper else "sm80")
    assert pipeline_of(X86_64_V3).name == "cpu"

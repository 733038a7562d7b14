"""Kernels written by other processes are those that are written here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np
import pytest

import blu
from blu.compiler import emission
from blu.compiler.jit import Traced
from blu.dialects.targets.nvidia import TARGETS
from blu.errors import PassError
from blu.passes.framework.others import with_others


def traced() -> Traced:
    """A program whose kernels have shared memory, tensor maps, several launches each, and loops."""

    def step(x: blu.Tensor, w: blu.Tensor, table: blu.Tensor, places: blu.Tensor) -> tuple[blu.Tensor, ...]:
        loss = blu.value_and_grad(lambda w, table: blu.mean(blu.softmax(blu.gelu(table[places] @ w)) * x), (0, 1))
        value, (slope, slopes) = loss(w, table)
        return value, slope, slopes, blu.argsort(x), blu.cumsum(x, 1)

    halves = [blu.spec(shape, "bf16") for shape in ((128, 256), (128, 256), (300, 128))]
    return blu.jit(step).trace(*halves, np.zeros(128, np.int32))


@pytest.fixture(scope="module")
def here() -> str:
    return traced().lower("sm_90a").text


def test_other_processes_write_the_same_kernels(here: str) -> None:
    asked = []
    with emission.written_by(2) as ask, with_others(lambda modules: asked.append(len(modules)) or ask(modules)):
        there = traced().lower("sm_90a")
    assert asked[0] > 5 and there.text == here


def test_what_others_cannot_do_is_done_here(here: str) -> None:
    def refuse(modules: Sequence[bytes]) -> list[bytes]:
        raise PassError("nobody is there")

    with with_others(refuse):
        assert traced().lower("sm_90a").text == here


@pytest.mark.parametrize(
    ("target", "processors", "least", "processes"),
    [
        ("sm_90a", 16, 10, [8]),
        ("sm_90a", 4, 10, [4]),
        ("sm_90a", 2, 10, []),
        ("sm_90a", 4, 9999, []),
        ("v3", 4, 10, []),
    ],
)
def test_others_are_asked_where_there_are_processors_and_work(
    target: str, processors: int, least: int, processes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    monkeypatch.setattr(emission, "LEAST_OPS", least)
    monkeypatch.setattr(emission.os, "sched_getaffinity", lambda process: range(processors))
    monkeypatch.setattr(emission, "written_by", lambda processes: started.append(processes) or nullcontext())
    name = next(name for name in TARGETS if target in name)
    with emission.writing_kernels(traced().traced.module, TARGETS[name]):
        assert started == processes

"""Attention whose positions are split over ranks: keys and values travel, and results are those of one rank."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

import blu
from blu.errors import ArgumentError
from tests.support.programs.rank_programs import run_ranks

PROGRAMS = Path(__file__).parent / "ring_programs.py"


TWO = ["causal cp~ permute", "full cp all_gather", "causal cp all_to_all"]
THREE = ["causal cp permute", "causal cp~ all_gather", "full cp~ all_to_all"]
MOVED = {"permute": {"permute"}, "all_gather": {"all_gather", "reduce_scatter"}, "all_to_all": {"all_to_all"}}


@pytest.mark.parametrize(("ranks", "modes"), [(2, TWO), pytest.param(3, THREE, marks=pytest.mark.slow)])
def test_results_and_gradients_are_those_of_one_rank(ranks: int, modes: list[str]) -> None:
    for item in run_ranks(PROGRAMS, ranks, str(ranks), *modes):
        for mode in modes:
            found = item["modes"][mode]
            assert found["error"] < 1e-13, (item["rank"], mode)
            assert found["count"] == 5
            assert set(found["kinds"]) - {"axis_index", "all_reduce"} == MOVED[mode.split()[2]], mode


def test_keys_and_values_travel_in_one_message_for_each_other_rank() -> None:
    attention = functools.partial(blu.attention, causal=True, scale=1.0)
    program = blu.jit(lambda q, k, v: attention(q, k, v), mesh=blu.Mesh(cp=4), shard={"*": "*, cp~, *"})
    plan = program.trace(*[blu.spec((2, 32, 8))] * 3).compile().program.plan
    assert [item.kind for item in plan.collectives if item.kind != "axis_index"] == ["permute"] * 3


def test_a_rotation_that_there_is_not_is_refused() -> None:
    with pytest.raises(ArgumentError, match="'ring' is none of permute, all_gather, all_to_all"):
        blu.jit(lambda x: x, mesh=blu.Mesh(cp=2), rotation="ring")

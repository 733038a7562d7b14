"""Compiled programs that exchange arrays: their ranks are watched without a word of the user's."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import blu
from blu.errors import RankError
from blu.runtime.ranks.team import join_team, team_of_process
from blu.runtime.ranks.verdicts import LOST
from tests.support.ranks.starting import launch_ranks


def exchanging(x):
    return blu.all_reduce(x, "dp")


LINE = f"{Path(__file__).name}:{inspect.getsourcelines(exchanging)[1] + 1}"


@pytest.mark.parametrize(
    "how, code, said", [("none", 0, ""), ("hangs", LOST, "hangs"), ("raises", 1, "ValueError: no more")]
)
def test_ranks_of_a_program_are_watched(how: str, code: int, said: str, tmp_path: Path):
    path = tmp_path / "f.blu"
    blu.jit(exchanging, mesh=blu.Mesh(dp=2)).trace(blu.spec((3,))).compile("cpu").save(path)
    outcome = launch_ranks(2, "running", str(path), how, BLU_RANK_TIMEOUT="30" if how == "none" else "1.5")
    assert (outcome.code, outcome.orphans) == (code, []), outcome.err
    if how == "none":
        assert (outcome.out, outcome.err) == ("done\n", "")
    else:
        assert "rank 1 (" in outcome.err and "all_reduce (sum) of 3 f32" in outcome.err and LINE in outcome.err
        assert said in outcome.err


@pytest.mark.parametrize("count", [2, 4], ids=["fewer", "more"])
def test_ranks_whose_programs_exchange_other_shapes_do_not_begin(count: int, tmp_path: Path):
    """Of less than all, NCCL makes sums without a word."""
    paths = [tmp_path / "three.blu", tmp_path / "other.blu"]
    for path, size in zip(paths, (3, count), strict=True):
        blu.jit(exchanging, mesh=blu.Mesh(dp=2)).trace(blu.spec((size,))).compile("cpu").save(path)
    outcome = launch_ranks(2, "running", str(paths[0]), "none", str(paths[1]), BLU_RANK_TIMEOUT="30")
    assert (outcome.code, outcome.out, outcome.orphans) == (1, "", []), outcome.err
    assert "rank 1 of 2 has another program, from line 2 on:" in outcome.err
    for rank, size in enumerate((3, count)):
        assert f"rank {rank}: all_reduce over dp (2 ranks) of {size} f32 sum at {LINE}" in outcome.err


def test_a_process_joins_once_and_for_one_kind_of_device():
    with join_team():
        with pytest.raises(RankError, match="joined the other ranks already"):
            join_team()
        with pytest.raises(RankError, match=r"exchange through none, and a program runs on cuda\n.*device='cuda'"):
            team_of_process("cuda")
    with join_team() as team:
        assert team_of_process("cpu") is team


def test_programs_exchange_unsigned_integers_and_complex_numbers():
    outcome = launch_ranks(2, "exchanging", BLU_RANK_TIMEOUT="60")
    assert (outcome.code, outcome.out, outcome.err) == (0, "done\n", "")

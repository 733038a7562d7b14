"""A rank that fails in whatever way ends the others, which name it and where it was, and no process stays behind."""

from __future__ import annotations

import re
import time

import pytest

from blu.runtime.ranks.verdicts import LOST, Member, Position, judge
from tests.support.ranks.starting import launch_ranks, run_ranks

TIMEOUT = "1.5"
# How the culprit fails, which of how many ranks it is, the exit code, and what is said of it.
FAILURES = [
    ("killed", 1, 3, 137, ["rank 1 (", "died without a word", "rank 1 of 3 was killed by SIGKILL first"]),
    ("raises", 2, 3, 1, ["rank 2 (", "failed in step 3", "ValueError: the third step is too much"]),
    ("memory", 1, 2, 1, ["rank 1 (", "failed in step 3", "OutOfMemoryError: no 12 GB are left"]),
    ("hangs", 1, 2, LOST, ["rank 1 (", "hangs in step 3", "nothing has changed for"]),
    ("mismatched", 2, 3, LOST, ["rank 2 (", "waiting in all_gather of 999 f32 (model.py:12), and rank 0"]),
    (
        "skips",
        1,
        2,
        LOST,
        ["ranks wait in different exchanges: rank 1 (", "in step 10, waiting in the end, and rank 0"],
    ),
    ("killed", 0, 2, 137, ["rank 0, which keeps the store", "is gone", "rank 0 of 2 was killed by SIGKILL first"]),
    ("hangs", 0, 2, LOST, ["rank 0 (", "hangs in step 3"]),
]


@pytest.mark.parametrize(
    "how, culprit, size, code, said", FAILURES, ids=[f"{how}-{rank}" for how, rank, *_ in FAILURES]
)
def test_a_rank_that_fails_ends_all_and_is_named(how: str, culprit: int, size: int, code: int, said: list[str]):
    outcome = launch_ranks(size, "failing", how, str(culprit), BLU_RANK_TIMEOUT=TIMEOUT)
    ended, [failed] = time.monotonic(), re.findall(r"fails at ([\d.]+)", outcome.err)
    assert ended - float(failed) < float(TIMEOUT) + 30
    assert (outcome.code, outcome.orphans) == (code, []), outcome.err
    assert "done" not in outcome.out
    for text in [*said, "all_reduce (sum) of 1000 f32 (model.py:12)"]:
        assert text in outcome.err
    for line in outcome.err.splitlines():
        assert "TERMINATION" not in line and "YOUR APPLICATION" not in line


def test_ranks_that_all_end_well_say_nothing():
    outcome = launch_ranks(2, "failing", "none", "0", BLU_RANK_TIMEOUT="30")
    assert (outcome.code, outcome.err, outcome.orphans) == (0, "", [])
    assert outcome.out.splitlines()[-1] == "done"


@pytest.mark.parametrize("how", ["killed", "raises"])
def test_ranks_that_mpiexec_started_end_as_well(how: str):
    outcome = run_ranks(2, "failing", how, "1", BLU_RANK_TIMEOUT=TIMEOUT)
    assert outcome.code != 0
    assert outcome.orphans == []


def test_who_waits_in_mpi_for_a_rank_that_never_comes_ends():
    """A rank that fails before it has joined, and a starter that leaves the others alone."""
    outcome = run_ranks(2, "failing", "absent", "1", BLU_RANK_JOIN="2")
    assert (outcome.code != 0, outcome.orphans) == (True, [])
    assert "Timeout (0:00:02)!" in outcome.err and "mpi.py" in outcome.err, outcome.err


def test_who_waits_in_mpi_for_a_rank_that_stops_when_all_is_done_ends():
    """The ranks have parted: nobody watches any more, and MPI's own end waits for all of them."""
    outcome = launch_ranks(2, "failing", "last", "1", flags={"grace": 0.5}, BLU_RANK_JOIN="5")
    assert (outcome.code != 0, outcome.orphans, outcome.out.splitlines()[-1]) == (True, [], "done")
    assert "Timeout (0:00:05)!" in outcome.err and "in _finish" in outcome.err, outcome.err


def test_ranks_of_two_hosts_meet_and_end_together():
    """Both hosts are this one, by two names."""
    hosts = ["-launcher", "fork", "-hosts", "localhost,127.0.0.1"]
    outcome = run_ranks(2, "failing", "none", "1", flags=hosts, BLU_RANK_TIMEOUT="30")
    assert (outcome.code, outcome.out.count("done")) == (0, 2), outcome.err
    outcome = run_ranks(2, "failing", "raises", "1", flags=hosts, BLU_RANK_TIMEOUT=TIMEOUT)
    assert outcome.code != 0 and outcome.orphans == []
    assert "ValueError: the third step is too much" in outcome.err


def test_ranks_with_another_version_of_blu_do_not_start():
    outcome = launch_ranks(2, "failing", "version", "1", BLU_RANK_TIMEOUT=TIMEOUT)
    assert (outcome.code, outcome.orphans) == (1, [])
    assert "rank 1 of 2 has another version of Blu:" in outcome.err and "  rank 1: 0.0.7" in outcome.err
    assert "pid" not in outcome.out


@pytest.mark.parametrize("culprit, said", [(1, "rank 1 ("), (0, "rank 0, which keeps the store at")])
def test_a_stopped_rank_is_silent_and_ended(culprit: int, said: str):
    """A process that is stopped says nothing, as on a host that has lost its power."""
    outcome = launch_ranks(2, "failing", "stopped", str(culprit), flags={"grace": 1.0}, BLU_RANK_TIMEOUT=TIMEOUT)
    assert (outcome.code, outcome.orphans) == (LOST, [])
    assert said in outcome.err and "has said nothing for " in outcome.err


def member(rank: int, count: int, *, age: float = 0.0, heard: float = 100.0, **fields: object) -> Member:
    """A rank as the store knows it, whose `count`-th exchange is that of line `count` unless another is given."""
    position = Position(step=3, count=count, **{"exchange": "sum", "line": f"m.py:{count}", **fields}, age=age)  # type: ignore
    return Member(rank, "host", 7, heard, position, is_watched=True)


LATE = 20.0
# Three ranks; who is to blame when each has waited for so long, and a word of the reason. None: nobody yet.
JUDGED = [
    ([member(0, 5), member(1, 5, is_waiting=True), member(2, 5, is_waiting=True)], None, ""),
    ([member(0, 5, age=LATE), member(1, 4, age=LATE), member(2, 5)], None, ""),
    ([member(0, 5, age=LATE), member(1, 4, age=LATE), member(2, 5, age=LATE)], (1,), "hangs"),
    ([member(0, 5, age=LATE), member(1, 5, age=LATE), member(2, 5, age=LATE)], None, ""),
    ([member(0, 5, age=LATE, is_waiting=True), member(1, 4, age=LATE), member(2, 5)], (1,), "hangs"),
    ([member(0, 5, age=LATE, is_waiting=True), member(1, 4), member(2, 5)], (1,), "lags"),
    ([member(0, 5, age=LATE, is_waiting=True), member(1, 5), member(2, 5, is_waiting=True)], (1,), "lags"),
    ([member(0, 5, age=LATE, is_waiting=True), member(1, 4, phase="saving"), member(2, 5)], None, ""),
    ([member(0, 5, age=LATE, is_waiting=True), member(1, 4, is_waiting=True), member(2, 3)], (2,), "lags"),
    ([member(rank, 5, age=LATE, is_waiting=True) for rank in range(3)], (), "all ranks wait"),
    (
        [member(rank, 5, age=LATE, is_waiting=True, line="a.py:2" if rank == 0 else "a.py:1") for rank in range(3)],
        (0,),
        "different exchanges",
    ),
    ([member(0, 5, age=LATE, is_waiting=True), member(1, 4, heard=94.0), member(2, 5)], None, ""),
    ([member(0, 5), member(1, 5, heard=85.0, phase="saving"), member(2, 5)], (1,), "has said nothing for 15 s"),
]


@pytest.mark.parametrize("members, ranks, reason", JUDGED, ids=[f"{i}-{item[2]}" for i, item in enumerate(JUDGED)])
def test_who_is_to_blame(members: list[Member], ranks: tuple[int, ...] | None, reason: str):
    verdict = judge(members, 100.0, 10.0)
    if ranks is None:
        assert verdict is None
    else:
        assert verdict is not None and verdict.ranks == ranks
        assert reason in verdict.message and "step 3" in verdict.message


def test_a_rank_that_has_left_is_to_blame_for_who_waits_for_it():
    left = member(1, 5)
    left.has_left = True
    verdict = judge([member(0, 6, age=LATE, is_waiting=True), left], 100.0, 10.0)
    assert verdict is not None and verdict.ranks == (1,) and "has ended" in verdict.message

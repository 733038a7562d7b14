"""The launcher of ranks: who they are, where their output goes, how signals reach them, and how all end."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from blu.errors import RankError, UnsupportedError
from blu.runtime.ranks import gpus, launch, mpi
from blu.runtime.ranks.gpus import take_gpu
from blu.runtime.ranks.launch import RankLaunch
from blu.runtime.ranks.verdicts import LOST
from blu.runtime.ranks.world import World
from tests.support.ranks.starting import MARK, launch_ranks, launching, marked, run_command, start_command

CARDS = {"on_gpus": True}
"""Ranks are told of each other as those on GPUs are, whether there are any or not."""


@pytest.fixture(autouse=True)
def three_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,5")


def test_ranks_know_each_other_and_only_the_first_is_heard():
    outcome = launch_ranks(3, "meeting", "meets", flags=CARDS, BLU_NUM_THREADS="2")
    assert (outcome.code, outcome.orphans) == (0, []), outcome.err
    assert outcome.out == ", ".join(f"{rank}/3 {rank}/3 2 threads" for rank in range(3)) + "\n"
    assert sorted(outcome.err.splitlines()) == [
        "[rank 1] rank 1 is well",
        "[rank 2] rank 2 is well",
        "rank 0 is well",
    ]


def test_the_processor_is_shared_among_ranks(monkeypatch):
    monkeypatch.delenv("BLU_NUM_THREADS", raising=False)
    outcome = launch_ranks(2, "meeting", "meets", flags=CARDS)
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert outcome.out == f"0/2 0/2 {threads} threads, 1/2 1/2 {threads} threads\n"


def test_two_hosts_meet_at_an_address(monkeypatch):
    monkeypatch.setenv("BLU_RANK_TOKEN", "a secret of both")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        rendezvous = probe.getsockname()
    hosts = [{**CARDS, "nodes": 2, "node": node, "rendezvous": rendezvous} for node in range(2)]
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda flags: launch_ranks(2, "meeting", "meets", flags=flags), hosts)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert re.findall(r"\d/\d \d/\d", first.out) == ["0/4 0/2", "1/4 1/2", "2/4 0/2", "3/4 1/2"]
    assert second.out == "" and "[rank 3] rank 3 is well" in second.err


def test_the_exit_code_is_that_of_the_rank_that_failed():
    outcome = launch_ranks(3, "meeting", "exits", "2", "42", flags=CARDS | {"grace": 0.3})
    assert (outcome.code, outcome.orphans) == (42, [])
    assert "blu: rank 2 of 3 ended with exit code 42 first\n" in outcome.err


def test_a_rank_that_the_launcher_kills_has_not_failed(monkeypatch: pytest.MonkeyPatch):
    """Rank 0 is lost because of another, which hangs: that one's end is written down before the launcher is through."""
    send = launch._Running._send

    def send_and_wait(self: launch._Running, number: int) -> None:
        send(self, number)
        end = time.monotonic() + 10
        while len(self._ends()) < 2 and time.monotonic() < end:
            time.sleep(0.01)

    monkeypatch.setattr(launch._Running, "_send", send_and_wait)
    command = ["sh", "-c", f'[ "$RANK" = 1 ] && exec sleep 100; exit {LOST}']
    assert launch.launch(RankLaunch(command, 2, on_gpus=True, grace=0.3)) == LOST


@pytest.mark.parametrize("number, how, flags", [
    (signal.SIGINT, "sleeps", CARDS),
    (signal.SIGTERM, "sleeps", CARDS),
    (signal.SIGTERM, "ignores", CARDS | {"grace": 0.3}),
])  # fmt: skip
def test_signals_reach_all_ranks(number: signal.Signals, how: str, flags: dict[str, Any]):
    mark = f"signals {number} {how}"
    process = start_command(launching(2, "meeting", how, flags=flags), {MARK: mark})
    assert process.stdout is not None
    process.stdout.readline()  # all have met
    process.send_signal(number)
    process.communicate(timeout=20)
    assert (process.returncode, marked(mark)) == (128 + number, [])


def test_no_rank_outlives_a_launcher_that_is_killed():
    mark = f"killed {time.monotonic_ns()}"
    process = start_command(launching(2, "meeting", "sleeps", flags=CARDS), {MARK: mark})
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while marked(mark) and time.monotonic() < end:
        time.sleep(0.02)
    assert marked(mark) == []


@pytest.mark.parametrize("flags", [CARDS, {}], ids=["gpus", "mpi"])
def test_a_command_that_is_not_there(flags: dict[str, Any]):
    code = f"from blu.runtime.ranks.launch import *; sys.exit(launch(RankLaunch(['no-such-thing'], 2, **{flags})))"
    outcome = run_command([sys.executable, "-c", code])
    assert (outcome.code, outcome.orphans) == (127, [])
    assert "cannot start no-such-thing: No such file" in outcome.err


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"count": 4, "on_gpus": True}, RankError, "4 ranks on .*, which has 3 GPUs that may be used"),
    ({"count": 0}, RankError, "0 ranks on host 0 of 1"),
    ({"count": 1, "nodes": 2, "node": 2}, RankError, "1 ranks on host 2 of 2"),
    ({"count": 1, "nodes": 2, "on_gpus": True}, RankError, "2 hosts do not know where to meet\n.*--rendezvous"),
    ({"count": 1, "nodes": 2, "rendezvous": ("a", 1)}, UnsupportedError, "mpiexec -hosts"),
    ({"count": 1, "nodes": 2, "rendezvous": ("a", 1), "on_gpus": True}, RankError, "no token.*\n.*BLU_RANK_TOKEN"),
]


@pytest.mark.parametrize("fields, error, message", WRONG, ids=[item[2] for item in WRONG])
def test_what_cannot_be_launched(fields: dict[str, Any], error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        launch.launch(RankLaunch(["true"], **fields))


def test_without_mpiexec_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mpi, "wheel_file", lambda *names: "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match=r"there is no mpiexec.*\n.*pip install 'blu\[mpi\]'"):
        launch.launch(RankLaunch(["true"], 2))


def test_ranks_do_not_inherit_who_started_the_launcher(monkeypatch: pytest.MonkeyPatch):
    for name in ("PMI_RANK", "OMPI_COMM_WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "77")
    [(_, environment)] = RankLaunch(["true"], 2).commands("folder")
    assert World.of_environment(environment) == World()
    commands = RankLaunch(["true"], 2, on_gpus=True).commands("folder")
    assert [World.of_environment(environment).rank for _, environment in commands] == [0, 1]
    tokens = {environment["BLU_RANK_TOKEN"] for _, environment in commands}
    assert len(tokens) == 1 and len(tokens.pop()) == 32


def test_ranks_that_meet_at_an_address_through_mpi_have_a_token_of_their_own():
    job = RankLaunch(["true"], 2, rendezvous=("127.0.0.1", 29500))
    environments = [job.commands("folder")[0][1] for _ in range(2)]
    assert len({environment["BLU_RANK_TOKEN"] for environment in environments}) == 2


@pytest.mark.parametrize(
    "visible, local_rank, local_size, taken",
    [("0,1,5", 2, 3, "5"), ("4", 1, 2, "4"), ("GPU-a, GPU-b", 1, 2, "GPU-b"), ("0,1", 0, 1, "0,1"), (None, 3, 4, "3")],
)
def test_a_rank_takes_the_gpu_of_its_number(
    visible: str | None, local_rank: int, local_size: int, taken: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(gpus, "_KNOWN", gpus.Path("/nowhere"))
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    take_gpu(World(local_rank, local_size, local_rank, local_size))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == taken
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")


def test_a_rank_without_a_gpu_is_an_error():
    with pytest.raises(RankError, match=r"rank 5 is number 3 of 4 on .*, which has 3 GPUs"):
        take_gpu(World(5, 8, 3, 4))

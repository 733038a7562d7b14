"""Ranks where a process, or the machine, stands still for a while: who is blamed, and what is heard, stays the same."""

from __future__ import annotations

import contextlib
import queue
import select
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blu.errors import RankLostError
from blu.runtime.ranks import frames, heartbeat, launch, server, team
from blu.runtime.ranks.child import write
from blu.runtime.ranks.group import Alone
from blu.runtime.ranks.heartbeat import RankWatch
from blu.runtime.ranks.launch import RankLaunch
from blu.runtime.ranks.running_clock import RunningClock
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.verdicts import LOST, Position, Verdict
from blu.runtime.ranks.world import World

LINGER_NOT = struct.pack("ii", 1, 0)
"""As a connection ends whose process has died with something unread: whoever writes to it gets an error."""


class Hands:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.at = 50.0

    def __call__(self) -> float:
        return self.at


@pytest.mark.parametrize(
    "passes, counted",
    [([1, 1, 1], 3), ([1.9, 0, 1.9], 3.8), ([5], 2), ([1, 60, 1], 4), ([60, 60], 4), ([0.5], 0.5), ([], 0)],
    ids=str,
)
def test_of_a_pause_two_intervals_count(passes: list[float], counted: float):
    hands = Hands()
    clock = RunningClock(1.0, hands)
    for seconds in passes:
        hands.at += seconds
        assert clock.now() == pytest.approx(clock.look())
    assert clock.look() == clock.now() == pytest.approx(counted)


class WatchedStore:
    """What a watch asks of a store; the test has the other end of its connection."""

    address = ("127.0.0.1", 29500)

    def __init__(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.connection = socket.create_connection(listener.getsockname())
            self.other, _ = listener.accept()
            self.other.settimeout(20)

    def watched_connection(self) -> socket.socket:
        return self.connection


@contextlib.contextmanager
def watching(store: WatchedStore, timeout: float) -> Iterator[tuple[RankWatch, queue.Queue[Verdict]]]:
    verdicts: queue.Queue[Verdict] = queue.Queue()
    watch = RankWatch(store, timeout, verdicts.put)  # type: ignore[arg-type]
    try:
        yield watch, verdicts
    finally:
        watch.close()
        store.other.close()


def test_what_rank_0_said_before_it_was_gone_is_heard():
    """Also by a rank that was about to say something, and is told that nobody listens any more."""
    store = WatchedStore()
    store.other.sendall(frames.encode(Verdict("rank 0 failed: no such row", (0,)).to_json()))
    store.other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
    store.other.close()
    with watching(store, 30.0) as (_, verdicts):
        assert verdicts.get(timeout=20).message == "rank 0 failed: no such row"


def test_a_rank_that_has_stood_still_blames_nobody(monkeypatch: pytest.MonkeyPatch):
    """It wakes before rank 0 does, from which nothing has come meanwhile."""
    hands = Hands()
    monkeypatch.setattr(heartbeat, "RunningClock", lambda interval: RunningClock(interval, hands))
    store = WatchedStore()
    with watching(store, 0.8) as (watch, verdicts):
        watch.begin_step(3)
        for number in range(1, 5):
            hands.at += 100.0  # of which 0.2 s count
            store.other.sendall(frames.encode({"do": "live"}))
            assert beats_until(store, number * 0.2) == pytest.approx(number * 0.2)
        assert verdicts.empty()
        assert "has said nothing for 0.8 s" in moved_until(verdicts, hands).message


def test_a_store_that_has_stood_still_blames_nobody(monkeypatch: pytest.MonkeyPatch):
    """It judges before it has read what a rank has sent meanwhile."""
    hands = Hands()
    monkeypatch.setattr(server, "RunningClock", lambda interval: RunningClock(interval, hands))
    kept = server.StoreServer(server.listen(("127.0.0.1", 0)), 1, b"", 0.8)
    with Store(kept.address, World(0, 1), b"", 20.0) as store, store.watched_connection() as connection:
        for _ in range(3):
            hands.at += 100.0  # of which 0.2 s count
            time.sleep(0.25)  # in which it judges, if it gets a processor
            assert kept._verdict is None
        for _ in range(1000):
            hands.at += 100.0
            if select.select([connection], [], [], 0.1)[0]:
                break
        assert "has said nothing for " in Verdict.parse(frames.receive(connection)[0]).message
    kept.close(0.0)


def moved_until(verdicts: queue.Queue[Verdict], hands: Hands) -> Verdict:
    """The verdict, which comes while the clock is turned."""
    for _ in range(1000):
        hands.at += 100.0
        with contextlib.suppress(queue.Empty):
            return verdicts.get(timeout=0.02)
    raise AssertionError("no verdict")


def beats_until(store: WatchedStore, age: float) -> float:
    """For how long the rank says that nothing has changed, once that is so long."""
    while True:
        header, _ = frames.receive(store.other)
        said = Position.parse(header["position"]).age
        if said > age - 0.01:
            return said


def test_a_signal_reaches_a_rank_that_begins_after_it(tmp_path: Path):
    """As Ctrl-C does while processes are being started, which takes long where many want a processor."""
    running = launch._Running(str(tmp_path), RankLaunch(["true"], 1, on_gpus=True))
    rank = subprocess.Popen(["sleep", "100"])
    try:
        running._processes.append(rank)
        running._signal = signal.SIGTERM
        assert not running._look()
        write(str(tmp_path), "0.pid", str(rank.pid))
        running._look()
        assert rank.wait(20) == -signal.SIGTERM
    finally:
        rank.kill()


SLOW_MPIEXEC = """#!/bin/sh
shift 2
PMI_RANK=0 "$@" 2> {said}
sleep 0.5
cat {said} >&2
"""


def test_what_ranks_said_is_heard_though_mpiexec_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """The rank has ended, and mpiexec is killed: nothing that was said went through it."""
    folder = tmp_path / ("long" * 40)  # longer than paths of sockets may be
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text(SLOW_MPIEXEC.format(said=tmp_path / "said"))
    mpiexec.chmod(0o755)
    monkeypatch.setattr(launch, "find_mpiexec", lambda: str(mpiexec))
    assert launch.launch(RankLaunch(["sh", "-c", "echo what is wrong >&2; exit 9"], 1)) == 9
    assert capfd.readouterr().err == "what is wrong\n"


FIRST_FAILS = """
if [ "$RANK" = 1 ]; then sleep 1.5 & touch ended; exit 7; fi
until [ -e ended ]; do sleep 0.02; done
exit 75
"""


def test_how_a_rank_ended_is_known_before_what_it_started_is_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Something of rank 1 still holds its stderr when rank 0, which is lost because of it, has long ended."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.chdir(tmp_path)
    assert launch.launch(RankLaunch(["sh", "-c", FIRST_FAILS], 2, on_gpus=True, grace=0.6)) == 7


class SlowWatch:
    """A watch that has not heard yet what another thread was told."""

    position = Position(step=3)

    def give_way(self) -> None:
        pass


def test_who_hears_first_that_a_rank_is_lost_ends_as_the_watch_does(monkeypatch: pytest.MonkeyPatch):
    said = []

    def end(verdict: Verdict, who: str) -> None:
        said.append(f"{verdict.message}; {who}")
        raise SystemExit(LOST)

    monkeypatch.setattr(team, "end_process", end)
    with (
        pytest.raises(SystemExit, match=str(LOST)),
        team.RankTeam(World(0, 2), Alone(), watch=SlowWatch()),  # type: ignore[arg-type]
    ):
        raise RankLostError("rank 1 is lost")
    assert said == ["rank 1 is lost; rank 0, in step 3,"]

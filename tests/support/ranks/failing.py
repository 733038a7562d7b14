"""Ranks that take ten steps with an exchange in each, and one of which fails in the way that the command line says."""

from __future__ import annotations

import os
import signal
import sys
import time

import numpy as np

import blu.installed as installed
from blu.errors import OutOfMemoryError
from blu.runtime.ranks.team import RankTeam, join_team
from blu.runtime.ranks.world import World

CULPRIT, STEP = 1, 3


def fail(how: str, team: RankTeam) -> None:
    """What the culprit does in the third step, after it has said when."""
    if how != "none":
        print(f"fails at {time.monotonic()}", file=sys.stderr, flush=True)
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "hangs":
        time.sleep(1000)
    if how == "raises":
        raise ValueError("the third step is too much")
    if how == "memory":
        raise OutOfMemoryError("no 12 GB are left")
    if how == "leaves":
        sys.exit(0)
    if how == "interrupted":
        raise KeyboardInterrupt


def main() -> int:
    """Run by each rank, with the way to fail and the rank that does."""
    how, culprit = sys.argv[1], int(sys.argv[2])
    if how == "version" and World.of_environment().rank == culprit:
        installed.version_of = lambda package: "0.0.7"
    if how == "absent" and World.of_environment().rank == culprit:
        raise ImportError("no module is named so")
    x, y = np.ones(1000, np.float32), np.empty(8000, np.float32)
    with join_team() as team:
        print(f"pid {os.getpid()}", flush=True)
        assert team.watch is not None
        for step in range(1, 11):
            team.watch.begin_step(step)
            if step == STEP and team.world.rank == culprit:
                fail(how, team)
                if how == "skips":
                    continue
            count = 999 if how == "mismatched" and step == STEP and team.world.rank == culprit else 1000
            kind = "all_gather" if count == 999 else "all_reduce"
            team.group.start(
                kind,
                reduction="" if kind == "all_gather" else "sum",
                dtype="f32",
                source=x.ctypes.data,
                target=y.ctypes.data,
                count=count,
                line="model.py:12",
            ).wait()
    print("done", flush=True)
    if how == "last" and World.of_environment().rank == culprit:
        os.kill(os.getpid(), signal.SIGSTOP)
    return 0


if __name__ == "__main__":
    sys.exit(main())

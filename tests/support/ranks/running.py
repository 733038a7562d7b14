"""Ranks that run a compiled program with an exchange in each step, without joining a team by hand; one hangs."""

from __future__ import annotations

import sys
import time

import numpy as np

from blu.runtime import load_program
from blu.runtime.ranks.team import team_in_use
from blu.runtime.ranks.world import World


def main() -> int:
    """Run by each rank: `running FILE.blu HOW`; another file of rank 1's may follow."""
    path, how, *others = sys.argv[1:]
    program = load_program(others[0] if others and World.of_environment().rank == 1 else path)
    for step in range(4):
        if step == 2 and World.of_environment().rank == 1:
            if how == "hangs":
                time.sleep(1000)
            if how == "raises":
                raise ValueError("no more")
        shape = program.inputs[0].shape
        [result] = program.run([np.full(shape, step, np.float32)])
        assert np.array_equal(np.asarray(result), np.full(shape, 2 * step, np.float32))
    team = team_in_use()
    print("done" if team is not None and team.watch is not None else "unwatched", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

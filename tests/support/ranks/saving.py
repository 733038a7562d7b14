"""Ranks that save in the background while they take steps; the last dies while it writes, if it is asked to."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from blu.compiler.training.place import Place
from blu.frontend.io.checkpoints import by_ranks, checkpoint
from blu.frontend.io.checkpoints.checkpoints import Checkpoints
from blu.frontend.io.rank_files import RankParts
from blu.plan.mesh import Mesh
from blu.runtime.ranks.team import join_team

STEPS, MET = 20, 10
PATIENCE = 60.0


def main() -> int:
    """Run by each rank, with a directory and how it goes."""
    directory, how = Path(sys.argv[1]), sys.argv[2]
    write = by_ranks.save_file
    met: Counter[int] = Counter()

    def write_slowly(arrays: dict[str, np.ndarray], path: Path) -> None:
        """Not before so many steps were taken, for which nobody may wait until this is over."""
        step, end = int(re.findall(r"step-(\d+)", str(path))[0]), time.monotonic() + PATIENCE
        while met[step] < MET and time.monotonic() < end:
            time.sleep(0.01)
        if how == "dies" and place.rank == place.ranks - 1 and step == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        write(arrays, path)

    by_ranks.save_file = write_slowly
    with join_team() as team:
        place = Place.in_team(team, Mesh(dp=team.world.size))
        mine = np.full(3, place.rank, np.float32)
        checkpoints = Checkpoints(directory)
        for step in (1, 2):
            place.begin_step(step)
            parts = RankParts(place.mesh, place.rank, {"model.w": mine}, {"model.w": "dp"})
            checkpoints.save_parts_async(step, parts, {}, place.beside)
            for _ in range(STEPS):
                place.gathered("a step", b"")
                mine += 1
                met[step] += checkpoints.is_saving
            checkpoints.wait()
        checkpoints.close()
        place.gathered("the end", b"")
        found = np.asarray(checkpoint.load(directory).model["w"]).tolist()
    print(f"RANK {json.dumps({'steps': [met[1], met[2]], 'found': found})}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

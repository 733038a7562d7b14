"""Training runs that are killed: `python training_kills.py DIRECTORY DATA FLAGS...`, one line of JSON.

A process of its own that has imported all that `blu train` needs and runs no program itself, because it forks: each
child is one start of the command, killed at a random moment, be it while it starts, learns or saves. Syncing does
nothing here: what a killed process wrote stays in the page cache.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy.ma
import numpy.random  # noqa: F401 (as are the next ones: imported once, for all children)

import blu.compiler.cli.training.arguments
import blu.compiler.cli.training.display
import blu.compiler.cli.training.run  # noqa: F401
from blu.compiler.cli.train import main
from blu.compiler.fingerprint import source_fingerprint
from blu.compiler.training import metrics  # noqa: F401
from blu.frontend.io.checkpoints.checkpoint import load, read
from blu.frontend.io.checkpoints.directory import checkpoints_in

KILLS = 50
LONGEST = 1.0  # second from a start to its end
FIRST = 20  # steps of the run before the first kill


def start(words: list[str]) -> int:
    """A child that runs `blu train`; its id."""
    child = os.fork()
    if child:
        return child
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    try:
        os._exit(main(words))
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)


def kill_at_random(directory: Path, words: list[str]) -> list[int]:
    """Start the run and kill it, again and again; the last durable step after each time.

    The first start, which ends by itself, says how long a start and some steps take.
    """
    begin = time.perf_counter()
    finish(directory, words, FIRST)
    longest, steps = min(2.5 * (time.perf_counter() - begin), LONGEST), []
    for _ in range(KILLS):
        child = start([*words, "--resume", "--out", str(directory), "--steps", "1000000"])
        time.sleep(random.random() * longest)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, "the run ended by itself"
        steps.append(load(directory).step)
        for path in checkpoints_in(directory):
            read(path)  # raises for one that is torn
    return steps


def finish(directory: Path, words: list[str], step: int) -> Path:
    """Run to a step; the last checkpoint."""
    child = start([*words, "--resume", "--out", str(directory), "--steps", str(step)])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return load(directory).path


def content(checkpoint: Path) -> list[object]:
    """The bits of a checkpoint's arrays, and its place in the data."""
    arrays = [(checkpoint / name).read_bytes() for name in ("model.safetensors", "optimizer.safetensors")]
    return [*arrays, json.loads((checkpoint / "state.json").read_text())["metadata"]["data"]]


def run(directory: Path, words: list[str]) -> dict[str, object]:
    """Kill a run, finish it, and compare it with one that nobody disturbs."""
    source_fingerprint()  # once, for all children
    steps = kill_at_random(directory / "killed", words)
    last = steps[-1] + 20
    ends = [finish(directory / name, words, last) for name in ("killed", "whole")]
    rows = [(directory / name / "metrics.csv").read_text().splitlines() for name in ("killed", "whole")]
    losses = [[row.split(",")[:2] for row in part] for part in rows]
    return {
        "steps": steps,
        "last": last,
        "same": content(ends[0]) == content(ends[1]),
        "same losses": losses[0] == losses[1] and len(losses[0]) == last + 1,
    }


if __name__ == "__main__":
    os.fsync = lambda descriptor: None
    print(json.dumps(run(Path(sys.argv[1]), sys.argv[2:])))
    assert not any("mlir" in name for name in sys.modules)

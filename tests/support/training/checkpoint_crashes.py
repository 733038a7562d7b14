"""Runs that are killed while they save checkpoints: `python checkpoint_crashes.py MODE DIRECTORY`, one line of JSON.

A process of its own, small and without threads, because it forks. Each child saves checkpoints and dies; then a new
one must find a whole checkpoint. Syncing does nothing here: what a killed process wrote stays in the page cache.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from blu.frontend.io import Checkpoint, Checkpoints, TokenShards

KILLS = 15
WIDTH = 20_000
# Everything that changes a directory. A child can be made to die right before any one of these calls.
CALLS = ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir")


def train(directory: Path, data: Path, acknowledge: Callable[[int], None], steps: int = 1 << 30) -> np.ndarray:
    """Train where the last checkpoint ends: every step depends on all steps and all data before. The weights."""
    batches = TokenShards(data).batches(2, 8, seed=3)
    with Checkpoints(directory, keep_last=2) as checkpoints:
        weights, first = np.zeros(WIDTH), 0
        if found := checkpoints.resume():
            weights, first = found.model["w"].copy(), found.step
            batches.restore(found.metadata["data"])
        for step in range(first + 1, steps + 1):
            weights *= 0.75
            weights += next(batches)[0].mean()
            save = checkpoints.save if step % 3 == 0 else checkpoints.save_async
            save(step, {"w": weights}, {"twice": 2 * weights}, {"data": batches.state()})
            acknowledge(step - (step % 3 != 0))
    return weights


def kill_at_random(directory: Path) -> dict[str, object]:
    """Kill a training run at random moments, and let it resume."""
    data, runs = directory / "data.bin", directory / "run"
    np.random.default_rng(0).integers(0, 1000, 3000).astype("<u2").tofile(data)
    steps = [0]
    for _ in range(KILLS):
        reader, writer = os.pipe()
        child = fork(lambda writer=writer: train(runs, data, lambda step: os.write(writer, step.to_bytes(8, "big"))))
        os.close(writer)
        while int.from_bytes(word := os.read(reader, 8), "big") <= steps[-1]:
            assert word, "the run ended by itself"
        time.sleep(random.random() * 0.06)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        durable = int.from_bytes(word, "big")
        while word := os.read(reader, 8):
            durable = int.from_bytes(word, "big")
        os.close(reader)
        with Checkpoints(runs) as checkpoints:
            found = check(checkpoints.load())
        assert found.step >= durable > steps[-1], (found.step, durable, steps)
        steps.append(found.step)
    expected = train(directory / "uninterrupted", data, lambda step: None, steps[-1])
    return {"steps": steps, "same": bool((expected == found.model["w"]).all())}


def crash_everywhere(directory: Path) -> dict[str, object]:
    """Die before each call in turn that changes a directory: while saving another step, and while saving one again."""
    save(directory / "before", 1, "before")
    save(directory / "before", 2, "before")
    found: dict[str, list[str]] = {"again": [], "next": []}
    for outcomes, step in zip(found.values(), (2, 3), strict=True):
        for number in range(1000):
            runs = directory / f"{step}-{number}"
            shutil.copytree(directory / "before", runs)
            child = fork(lambda runs=runs, step=step, number=number: save(runs, step, "child", number))
            crashed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
            outcomes.append(resume(runs))
            shutil.rmtree(runs)
            if not crashed:
                break
    return found


def resume(runs: Path) -> str:
    """Who wrote the checkpoint that a new process finds; that it can go on from there, and cleans up, is checked."""
    with Checkpoints(runs, keep_last=2) as checkpoints:
        hidden = [name for name in os.listdir(runs) if name.startswith(".") and name != ".lock"]
        assert not hidden, hidden
        writer = check(checkpoints.load()).metadata["writer"]
        checkpoints.save(4, *content(4, "after"))
        assert check(checkpoints.load()).step == 4
    return writer


def save(runs: Path, step: int, writer: str, crash_at: int | None = None) -> None:
    with Checkpoints(runs, keep_last=2) as checkpoints:
        if crash_at is not None:
            count_down(crash_at)
        checkpoints.save(step, *content(step, writer))


def count_down(remaining: int) -> None:
    """Make the process die before the call of that number, from now on, to one of the CALLS."""
    calls = {name: getattr(os, name) for name in CALLS}

    def counted(name: str, *arguments: object, **options: object) -> object:
        nonlocal remaining
        remaining -= 1
        if remaining < 0:
            os._exit(9)
        return calls[name](*arguments, **options)

    for name in CALLS:
        setattr(os, name, functools.partial(counted, name))


def content(step: int, writer: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray], dict[str, object]]:
    weights = np.full(1000, float(step))
    return {"w": weights}, {"twice": 2 * weights}, {"step": step, "writer": writer}


def check(found: Checkpoint) -> Checkpoint:
    """Nothing of a checkpoint comes from another one."""
    assert (found.optimizer["twice"] == 2 * found.model["w"]).all()
    if "step" in found.metadata:
        assert found.metadata["step"] == found.step == found.model["w"][0]
    return found


def fork(body: Callable[[], object]) -> int:
    child = os.fork()
    if child:
        return child
    try:
        body()
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    warnings.simplefilter("error")
    os.fsync = lambda descriptor: None
    mode = {"random": kill_at_random, "everywhere": crash_everywhere}[sys.argv[1]]
    print(json.dumps(mode(Path(sys.argv[2]))))

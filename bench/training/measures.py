"""What each rank runs for a part of the headline benchmark: measures.py PART SETUP.json --save FILE."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))

import checkout  # noqa: F401 (makes blu importable)
import numpy as np

from bench.ranks.joining import has_torch, joined_team
from bench.training.controls import clocks, controls
from bench.training.setup import Setup
from bench.training.sides import BluTraining, TorchTraining
from blu.compiler.process_memory import peak_memory_bytes
from blu.frontend.io.data.training_data import open_training_data
from blu.runtime.ranks.team import RankTeam

SIDES = {"blu": BluTraining, "torch": TorchTraining}
BUCKETS = (1, 5, 10, 25, 50, 100, 400)
IN_A_ROW = 8


class Part:
    """What the parts have in common: the team, the batches, and the sides."""

    def __init__(self, setup: Setup, team: RankTeam):
        self.setup, self.team, self.world = setup, team, team.world
        self.recipe = setup.recipe(team.world.size)

    def batches(self) -> Iterator[list[Any]]:
        """The micro-batches of each step, the same for both sides. Data that cannot be read are refused at once."""
        data = open_training_data([self.setup.data], vocab_size=self.setup.config["vocab_size"])
        place = {"rank": self.world.rank, "world_size": self.world.size}
        found = data.train.batches(self.setup.batch, self.setup.length, seed=self.setup.seed, shuffle=True, **place)
        return iter(lambda: [next(found) for _ in range(self.setup.accumulate)], None)

    def make(self, side: str, **changes: Any) -> Any:
        """A side, ready."""
        with self.phase("compiling"):
            found = SIDES[side](self.setup.changed(**changes), self.world)
            found.prepare()
        return found

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Something that may take long."""
        if self.team.watch is None:
            yield
            return
        with self.team.watch.phase(name):
            yield

    def together(self, name: str) -> None:
        """Wait for all ranks."""
        if self.team.store is not None:
            self.team.store.barrier(name, 600)


def speed(part: Part) -> dict[str, Any]:
    """Milliseconds of each step of both sides, in alternating rounds, on this rank's clock."""
    names = ["blu", "torch"] if part.setup.with_peer else ["blu"]
    batches, times = part.batches(), {name: [] for name in names}  # before anything is compiled for them
    sides = {name: part.make(name) for name in names}
    for turn in range(part.setup.rounds + 1):
        for name, side in sides.items():
            given = [next(batches) for _ in range(part.setup.steps_of_round)]
            part.together(f"round {turn} of {name}")
            found = [_timed(side, item, part.recipe.rate(turn)) for item in given]
            if turn:  # the first round compiles
                times[name] += found[1:]  # the first step waits for ranks
    tokens = part.setup.batch * part.setup.accumulate * part.setup.length * part.world.size
    return {"ranks": part.world.size, "sides": {name: _spread(found, tokens) for name, found in times.items()}}


def _timed(side: Any, batches: Any, rate: float) -> float:
    start = time.perf_counter()
    side.step(batches, rate)
    return 1e3 * (time.perf_counter() - start)


def _spread(times: list[float], tokens: int) -> dict[str, Any]:
    low, *_, high = statistics.quantiles(times, n=10)
    median = statistics.median(times)
    return {
        "steps": len(times),
        "milliseconds": median,
        "10 % of steps are below": low,
        "10 % of steps are above": high,
        "tokens per second": 1e3 * tokens / median,
        "milliseconds of all": times,
    }


def curve(part: Part) -> dict[str, Any]:
    """Losses of one side alone, the memory that it takes, and what its parameters are at the end."""
    with peak_of(part.setup) as peak:
        batches, losses, norms = part.batches(), [], []
        side = part.make(part.setup.side)
        start = time.perf_counter()
        for step in range(part.setup.steps):
            loss, norm = side.step(next(batches), part.recipe.rate(step))
            losses.append(loss)
            norms.append(norm)
            if not step:
                first = time.perf_counter() - start
        digest = side.digest()
    account = {"bytes": peak(), "bytes by its own account": side.own_peak, "first step, seconds": first}
    return {"side": part.setup.side, "losses": losses, "norms": norms, "digest": digest, **account}


@contextmanager
def peak_of(setup: Setup) -> Iterator[Callable[[], int]]:
    """Ask how many bytes were taken in this block at most: of the GPU, or by this process, whoever took them."""
    used = _gpu_bytes if setup.device == "cuda" else peak_memory_bytes
    before, most, over = used(), [0], threading.Event()

    def watch() -> None:
        while not over.wait(0.002):
            most[0] = max(most[0], used())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield lambda: most[0] - before
    finally:
        most[0] = max(most[0], used())
        over.set()
        watcher.join()


def _gpu_bytes() -> int:
    import torch

    free, total = torch.cuda.mem_get_info()
    return total - free


def gradients(part: Part) -> dict[str, Any]:
    """Relative L2 differences of the first step's gradients: both from PyTorch's in float64, and from each other."""
    [first] = [next(part.batches())]
    found = {"blu": part.make("blu").gradients(first)}
    if not part.setup.with_peer:
        return {"gradients": len(found["blu"]), "tensors": {}}
    found["torch"] = part.make("torch").gradients(first)
    found["float64"] = part.make("torch", precision="f64", compiled_peer=False).gradients(first)
    pairs = (("blu", "float64"), ("torch", "float64"), ("blu", "torch"))
    names = {
        name: {f"{a} against {b}": _apart(found[a][name], found[b][name]) for a, b in pairs} for name in found["blu"]
    }
    largest = {kind: max(item[kind] for item in names.values()) for kind in next(iter(names.values()))}
    return {"gradients": len(names), "largest": largest, "tensors": names}


def _apart(found: np.ndarray, expected: np.ndarray) -> float:
    wide = expected.astype(np.float64)
    return float(np.linalg.norm(found.astype(np.float64) - wide) / max(np.linalg.norm(wide), 1e-300))


def reduce(part: Part) -> dict[str, Any]:
    """Milliseconds of an all-reduce of f32 by its size, on processors (GPUs: bench/collectives_gpu.py)."""
    rows = []
    for megabytes in BUCKETS if part.setup.steps > 10 else BUCKETS[:2]:
        array = np.ones(megabytes * 1_000_000 // 4, np.float32)
        calls = {"blu": _blu_reduce(part.team, array)}
        if part.setup.with_peer:
            calls["torch"] = _torch_reduce(array)
        times = {name: _best(part, f"{megabytes} MB of {name}", call) for name, call in calls.items()}
        rows.append({"megabytes": megabytes, **{f"{name}, us": 1e3 * time for name, time in times.items()}})
    return {"sizes": rows}


def _blu_reduce(team: RankTeam, array: np.ndarray) -> Callable[[], Any]:
    at = array.ctypes.data
    kept = {"dtype": "f32", "source": at, "target": at, "count": array.size}
    return lambda: team.group.start("all_reduce", reduction="mean", **kept).wait()


def _torch_reduce(array: np.ndarray) -> Callable[[], Any]:
    import torch

    tensor = torch.from_numpy(array.copy())
    return lambda: torch.distributed.all_reduce(tensor)


def _best(part: Part, name: str, call: Callable[[], Any]) -> float:
    """The median time of some calls in a row, of one."""
    times = []
    for turn in range(5):
        part.together(f"{name}, {turn}")
        start = time.perf_counter()
        for _ in range(IN_A_ROW):
            call()
        times.append(1e3 * (time.perf_counter() - start) / IN_A_ROW)
    return statistics.median(times[1:])


PARTS = {"speed": speed, "curve": curve, "gradients": gradients, "reduce": reduce}


def main() -> None:
    """Measure one part; rank 0 writes it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("setup", type=Path)
    parser.add_argument("--save", type=Path, required=True)
    arguments = parser.parse_args()
    setup = Setup.read(arguments.setup)
    setup = setup.changed(with_peer=setup.with_peer and has_torch())
    is_alone = arguments.part == "curve" and setup.side == "blu"
    with joined_team(setup.device, setup.device == "cuda" or (setup.with_peer and not is_alone)) as team:
        before = clocks()
        found = PARTS[arguments.part](Part(setup, team))
        if team.world.rank == 0:
            found |= {"controls": controls(setup), "clocks": {"before": before, "after": clocks()}}
            arguments.save.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Exchanges between GPUs against NumPy, one after the other and captured into a graph. Run by each rank, it prints what
went wrong; rank 0 says what it did. With the word "killed" or "raises", rank 1 fails while rank 0 waits for it.

    MASTER_ADDR=127.0.0.1 MASTER_PORT=29611 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 python -m ... &
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from blu.plan.tensors import DTYPES
from blu.runtime.cuda.driver.driver import default_driver
from blu.runtime.ranks.group import FLOATS, GROUPED, KINDS, RankGroup
from blu.runtime.ranks.team import RankTeam, join_team
from tests.support.ranks.exchange_cases import Case, all_cases, is_allowed, is_close


class Gpu:
    """Memory and streams of the GPU, through cuda-bindings."""

    def __init__(self) -> None:
        self._driver = default_driver()  # whose context this process uses
        from cuda.bindings import driver as cuda

        self._cuda = cuda
        self.stream = int(self.call(cuda.cuStreamCreate, 1))

    def call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver returns beside its status."""
        status, *results = function(*arguments)
        assert int(status) == 0, (function, status)
        return results[0] if len(results) == 1 else results

    def put(self, array: np.ndarray) -> int:
        """The address of a copy, which nobody frees."""
        address = int(self.call(self._cuda.cuMemAlloc, max(array.nbytes, 1)))
        self.write(address, array)
        return address

    def write(self, address: int, array: np.ndarray) -> None:
        """Copy an array there."""
        if array.nbytes:
            self.call(self._cuda.cuMemcpyHtoD, address, array.ctypes.data, array.nbytes)

    def take(self, address: int, count: int, dtype: np.dtype) -> np.ndarray:
        """What is there once the stream is done."""
        self.call(self._cuda.cuStreamSynchronize, self.stream)
        array = np.empty(count, dtype)
        if array.nbytes:
            self.call(self._cuda.cuMemcpyDtoH, array.ctypes.data, address, array.nbytes)
        return array

    def capture(self, enqueue: Any) -> Any:
        """A graph of what is enqueued; call it to replay."""
        self.call(self._cuda.cuStreamBeginCapture, self.stream, self._cuda.CUstreamCaptureMode(1))
        enqueue()
        graph = self.call(self._cuda.cuStreamEndCapture, self.stream)
        ready = self.call(self._cuda.cuGraphInstantiate, graph, 0)
        return lambda: self.call(self._cuda.cuGraphLaunch, ready, self.stream)


@dataclass
class Placed:
    """A case whose arrays are on the GPU."""

    case: Case
    inputs: list[np.ndarray]
    source: int
    target: int
    taken: int

    @classmethod
    def of(cls, case: Case, group: RankGroup, gpu: Gpu) -> Placed:
        inputs = case.inputs(group.size)
        taken = KINDS[case.kind].taken(inputs[0].size, group.size)
        target = gpu.put(np.ones(taken + 1, DTYPES[case.dtype]))
        return cls(case, inputs, gpu.put(inputs[group.rank]), target, taken)

    def start(self, group: RankGroup, stream: int) -> None:
        """Enqueue the exchange."""
        group.start(
            self.case.kind,
            reduction=self.case.reduction,
            dtype=self.case.dtype,
            source=self.source,
            target=self.target,
            count=self.inputs[0].size,
            shift=self.case.shift,
            root=self.case.root,
            stream=stream,
        )

    def wrong(self, group: RankGroup, gpu: Gpu, what: str) -> list[str]:
        """What is wrong with the result."""
        found = gpu.take(self.target, self.taken + 1, DTYPES[self.case.dtype])
        expected = self.case.expected(self.inputs)[group.rank]
        if is_close(found[:-1], expected, self.case, self.inputs, hops=group.size) and found[-1] == 1:
            return []
        return [f"rank {group.rank} of {group.size}: {what}: {self.case}: {found[:5]} for {expected[:5]}"]


def is_known(case: Case) -> bool:
    """NCCL reduces no 16-bit integers."""
    return not (case.dtype in ("i16", "u16") and KINDS[case.kind].reduces)


def one_by_one(group: RankGroup, gpu: Gpu) -> list[str]:
    """What went wrong when each case was done by itself."""
    wrong = []
    for case in filter(is_known, all_cases(group.size)):
        placed = Placed.of(case, group, gpu)
        placed.start(group, gpu.stream)
        wrong += placed.wrong(group, gpu, "alone")
    return wrong


def in_a_graph(group: RankGroup, gpu: Gpu) -> list[str]:
    """What went wrong when many cases were captured, one after the other or begun together, and replayed with other
    numbers each time."""
    alone = _in_a_graph(group, gpu, KINDS, nullcontext, "in a graph")
    return [*alone, *_in_a_graph(group, gpu, GROUPED, group.together, "together")]


def _in_a_graph(group: RankGroup, gpu: Gpu, kinds: Iterable[str], within: Callable[[], Any], what: str) -> list[str]:
    cases = [
        Case(kind, dtype, reduction, shift=1)
        for kind in kinds
        for dtype in ("f32", "bf16", "i64", "bool")
        for reduction in (("sum", "mean", "max") if KINDS[kind].reduces else ("",))
        if not reduction or is_allowed(reduction, dtype)
    ]
    placed = [Placed.of(case, group, gpu) for case in cases]

    def start() -> None:
        with within():
            for one in placed:
                one.start(group, gpu.stream)

    replay = gpu.capture(start)
    wrong = []
    for part in (257, 257, 257):
        for one in placed:
            one.inputs = [np.roll(array, part + 3) for array in one.inputs]
            gpu.write(one.source, one.inputs[group.rank])
        replay()
        wrong += [line for one in placed for line in one.wrong(group, gpu, what)]
    return wrong


def in_place(group: RankGroup, gpu: Gpu) -> list[str]:
    """What went wrong where source and target share memory."""
    wrong = []
    for kind in (name for name in KINDS if KINDS[name].overlap):
        placed = Placed.of(Case(kind, "f32", "sum" if KINDS[kind].reduces else ""), group, gpu)
        overlap = KINDS[kind].overlap
        assert overlap is not None
        count = placed.inputs[0].size
        offset = overlap(count, group.size, group.rank) * 4
        if count > placed.taken:
            guard = np.ones(count + 1, np.float32)
            guard[:count] = placed.inputs[group.rank]
            placed.source = gpu.put(guard)
            placed.target = placed.source + offset
        else:
            placed.source = placed.target + offset
            gpu.write(placed.source, placed.inputs[group.rank])
        placed.start(group, gpu.stream)
        found = gpu.take(placed.target, placed.taken, np.dtype(np.float32))
        if not is_close(found, placed.case.expected(placed.inputs)[group.rank], placed.case, placed.inputs):
            wrong.append(f"rank {group.rank}: in place: {placed.case}")
    return wrong


def in_subgroups(group: RankGroup, gpu: Gpu) -> list[str]:
    """What went wrong in groups that were split off: each rank alone, and all in backward order."""
    wrong = []
    for color, key in ((group.rank, 0), (0, -group.rank)):
        part = group.split(color, key)
        assert part is not None
        if part.size > 1 and part.rank != group.size - 1 - group.rank:
            wrong.append(f"rank {group.rank} is {part.rank} of a group in backward order")
        for kind in KINDS:
            placed = Placed.of(Case(kind, "f32", "sum" if KINDS[kind].reduces else "", shift=1), part, gpu)
            placed.start(part, gpu.stream)
            wrong += placed.wrong(part, gpu, "in a subgroup")
        part.close()
    return wrong


def kept_nan(group: RankGroup, gpu: Gpu) -> list[str]:
    """For which dtypes the maximum of a number and NaN is NaN."""
    kept = []
    for dtype in FLOATS:
        placed = Placed.of(replace(Case("all_reduce", dtype), reduction="max", part=1), group, gpu)
        gpu.write(placed.source, np.full(group.size, np.nan if group.rank else 1, DTYPES[dtype]))
        placed.start(group, gpu.stream)
        found = gpu.take(placed.target, group.size, DTYPES[dtype])
        kept.append(f"{dtype}: {found.astype(np.float64)[0]}")
    return kept


def failing(team: RankTeam, gpu: Gpu) -> None:
    """Rank 1 fails in the third step, and rank 0 waits for its exchange."""
    assert team.watch is not None
    placed = Placed.of(Case("all_reduce", "f32", "sum"), team.group, gpu)
    for step in range(1, 6):
        team.watch.begin_step(step)
        if step == 3 and team.world.rank == 1:
            if "raises" in sys.argv:
                raise ValueError("the third step is too much")
            os.kill(os.getpid(), signal.SIGKILL)
        placed.start(team.group, gpu.stream)
        with team.watch.waiting():
            gpu.take(placed.target, 1, np.dtype(np.float32))
        print(f"rank {team.world.rank} did step {step} at {time.time():.2f}", flush=True)


def main() -> int:
    """Run by each rank."""
    with join_team(device="cuda", max_ctas=8) as team:
        gpu = Gpu()
        if "killed" in sys.argv or "raises" in sys.argv:
            failing(team, gpu)
            return 0
        checks = (one_by_one, in_a_graph, in_place, in_subgroups)
        wrong = [line for check in checks for line in check(team.group, gpu)]
        nan = kept_nan(team.group, gpu)
        for line in wrong[:50]:
            print(line, flush=True)
        if team.world.rank == 0:
            print(f"{len(list(all_cases(team.world.size)))} cases, {len(wrong)} wrong; maximum with NaN: {nan}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Candidates of many kernels compiled side by side: by as many worker processes as there are cores to run them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from blu.compiler.cache import default_cache
from blu.compiler.codegen.executable import Members, build_executable
from blu.compiler.codegen.worker_pool import Task, WorkerPool
from blu.compiler.driver.remaining import parse_module
from blu.compiler.fingerprint import key_of
from blu.compiler.tuning.problem import KernelProblem, fit
from blu.dataclass import dataclass, field
from blu.dialects.core.modules import copy_module, module_text
from blu.errors import BluError
from blu.passes.kernels.isolate import KERNEL
from blu.passes.kernels.schedules import Fields, wish_for

WORKER = "blu.compiler.tuning.worker"


class WantedCandidate(NamedTuple):
    """A kernel that is to be compiled by a schedule, of which what is not given is chosen."""

    problem: KernelProblem
    given: Fields


@dataclass(frozen=True)
class CompiledCandidate:
    """A kernel's program by a schedule that fits it."""

    schedule: Fields
    members: Mapping[str, bytes] = field(repr=False, compare=False)


class CandidateCompiler:
    """Compiles candidates. When it has answered, no process of it is at work that a measurement would notice."""

    def __init__(self, cores: int | None = None):
        self.pool = WorkerPool(cores or len(os.sched_getaffinity(0)), WORKER)
        self.pool.start()

    def compile(
        self, wanted: Sequence[WantedCandidate], end: float = float("inf")
    ) -> list[CompiledCandidate | BluError | None]:
        """For each its program, or why it does not fit; None where it was not begun before `end` (time.monotonic)."""
        return self.pool.side_by_side([Task(self._task(item, end)) for item in wanted])

    def close(self) -> None:
        """End the processes."""
        self.pool.close()

    def _task(self, wanted: WantedCandidate, end: float) -> Callable[[], CompiledCandidate | BluError | None]:
        """What a thread does, which waits for other processes most of the time."""
        module = copy_module(wanted.problem.module)
        if wanted.given:
            wish_for(module, {KERNEL: wanted.given})
        try:
            fitted, schedule = fit(module, wanted.problem.family)
        except BluError as error:
            return partial(_same, error)
        return partial(self._made, schedule, module_text(fitted, locations=False), end)

    def _made(self, schedule: Fields, text: str, end: float) -> CompiledCandidate | BluError | None:
        if time.monotonic() >= end:
            return None
        try:
            key, details = key_of("candidate", text), {"name": KERNEL}
            members, _ = default_cache().get_or_compile(key, lambda: self._members(text), details)
            return CompiledCandidate(schedule, members)
        except BluError as error:  # its limits say no, or the assembler; or a worker died of it
            return error

    def _members(self, text: str) -> Members:
        whole = parse_module(self.pool.ask("passes", {}, text).decode())
        with whole.context:
            return build_executable(whole, "")


def _same(error: BluError) -> BluError:
    return error

"""Kernels of a large program for a GPU are written by several processes, while there are processors for them.

A training step's passes are on one processor, and an eighth of their time goes into writing kernels, which do not know
of each other. The processes are started with the first pass, have imported all by the time that they are asked, and end
with the last.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from blu.compiler.codegen.worker_pool import Task, WorkerPool
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import Target
from blu.passes.framework.others import Ask, with_others

WORKER = "blu.compiler.emission_worker"
LEAST_OPS = 1000
"""Of a traced program that has some seconds of passes before it."""
LEAST_PROCESSORS, MOST_PROCESSES = 4, 8


@contextmanager
def writing_kernels(module: ir.Module, target: Target) -> Iterator[None]:
    """Let passes over a traced module have its kernels written by other processes, where that pays."""
    processors = len(os.sched_getaffinity(0))
    if isinstance(target, CpuTarget) or processors < LEAST_PROCESSORS or _size(module) < LEAST_OPS:
        yield
        return
    with written_by(min(MOST_PROCESSES, processors)):
        yield


@contextmanager
def written_by(processes: int) -> Iterator[Ask]:
    """Let passes have kernels written by so many processes; how these are asked."""
    pool = WorkerPool(processes, WORKER)
    starting = threading.Thread(target=pool.start, daemon=True)
    starting.start()
    try:
        with with_others(ask := partial(_ask, pool)):
            yield ask
    finally:
        starting.join()
        pool.close()


def _ask(pool: WorkerPool, modules: Sequence[bytes]) -> list[bytes]:
    return pool.side_by_side(Task(partial(pool.ask, "emit", {}, module), len(module)) for module in modules)


def _size(module: ir.Module) -> int:
    """The ops right in a module's functions."""
    blocks = (block for item in module.body.operations for region in item.regions for block in region.blocks)
    return sum(len(block.operations) for block in blocks)

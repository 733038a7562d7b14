"""The attention kernel on the CPU: chooses between many queries (prefill) and few (decode), and cuts the grid.

Neither ever holds a matrix of all scores. Keys that no query of a block sees for `causal` are not read, but for the
last few that share a register tile with visible ones; they never matter. Of a key that only a mask hides, or that other
queries of the block see, the weight is 0, so a NaN or infinity among its values still makes the result NaN.
"""

from __future__ import annotations

from math import prod

from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.attention.decode import Decode
from blu.passes.cpu.attention.operands import Problem, read_problem
from blu.passes.cpu.attention.prefill import Prefill
from blu.passes.cpu.attention.schedule import PrefillSchedule, schedule_of
from blu.passes.cpu.kernel import KernelBody, open_kernel, scratch_scope
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.schedules import Schedule


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Replace `kernel`, whose body is one blu.attention, by machine-near loops, as its schedule says."""
    schedule, body = schedule_of(kernel), open_kernel(kernel)
    operation = next(op for op in body.operations if op.name == "blu.attention")
    with operation.location:
        with scratch_scope(body.replacement):
            problem = read_problem(operation, body)
        _emit(body, problem, schedule)


def _emit(body: KernelBody, problem: Problem, schedule: Schedule) -> None:
    if not prod((*problem.heads, problem.queries, problem.width)):
        with body.grid(0):
            return
    with ir.InsertionPoint(body.replacement.body.blocks[0]):
        emitter = Prefill(problem, schedule) if isinstance(schedule, PrefillSchedule) else Decode(problem)
    parts = emitter.blocks_per_head if isinstance(emitter, Prefill) else problem.queries
    with body.grid(prod(problem.heads) * parts) as block:
        block, number = _split(block, parts)
        leading = []
        for size in reversed(problem.heads):
            block, index = _split(block, size)
            leading.insert(0, index)
        emitter.emit_block(leading, number)


def _split(value: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder of an index."""
    if size == 1:
        return value, vectors.index(0)
    return arith.divui(value, vectors.index(size)), arith.remui(value, vectors.index(size))

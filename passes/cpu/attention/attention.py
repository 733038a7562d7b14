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
from blu.passes.cpu.attention.frame import PrefillSchedule
from blu.passes.cpu.attention.operands import Problem, read_problem
from blu.passes.cpu.attention.prefill import Prefill
from blu.passes.cpu.kernel import KernelBody, open_kernel, scratch_scope
from blu.passes.kernels import lanes as vectors

FEW_QUERIES = 4
"""Up to so many queries are done one by one: a register would be mostly empty."""

SCRATCH_BYTES = 96 * 1024
"""The most that queries and results of one block, and that copies of its keys and values, may take on the stack."""

KEYS = 64
"""Keys per block. The same for all targets, so that sums round alike."""

TILE_VECTORS = 16
"""Vectors of scores, or of results, in a register tile. More would fit in AVX-512, but run no faster."""

SHORT = 256
"""Up to so many queries, blocks of the grid are smaller, so that threads find enough of them."""


def emit(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Replace `kernel`, whose body is one blu.attention, by machine-near loops."""
    body = open_kernel(kernel)
    operation = next(op for op in body.operations if op.name == "blu.attention")
    with operation.location:
        with scratch_scope(body.replacement):
            problem = read_problem(operation, body)
        emit_with(body, problem, choose_schedule(problem, target))


def emit_with(body: KernelBody, problem: Problem, schedule: PrefillSchedule | None) -> None:
    """The same with a given schedule; None does the queries one by one."""
    if not prod((*problem.heads, problem.queries, problem.width)):
        with body.grid(0):
            return
    with ir.InsertionPoint(body.replacement.body.blocks[0]):
        emitter = Decode(problem) if schedule is None else Prefill(problem, schedule)
    parts = emitter.blocks_per_head if isinstance(emitter, Prefill) else problem.queries
    with body.grid(prod(problem.heads) * parts) as block:
        block, number = _split(block, parts)
        leading = []
        for size in reversed(problem.heads):
            block, index = _split(block, size)
            leading.insert(0, index)
        emitter.emit_block(leading, number)


def choose_schedule(problem: Problem, target: CpuTarget) -> PrefillSchedule | None:
    """How to cut the problem on a target; None where its queries are few, or its rows too long for scratch."""
    lanes = target.lanes(problem.accumulator.width // 8)
    row_bytes = (problem.depth + problem.width) * problem.accumulator.width // 8
    group_vectors = min(2, -(-problem.queries // lanes))
    if problem.queries <= FEW_QUERIES or row_bytes * lanes * group_vectors > SCRATCH_BYTES:
        return None
    registers = target.registers - group_vectors - 2
    rows = min(registers, TILE_VECTORS) // group_vectors
    groups = 2 if problem.queries <= SHORT else 4
    groups = max(1, min(groups, SCRATCH_BYTES // (row_bytes * lanes * group_vectors)))
    copies = not _are_dense(problem) and row_bytes * KEYS <= SCRATCH_BYTES
    return PrefillSchedule(lanes, group_vectors, groups, KEYS, rows, rows, copies)


def _are_dense(problem: Problem) -> bool:
    """Whether keys and values lie as they are computed with, row after row: then copies of them gain nothing."""
    return all(
        ir.MemRefType(stack.flat.type).element_type == problem.accumulator
        and stack.strides[-2:] == (stack.shape[-1], 1)
        for stack in (problem.key, problem.value)
    )


def _split(value: ir.Value, size: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder of an index."""
    if size == 1:
        return value, vectors.index(0)
    return arith.divui(value, vectors.index(size)), arith.remui(value, vectors.index(size))

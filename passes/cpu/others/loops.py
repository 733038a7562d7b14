"""The fallback for any kernel of linalg and view ops: scalar loops straight from the indexing maps.

Every output element is computed on demand: an operand made inside of the kernel is evaluated at the index where it is
needed (again for each use, which is slow for deep groups and right for all of them). Reductions run in the order of
their loops. The parallel loops of an output, linearised, are split into blocks.

A bool is one byte in memory: MLIR's scalar load and store of an i1 touch one byte that holds 0 or 1, as NumPy does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, prod

from blu.dialects.core.mlir import arith, func, ir, memref
from blu.passes.cpu.kernel import open_kernel
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.cursor import Cursor, split_index
from blu.passes.kernels.loop_values import VALUES, Evaluator, layout_of, loop_sizes


def accepts(operations: Sequence[ir.Operation | ir.OpView]) -> bool:
    """Whether all ops are of a kind that the loop emitter knows."""
    known = (*VALUES, "tensor.empty", "arith.constant")
    return all(operation.operation.name in known for operation in operations)


def steps_of(frame: Kernel) -> int:
    """How many steps the loops of a kernel take, for an estimate."""
    return sum(prod(_sizes(values[0][0])) for values in _group_outputs(frame)) * _steps(frame)


def points_of(frame: Kernel) -> int:
    """Elements of the largest output."""
    return max(prod(_points(values[0][0])) for values in _group_outputs(frame))


def emit(kernel: func.FuncOp, blocks: int) -> None:
    """Replace a bufferized kernel by scalar loops, in so many blocks."""
    frame = open_kernel(kernel)
    groups = _group_outputs(frame)
    with kernel.location, frame.grid(blocks) as block:
        for values in groups:
            _emit_output(frame, values, block, blocks)


def _group_outputs(frame: Kernel) -> list[list[tuple[ir.Value, ir.Value]]]:
    """Outputs that one op makes at the same places share loops."""
    groups: dict[object, list[tuple[ir.Value, ir.Value]]] = {}
    for value, buffer in frame.outputs:
        owner = value.owner
        key = (owner.operation, layout_of(value))
        groups.setdefault(key, []).append((value, buffer))
    return list(groups.values())


def _sizes(value: ir.Value) -> Sequence[int]:
    """All loops that one output takes, for an estimate."""
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.operation.name in ("linalg.generic", "linalg.contract"):
        return loop_sizes(owner.operation)
    return value.type.shape


def _points(value: ir.Value) -> list[int]:
    """The sizes of the loops that place an output's elements."""
    return list(value.type.shape)


def _steps(frame: Kernel) -> int:
    bodies = [operation.regions[0].blocks[0] for operation in frame.operations if len(operation.regions)]
    return max(1, sum(len(list(body.operations)) for body in bodies))


def _emit_output(frame: Kernel, values: list[tuple[ir.Value, ir.Value]], block: ir.Value, blocks: int) -> None:
    """The block's share of one output (or several that are made together)."""
    first = values[0][0]
    sizes = dict(enumerate(_points(first)))
    points = prod(sizes.values())
    share = ceil(points / blocks)
    outer = Cursor(block.owner)
    with outer.point:
        lower = arith.minui(arith.muli(block, vectors.index(share)), vectors.index(points))
        upper = arith.minui(arith.addi(lower, vectors.index(share)), vectors.index(points))
        one = vectors.index(1)

    def body(inner: Cursor, point: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
        split = split_index(inner, point, sizes, vectors.index)
        indices = [split[dim] for dim in sizes]
        evaluator = Evaluator(frame, inner)
        emitted = [evaluator.value(value, indices) for value, _ in values]
        with inner.point:
            for (_, buffer), element in zip(values, emitted, strict=True):
                memref.store(element, buffer, indices)
        return carried

    outer.loop(lower, upper, one, [], body)

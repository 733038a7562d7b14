"""The fallback for any kernel of linalg and view ops: one thread computes one element of the outputs.

Every element is computed on demand, by the same walk as on a CPU (kernels/loop_values.py): slow for deep groups and for
long sums, right for all of them, and with the same order of additions.
"""

from __future__ import annotations

from math import ceil, prod
from typing import ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref, scf
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.kernel import GpuKernel, below
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.cursor import Cursor, split_index
from blu.passes.kernels.loop_values import Evaluator, layout_of
from blu.passes.kernels.schedules import Schedule

THREADS = 256


@dataclass(frozen=True)
class LoopsSchedule(Schedule):
    """A thread per element: what no other kind fits (products of integers, what has no elements)."""

    kind: ClassVar[str] = "loops"


def emit(kernel: func.FuncOp, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a bufferized kernel by one thread for each element of its largest output."""
    frame = GpuKernel.open(kernel)
    groups = _group_outputs(frame)
    points = max(prod(values[0][0].type.shape) for values in groups)
    with kernel.location, frame.launch((max(1, ceil(points / THREADS)),), THREADS) as here:
        base = arith.muli(here.block[0], vectors.index(THREADS))
        point = arith.addi(base, here.thread)
        for values in groups:
            _emit_output(frame, values, point)
    return frame.finish()


def _group_outputs(frame: GpuKernel) -> list[list[tuple[ir.Value, ir.Value]]]:
    """Outputs that one op makes at the same places are computed together."""
    groups: dict[object, list[tuple[ir.Value, ir.Value]]] = {}
    for value, buffer in frame.outputs:
        groups.setdefault((value.owner.operation, layout_of(value)), []).append((value, buffer))
    return list(groups.values())


def _emit_output(frame: GpuKernel, values: list[tuple[ir.Value, ir.Value]], point: ir.Value) -> None:
    """The thread's element of one output (or of several that are made together)."""
    sizes = dict(enumerate(values[0][0].type.shape))
    branch = scf.IfOp(below(point, prod(sizes.values())))
    inner = Cursor(branch.then_block)
    split = split_index(inner, point, sizes, vectors.index)
    indices = [split[dim] for dim in sizes]
    evaluator = Evaluator(frame, inner)
    emitted = [evaluator.value(value, indices) for value, _ in values]
    with inner.point:
        for (_, buffer), element in zip(values, emitted, strict=True):
            memref.store(element, buffer, indices)
        scf.yield_([])

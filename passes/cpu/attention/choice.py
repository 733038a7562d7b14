"""How attention on the CPU is cut: the choice of its schedule, and what that may not be."""

from __future__ import annotations

from collections.abc import Iterator

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.attention.operands import accumulator_of
from blu.passes.cpu.attention.schedule import (
    COPIED,
    GRADIENT_KINDS,
    IN_PLACE,
    KEYS,
    KINDS,
    DecodeSchedule,
    GradientLanesSchedule,
    LanesSchedule,
    PrefillSchedule,
)
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.schedules import Fields, Schedule, by_strides
from blu.passes.kernels.updates import find_operation

FEW_QUERIES = 4
"""Up to so many queries are done one by one: a register would be mostly empty."""
SCRATCH_BYTES = 96 * 1024
"""The most that queries and results of one block, and that copies of its keys and values, may take on the stack."""
MOST_STACK_BYTES = 1 << 20
"""The same of what others may wish for."""
TILE_VECTORS = 16
"""Vectors of scores, or of results, in a register tile. More would fit in AVX-512, but run no faster."""
SHORT = 256
"""Up to so many queries, blocks of the grid are smaller, so that threads find enough of them."""


@dataclass(frozen=True)
class LaneSizes:
    """What a schedule is chosen by: numbers of queries, of columns of keys and values together, and their bytes.

    `is_dense`: keys and values lie as they are computed with, row after row, so that copies of them gain nothing.
    """

    queries: int
    columns: int
    size: int
    is_dense: bool

    @classmethod
    def of(cls, kernel: func.FuncOp, name: str) -> LaneSizes:
        """Those of a kernel over buffers, around an op."""
        operands = operands_of(find_operation(kernel, name))[name == "blu.attention_gradient" :]
        query, key, value = operands[:3]
        accumulator, buffers = accumulator_of(query), Kernel.read(kernel).buffers
        is_dense = all(item in buffers and _is_dense(buffers[item], accumulator) for item in (key, value))
        columns = key.type.shape[-1] + value.type.shape[-1]
        return cls(query.type.shape[-2], columns, accumulator.width // 8, is_dense)

    @property
    def row_bytes(self) -> int:
        """Of a key and its value."""
        return self.columns * self.size


def _is_dense(buffer: ir.Value, accumulator: ir.Type) -> bool:
    type_ = ir.MemRefType(buffer.type)
    return type_.element_type == accumulator and tuple(vectors.strides_of(buffer))[-2:] == (type_.shape[-1], 1)


def _choose(kernel: func.FuncOp, target: CpuTarget) -> Schedule:
    """One by one where queries are few, or rows too long for scratch."""
    sizes = LaneSizes.of(kernel, "blu.attention")
    lanes, group_vectors = _group(sizes, target)
    if sizes.queries <= FEW_QUERIES or sizes.row_bytes * lanes * group_vectors > SCRATCH_BYTES:
        return DecodeSchedule()
    return _prefill(sizes, target)


def _group(sizes: LaneSizes, target: CpuTarget) -> tuple[int, int]:
    """Lanes, and vectors of queries at a time."""
    lanes = target.lanes(sizes.size)
    return lanes, max(1, min(2, -(-sizes.queries // lanes)))


def _rows(target: CpuTarget, group_vectors: int) -> int:
    return min(target.registers - group_vectors - 2, TILE_VECTORS) // group_vectors


def _prefill(sizes: LaneSizes, target: CpuTarget) -> PrefillSchedule:
    lanes, group_vectors = _group(sizes, target)
    rows = _rows(target, group_vectors)
    most = SCRATCH_BYTES // max(1, sizes.row_bytes * lanes * group_vectors)
    groups = max(1, min(2 if sizes.queries <= SHORT else 4, most))
    copies = not sizes.is_dense and sizes.row_bytes * KEYS <= SCRATCH_BYTES
    return PrefillSchedule(lanes, group_vectors, rows, rows, groups, COPIED if copies else IN_PLACE)


def _choose_gradient(kernel: func.FuncOp, target: CpuTarget) -> GradientLanesSchedule:
    """One group of queries at a time, of one or two vectors."""
    lanes, group_vectors = _group(LaneSizes.of(kernel, "blu.attention_gradient"), target)
    rows = _rows(target, group_vectors)
    return GradientLanesSchedule(lanes, group_vectors, rows, rows)


# What does not fit


def _excesses(schedule: Schedule, kernel: func.FuncOp, target: CpuTarget) -> Iterator[str]:
    if isinstance(schedule, DecodeSchedule):
        return
    assert isinstance(schedule, LanesSchedule), "there is no other kind"
    name = "blu.attention_gradient" if isinstance(schedule, GradientLanesSchedule) else "blu.attention"
    sizes = LaneSizes.of(kernel, name)
    if schedule.lanes != target.lanes(sizes.size):
        lanes = target.lanes(sizes.size)
        yield f"lanes = {schedule.lanes}: a vector of {target.name} has {lanes} elements here"
    for field, rows in (("key_rows", schedule.key_rows), ("value_rows", schedule.value_rows)):
        if rows * schedule.vectors > target.registers:
            yield f"{field} = {rows}: {rows} x {schedule.vectors} vectors are more than {target.registers} registers"
    if isinstance(schedule, PrefillSchedule) and schedule.matrices not in (COPIED, IN_PLACE):
        yield f"matrices = '{schedule.matrices}': keys and values are '{COPIED}' or read '{IN_PLACE}'"
    needed = sizes.row_bytes * (schedule.queries + (schedule.copies and KEYS))
    if needed > MOST_STACK_BYTES:
        yield f"queries, results and copies of a block take {needed} bytes, of {MOST_STACK_BYTES}"


def _others(kernel: func.FuncOp, target: CpuTarget) -> Fields:
    return _prefill(LaneSizes.of(kernel, "blu.attention"), target).fields


SCHEDULER = by_strides(KINDS, _choose, _excesses, _others)
GRADIENT_SCHEDULER = by_strides(GRADIENT_KINDS, _choose_gradient, _excesses)

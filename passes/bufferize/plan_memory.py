"""The pass that places all intermediates in one arena, by when they are alive."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.dtypes import product
from blu.dialects.mlir import func, ir
from blu.passes.base import Pass, find

ALIGNMENT = 64


@dataclass(frozen=True)
class PlanMemory(Pass):
    """Each arena buffer gets an offset; buffers that are never alive together may share memory.

        %0 = plan.buffer {space = "arena", index = 0, offset = -1} : memref<4x8xf32>

    becomes

        %0 = plan.buffer {space = "arena", index = 0, offset = 4096} : memref<4x8xf32>

    and the module gets `blu.arena_bytes`. Larger buffers come first, each at the lowest offset that is free during
    its whole life (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", greedy by size).
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            if "blu.kernel" not in function.attributes and function.entry_block.operations:
                total = _plan(function)
                module.operation.attributes["blu.arena_bytes"] = _i64(total)
                self.count("arena bytes", total)


@dataclass
class Interval:
    """A buffer with its size and the first and last op that uses it (directly or through a view)."""

    operation: ir.Operation
    bytes: int
    first: int
    last: int
    offset: int = 0

    def overlaps(self, other: Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def _plan(function: func.FuncOp) -> int:
    intervals = _intervals(function)
    placed: list[Interval] = []
    for interval in sorted(intervals, key=lambda item: (-item.bytes, item.first)):
        interval.offset = _lowest_gap(interval, [item for item in placed if item.overlaps(interval)])
        placed.append(interval)
        interval.operation.attributes["offset"] = _i64(interval.offset)
    return max((item.offset + item.bytes for item in placed), default=0)


def _intervals(function: func.FuncOp) -> list[Interval]:
    operations = [operation.operation for operation in function.entry_block.operations]
    position = {operation: index for index, operation in enumerate(operations)}
    found = []
    for operation in operations:
        if operation.name != "plan.buffer" or ir.StringAttr(operation.attributes["space"]).value != "arena":
            continue
        uses = _use_positions(operation.results[0], position)
        if uses:
            found.append(Interval(operation, _bytes(operation.results[0].type), min(uses), max(uses)))
        else:
            operation.attributes["offset"] = _i64(0)
    return found


def _use_positions(value: ir.Value, position: dict[ir.Operation, int]) -> list[int]:
    found = []
    for use in value.uses:
        owner = use.owner.operation
        if owner.name == "memref.reinterpret_cast":
            found.extend(_use_positions(owner.results[0], position))
        else:
            found.append(position[owner])
    return found


def _lowest_gap(interval: Interval, alive: list[Interval]) -> int:
    offset = 0
    for other in sorted(alive, key=lambda item: item.offset):
        if offset + interval.bytes <= other.offset:
            break
        offset = max(offset, other.offset + other.bytes)
    return offset


def _bytes(type_: ir.Type) -> int:
    """Bytes of a memref, rounded up to the alignment (an i1 takes one byte)."""
    memref = ir.MemRefType(type_)
    element = memref.element_type
    width = element.width if isinstance(element, (ir.IntegerType, ir.FloatType)) else 64
    size = product(memref.shape) * max(1, width // 8)
    return -(-size // ALIGNMENT) * ALIGNMENT


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

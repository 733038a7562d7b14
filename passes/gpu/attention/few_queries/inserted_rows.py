"""Keys and values that attention of a few queries puts into the cache while it reads what is there already."""

from __future__ import annotations

from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm
from blu.dialects.core.op import operands_of
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.few_queries.shares import LaneColumns, Loaded
from blu.passes.gpu.attention.operands import AttentionOperand, Problem, operand_of
from blu.passes.gpu.kernel import GpuKernel, when
from blu.passes.kernels.updates import run_time_starts

MOST_NEW = 4
"""Rows that may be put in: a warp has as many groups of lanes at least, each of which takes one."""


@dataclass(frozen=True)
class InsertedRows:
    """The rows of keys and of values that are put in, from row `start` (i32) on.

    What the cache has in their place is not read, since blocks do not wait for each other.
    """

    key: AttentionOperand
    value: AttentionOperand
    start: ir.Value

    @property
    def count(self) -> int:
        return self.key.shape[-2]

    @property
    def last(self) -> ir.Value:
        return numbers.number(self.count - 1)

    def is_old(self, place: ir.Value) -> ir.Value:
        """Whether a row is one of the others."""
        distance = numbers.subtract(place, self.start)
        return arith.cmpi(arith.CmpIPredicate.uge, distance, numbers.number(self.count))

    def load(self, columns: LaneColumns, key_head: list[ir.Value], group: ir.Value) -> tuple[Loaded, Loaded]:
        """The key and the value that a group of lanes puts in; groups behind the last row have that one."""
        row = numbers.smaller(group, self.last)
        return columns.load(self.key.matrix(key_head), row), columns.load(self.value.matrix(key_head), row)

    def put(
        self, problem: Problem, columns: LaneColumns, head: list[ir.Value], group: ir.Value, own: tuple[Loaded, Loaded]
    ) -> None:
        """Let groups of lanes write their rows into the cache, for the first of the heads that share keys."""
        key_head = problem.key_head(head)
        is_first = numbers.is_equal(numbers.remainder(head[-1], problem.groups), 0)
        row = numbers.add(self.start, group)
        with when(arith.andi(is_first, numbers.is_below(group, self.count))):
            for operand, loaded in zip((problem.key, problem.value), own, strict=True):
                for present, address, item in columns.store(operand.matrix(key_head), row, loaded):
                    with when(present):
                        llvm.store(item, address, alignment=_bytes_of(item.type))


def insertion_of(tensor: ir.Value) -> ir.Operation | None:
    """The op that puts rows into keys or values, within a kernel."""
    owner = tensor.owner
    is_inserted = not isinstance(owner, ir.Block) and owner.name == "tensor.insert_slice"
    return owner.operation if is_inserted else None


def inserts_rows(operation: ir.Operation) -> bool:
    """Whether the kernel around a blu.attention puts rows into the keys that it reads."""
    return insertion_of(operands_of(operation)[1]) is not None


def caches_of(operation: ir.Operation) -> list[ir.Value | None]:
    """The operands of a blu.attention, with what rows are put into in place of what that gives."""
    operands = operands_of(operation)
    insertions = [None if item is None else insertion_of(item) for item in operands]
    return [item if made is None else made.operands[1] for item, made in zip(operands, insertions, strict=True)]


def inserted_rows_of(operation: ir.Operation, frame: GpuKernel) -> InsertedRows | None:
    """The rows that the kernel puts in, at one place in keys and in values."""
    if not inserts_rows(operation):
        return None
    keys, values = (insertion_of(item) for item in operands_of(operation)[1:3])
    assert keys is not None and values is not None, "rows are put into both"
    start = numbers.as_number(run_time_starts(frame, keys)[-2])
    key, value = (operand_of(frame.buffers[item.operands[0]]) for item in (keys, values))
    return InsertedRows(key, value, start)


def may_insert(operation: ir.Operation, inserted: ir.RankedTensorType, cache: ir.RankedTensorType) -> bool:
    """Whether a kernel around a blu.attention of few queries may put rows of this type into its keys or values."""
    query = ir.RankedTensorType(operands_of(operation)[0].type)
    *leading, count, columns = inserted.shape
    is_whole = leading == list(cache.shape[:-2]) and columns == cache.shape[-1]
    is_alike = len(cache.shape) == len(query.shape) and leading[:-1] == list(query.shape[:-3])
    return is_whole and is_alike and 0 < count <= MOST_NEW and prod(query.shape) > 0


def _bytes_of(type_: ir.Type) -> int:
    count, element = (type_.shape[0], type_.element_type) if isinstance(type_, ir.VectorType) else (1, type_)
    return count * element.width // 8

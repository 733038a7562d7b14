"""What a row kernel over buffers computes, and what its schedule is chosen by: its operands, and how they lie."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from math import gcd, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu.rows.bodies import WIDEST, element_bytes
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.rows.layout import Layout, collapse, strides
from blu.passes.kernels.rows.plan import Planner
from blu.passes.kernels.rows.program import RowProgram, analyse
from blu.passes.kernels.rows.space import Access

MOST_POINTS = 2**31 - 2**20
"""Vectors of a pointwise kernel and elements of a row are counted in i32, with room for a block beyond the end."""


@dataclass(frozen=True)
class RowOperand:
    """A memref that a kernel reads or writes along the vector dimension: element size in bytes, stride, and whether a
    walk before the last one reads it, so that a row in registers has it there for longer. Of what a rounding lacks
    (split_rounded.py) nothing is left once that is put together."""

    size: int
    stride: int
    is_kept: bool
    is_input: bool
    is_remainder: bool = False

    @property
    def words(self) -> float:
        """Registers for an element as it is computed with."""
        return 0 if self.is_remainder else max(self.size, 4) / 4


@dataclass(frozen=True)
class RowGroup:
    """A group of ops between buffers, and its dimensions as these lie."""

    frame: Kernel
    program: RowProgram
    layout: Layout

    @cached_property
    def operands(self) -> list[RowOperand]:
        """All memrefs with an element for each lane."""
        return _operands_of(self.program, self.layout, self.frame)

    @property
    def vector_size(self) -> int:
        """The size of the dimension that vectors run along."""
        return 1 if self.layout.vector_dim is None else self.layout.sizes[self.layout.vector_dim]

    @property
    def lanes(self) -> int:
        """Elements of a vector, so that accesses to the narrowest type are as wide as can be."""
        sizes = [operand.size for operand in self.operands if operand.stride == 1]
        return gcd(WIDEST // min(sizes), self.vector_size) if sizes else 1

    @property
    def rows(self) -> int:
        """Results of each reduction."""
        return prod(self.layout.sizes[dim] for dim in self.layout.rows)

    @property
    def width(self) -> int:
        """Elements of a row."""
        return prod(self.layout.sizes[dim] for dim in self.layout.columns)

    @property
    def writes_rows(self) -> bool:
        """Whether something is written along the rows."""
        return any(self.program.is_wide(value) for value in self.program.outputs)

    @property
    def late(self) -> set[ir.Value]:
        """Outputs that are written in the last walk: those over inputs."""
        return self.frame.written_over


def read_group(frame: Kernel) -> RowGroup | None:
    """The group of a kernel; None where it has a form that only loops have."""
    program = analyse(frame.operations, partial(strides, frame))
    layout = collapse(program, frame) if isinstance(program, RowProgram) else None
    if not isinstance(program, RowProgram) or layout is None or not _is_covered(program, layout):
        return None
    return RowGroup(frame, program, layout)


def _is_covered(program: RowProgram, layout: Layout) -> bool:
    """Whether there is a schedule for a group: its reductions are folds, and nothing is empty or too large to count."""
    sizes = list(layout.sizes.values())
    if not has_folds(program) or 0 in sizes or prod(sizes) >= 4 * MOST_POINTS:
        return False
    if prod(layout.sizes[dim] for dim in layout.columns) >= MOST_POINTS:
        return False
    if program.across or not layout.columns:
        return True
    first = all(program.levels[number] == 0 for number in program.reductions)
    return first and not any(program.is_wide(value) for value in program.outputs)


def has_folds(program: RowProgram) -> bool:
    """Whether all reductions are folds of elements of at most 8 bytes, in any order."""
    return all(isinstance(reduction, list) for reduction in program.reductions.values())


def elements_of(program: RowProgram) -> Iterable[ir.Type]:
    """The types of the results of reductions, in the order of the ops."""
    for number in sorted(program.reductions):
        yield from (result.type.element_type for result in program.nodes[number].operation.results)


def _operands_of(program: RowProgram, layout: Layout, frame: Kernel) -> list[RowOperand]:
    walks = Planner(program, 0, -1, set(program.outputs)).plan()
    accesses: dict[ir.Value, Access] = {}
    levels: dict[ir.Value, int] = {}
    for level, walk in enumerate(walks):
        for node in (program.nodes[number] for number in (*walk.nodes, *walk.reductions)):
            for operand, access in zip(node.operation.operands, node.accesses, strict=True):
                accesses[operand] = access
                levels.setdefault(operand, level)
    last = max((level for level, walk in enumerate(walks) if not walk.is_empty), default=0)
    pairs = [(frame.buffers[value], accesses[value], levels[value] < last, True, _is_remainder(value))
             for value in accesses if value in frame.buffers]  # fmt: skip
    pairs += [(buffer, program.access_of(value), False, False, False) for value, buffer in frame.outputs]
    found = []
    for buffer, access, *flags in pairs:
        stride = layout.strides(access, vectors.strides_of(buffer)).get(
            -1 if layout.vector_dim is None else layout.vector_dim
        )
        if stride is not None:
            found.append(RowOperand(element_bytes(ir.MemRefType(buffer.type).element_type), stride, *flags))
    return found


def _is_remainder(value: ir.Value) -> bool:
    """Whether loops put an input together with a rounding, and do nothing else with it."""
    if _element_of(value) != ir.IntegerType.get_signless(16):
        return False
    users = [use.owner.operation for use in value.uses]
    others = ([_element_of(item) for item in user.operands if item != value] for user in users)
    return all(types == [ir.BF16Type.get(), ir.F32Type.get()] for types in others)


def _element_of(value: ir.Value) -> ir.Type:
    return value.type.element_type if isinstance(value.type, ir.RankedTensorType) else value.type

"""Reductions that several blocks share: how many parts they have, and the memory for what each block has found.

Rows that are few and long are cut into slices, and columns that are long into ranges of rows. Every part's result goes
to a buffer; the next launch puts them together in order, so that no block waits for another.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.rows.bodies import WIDEST, element_bytes
from blu.passes.kernels.rows.program import RowProgram, analyse

BLOCKS_PER_PROCESSOR = 4
SLICE = 8192
"""Elements of a row that a block should have at least."""
RANGE = 64
"""Rows of a column that a block should have at least."""
FEW_ROWS = 1024
"""Rows of a column that one block adds up alone."""
MOST_PARTS = 256
COLUMN_THREADS = 32
"""Threads beside each other in a block that reduces columns."""


def reserve(kernel: func.FuncOp) -> list[ir.MemRefType]:
    """The buffers for parts of a kernel on tensors: one for each result of a reduction, none if no block shares one."""
    plain = ("func.return", "arith.constant", "tensor.empty")
    operations = [item.operation for item in kernel.entry_block.operations if item.operation.name not in plain]
    program = analyse(operations)
    if not isinstance(program, RowProgram) or not has_folds(program) or not program.columns or 0 in program.sizes:
        return []
    parts = _count_parts(program, GpuTarget.of(kernel.operation.parent.opview))
    if parts == 1:
        return []
    points = prod(program.sizes) // prod(program.sizes[dim] for dim in program.columns)
    return [ir.MemRefType.get([parts * points], element) for element in elements_of(program)]


def has_folds(program: RowProgram) -> bool:
    """Whether all reductions are folds of elements of at most 8 bytes, in any order."""
    return all(isinstance(reduction, list) for reduction in program.reductions.values())


def elements_of(program: RowProgram) -> Iterable[ir.Type]:
    """The types of the results of reductions, in the order of the ops."""
    for number in sorted(program.reductions):
        yield from (result.type.element_type for result in program.nodes[number].operation.results)


def _count_parts(program: RowProgram, target: GpuTarget) -> int:
    width = prod(program.sizes[dim] for dim in program.columns)
    points = prod(program.sizes) // width
    wanted = BLOCKS_PER_PROCESSOR * target.processors
    if program.across:
        enough = points >= 2 * target.processors or width < 2 * SLICE
        return 1 if enough else min(ceil(width / SLICE), ceil(wanted / points), MOST_PARTS)
    if width <= FEW_ROWS:
        return 1
    lanes = WIDEST // max(element_bytes(type_) for type_ in elements_of(program))
    tiles = ceil(points / (lanes * COLUMN_THREADS))
    return max(1, min(width // RANGE, ceil(wanted / tiles), MOST_PARTS))

"""The pass that cuts long column sums into sums of ranges of rows, and a sum of those."""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.gpu.attention.row_sums.views import ranges_of_gradients
from blu.passes.gpu.gemm.boxes.plan import ROWS_OF_WARP
from blu.passes.gpu.rows.choice import cluster_width
from blu.passes.gpu.rows.product_sums import is_of_product, rows_of
from blu.passes.kernels.rows.reductions import Fold, read_reduction
from blu.passes.loops.fuse.loops import OF_PRODUCT, LoopNest, loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, REDUCTION, constant, empty, fill, generic, projection

NARROW = 768
"""Columns up to which a warp can have a row and its sums in registers: then a block of many warps fills a processor.
Blocks whose threads have a row together wait for each other at every row: a processor needs two of them."""
STEP = 16
"""Ranges are multiples of so many rows."""
FEWEST_ROWS = 256
"""Fewer rows are added up at once."""


@dataclass(frozen=True)
class SplitColumnSums(Pass):
    """Sums over many rows become sums over ranges of rows, which a kernel that walks over rows anyway can keep for
    itself, and one small sum over the ranges: the same one wherever there are as many columns.

        %1 = linalg.generic {(i, j) -> (i, j), (i, j) -> (j)} ins(%x : 65536x768xbf16) outs(%zeros : 768xf32)
             { extf, addf }

    becomes

        %2 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i, j)} ins(%x) { extf }
        %3 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i floordiv 512, j)} ins(%2) outs(%more_zeros : 128x768xf32)
             { addf }
        %1 = linalg.generic {(i, j) -> (i, j), (i, j) -> (j)} ins(%3) outs(%zeros) { addf }

    Where a large product makes the terms, and its result is stored in halves anyway, ranges are the rows that one of
    its warps holds, which adds them up before they are stored (gemm/boxes/column_sums.py):

        %3 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i floordiv 32, j)} ins(%2) outs(%more_zeros : 2048x768xf32)
             { addf } {blu.of_product}

    Where rows are those of attention's gradients, seen side by side or alone, and warpgroups make them,
    ranges are of a head, and the gradient's kernel adds them up (attention/row_sums/views.py):

        %3 = linalg.generic {(b, h, i, j) -> (b, h, i, j), (b, h, i, j) -> (b, h, i floordiv 64, j)} ins(%gradient)
             { extf, addf } {blu.of_gradient}

    How rows are cut follows from their number and the target alone, so results are the same bits in every run. A sum of
    what is seen through a transposition is left alone: its columns are rows in memory.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module)
        for function in [item for item in find(module, func.FuncOp) if not is_kernel(item) and not item.is_external]:
            for operation in [item.operation for item in function.entry_block.operations]:
                fold = _column_sum(operation)
                if fold is not None and _split(operation, fold, target):
                    self.count("column sums")


def _column_sum(operation: ir.Operation) -> Fold | None:
    """How an op adds up f32 columns; None for any other op."""
    nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
    if nest is None or nest.reduced != (True, False) or len(nest.outputs) != 1 or nest.dims[-1] != (1,):
        return None
    if any(item.name in ("linalg.index", "tensor.extract") for item in _body(operation).operations):
        return None
    reduction = read_reduction(_body(operation), len(nest.inputs))
    if not isinstance(reduction, list) or reduction[0].combiner.name != "arith.addf":
        return None
    whole = any(dims == (0, 1) for dims in nest.dims)
    return reduction[0] if whole and isinstance(reduction[0].element, ir.F32Type) and not _is_turned(nest) else None


def _body(operation: ir.Operation) -> ir.Block:
    return operation.regions[0].blocks[0]


def _is_turned(nest: LoopNest) -> bool:
    """Whether an operand is seen through a transposition."""
    makers = [value.owner for value in nest.inputs if not isinstance(value.owner, ir.Block)]
    return any(maker.name == "linalg.transpose" for maker in makers)


def _split(operation: ir.Operation, fold: Fold, target: GpuTarget) -> bool:
    nest = loop_nest(operation, 0)
    assert nest is not None, "a column sum without loops"
    rows, columns = nest.sizes
    if rows < FEWEST_ROWS or columns == 0 or (_is_alone(nest) and cluster_width(rows, columns // 4, target)):
        return False
    operand = rows_of(operation, fold)
    with ir.InsertionPoint(operation), operation.location:
        parts = None if operand is None else ranges_of_gradients(operand, target)
        parts = _ranges(operation, nest, fold, target) if parts is None else parts
        maps = [projection(2, (0, 1)), projection(2, (1,))]
        (total,) = generic([parts], [operation.operands[-1]], maps, [REDUCTION, PARALLEL], added)
    operation.results[0].replace_all_uses_with(total)
    operation.erase()
    return True


def _is_alone(nest: LoopNest) -> bool:
    """Whether only this op reads what it adds up, arguments of the program: there are no rows that another kernel walks
    over."""
    return all(isinstance(value.owner, ir.Block) and len(list(value.uses)) == 1 for value in nest.inputs)


def _ranges(operation: ir.Operation, nest: LoopNest, fold: Fold, target: GpuTarget) -> ir.Value:
    """The sums over ranges of rows."""
    rows, columns = nest.sizes
    of_product = is_of_product(operation, fold, target)
    length = ROWS_OF_WARP if of_product else range_of(rows, columns, target)
    terms = _terms(operation, nest, fold)
    zeros = fill(constant(fold.element, 0.0), [ceil(rows / length), columns])
    (parts,) = generic([terms], [zeros], range_maps(length), [REDUCTION, PARALLEL], added)
    if of_product:
        parts.owner.attributes[OF_PRODUCT] = ir.UnitAttr.get()
    return parts


def added(term: ir.Value, total: ir.Value) -> ir.Value:
    """The body of a sum."""
    return arith.addf(total, term)


def range_of(rows: int, columns: int, target: GpuTarget) -> int:
    """The rows of a range."""
    blocks = target.processors * (1 if columns <= NARROW else 2)
    return max(1, ceil(rows / (blocks * STEP))) * STEP


def range_maps(length: int) -> list[ir.AffineMap]:
    """The indexing maps of sums over ranges of `length` rows."""
    row, column = (ir.AffineExpr.get_dim(dim) for dim in range(2))
    return [projection(2, (0, 1)), ir.AffineMap.get(2, 0, [ir.AffineExpr.get_floor_div(row, length), column])]


def dealt_maps(piece: int, ranges: int) -> list[ir.AffineMap]:
    """The same of sums over ranges to which rows are dealt out, `piece` at a time."""
    row, column = (ir.AffineExpr.get_dim(dim) for dim in range(2))
    turn = ir.AffineExpr.get_mod(ir.AffineExpr.get_floor_div(row, piece), ranges)
    return [projection(2, (0, 1)), ir.AffineMap.get(2, 0, [turn, column])]


def _terms(operation: ir.Operation, nest: LoopNest, fold: Fold) -> ir.Value:
    """What is added up, as a value: an operand, or what the body makes of operands."""
    block = _body(operation)
    arguments = list(block.arguments)
    if fold.term in arguments and nest.dims[arguments.index(fold.term)] == (0, 1):
        return nest.inputs[arguments.index(fold.term)]

    def body(*scalars: ir.Value) -> ir.Value:
        values = dict(zip(arguments, scalars, strict=True))
        for item in [item.operation for item in block.operations][:-1]:
            if item != fold.combiner:
                clone = item.clone()
                for number, operand in enumerate(item.operands):
                    clone.operands[number] = values.get(operand, operand)
                values.update(zip(item.results, clone.results, strict=True))
        return values.get(fold.term, fold.term)

    start = empty(nest.sizes, fold.element)
    (terms,) = generic(nest.inputs, [start], [*nest.maps[:-1], projection(2, (0, 1))], [PARALLEL] * 2, body)
    return terms

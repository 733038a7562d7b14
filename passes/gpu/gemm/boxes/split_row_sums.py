"""The pass that cuts sums along rows of what a large product makes into sums of ranges of columns, and their sum."""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.gemm.schedule import WARPGROUP_TILES
from blu.passes.gpu.rows.product_sums import halves_product_behind
from blu.passes.gpu.rows.split_column_sums import added
from blu.passes.kernels.epilogue import is_rounding, is_sum
from blu.passes.loops.fuse.loops import OF_PRODUCT, VIEWS, LoopNest, loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, REDUCTION, constant, fill, generic, projection

LENGTH = WARPGROUP_TILES["none"][1]
"""Columns of a range: those of a tile."""
FEWEST_ROWS = WARPGROUP_TILES["none"][0]
"""Fewer may be multiplied by other kernels."""
_ALIGNED = COPY_BYTES // 2
"""Halves that begin where the copy engine reads are multiples of so many."""


@dataclass(frozen=True)
class SplitRowSums(Pass):
    """Sums along rows of f32 that a large product makes, and that are only stored in halves, become sums over ranges
    of columns, which the product's kernel makes of what it has in registers, and a small sum over the ranges.

        %1 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i)} ins(%x : 8192x50304xf32) outs(%zeros : 8192xf32) { addf }

    becomes

        %2 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i, j floordiv 192)} ins(%x) outs(%more_zeros : 8192x262xf32)
             { addf } {blu.of_product}
        %1 = linalg.generic {(i, j) -> (i, j), (i, j) -> (i)} ins(%2) outs(%zeros) { addf }

    where %x is exp(x W - r), say, of which only its rounding to bf16 is read elsewhere: a tile's warps add up what they
    have of their rows (row_totals.py) before it is rounded, so that no f32 is stored. Results are the same bits in
    every run.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module)
        if not target.wgmma:
            return
        for function in [item for item in find(module, func.FuncOp) if not is_kernel(item) and not item.is_external]:
            for operation in [item.operation for item in function.entry_block.operations]:
                if _is_row_sum(operation) and _is_of_product(operation, target):
                    _split(operation)
                    self.count("row sums")


def _is_row_sum(operation: ir.Operation) -> bool:
    """Whether an op does nothing but to add up the rows of an f32 matrix."""
    nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
    if nest is None or not nest.is_row_reduction or nest.dims != [(0, 1), (0,)]:
        return False
    return is_sum(operation) and str(ir.RankedTensorType(operation.results[0].type).element_type) == "f32"


def _is_of_product(operation: ir.Operation, target: GpuTarget) -> bool:
    """Whether warpgroups make the terms of a sum, which nobody reads otherwise, but rounded to halves."""
    terms = operation.operands[0]
    rounded = [use.owner.operation for use in terms.uses if use.owner.operation != operation]
    if len(rounded) != 1 or not _is_stored_rounding(rounded[0]):
        return False
    product = halves_product_behind(terms, target)
    if product is None or ir.RankedTensorType(terms.type).shape[0] < FEWEST_ROWS:
        return False
    chain = _chain(terms, product)
    return chain is not None and all(map(_is_copied, list(product.operands)[:2]))


def _is_stored_rounding(operation: ir.Operation) -> bool:
    """Whether an op rounds to halves what others read from memory."""
    nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
    if nest is None or not nest.is_pointwise or nest.dims != [(0, 1), (0, 1)]:
        return False
    type_ = str(ir.RankedTensorType(operation.results[0].type).element_type)
    return is_rounding(operation) and type_ in ("bf16", "f16") and _is_stored(operation.results[0])


def _is_stored(value: ir.Value) -> bool:
    """Whether an op reads a value that is none of the loops which may follow a product."""
    nests = [loop_nest(use.owner, 0) for use in value.uses]
    return any(nest is None or not nest.is_pointwise for nest in nests)


def _chain(terms: ir.Value, product: ir.Operation) -> list[ir.Operation] | None:
    """The loops that make terms from a product's sums; None where others read those too, or they read whole tensors."""
    shape, chain, waiting = ir.RankedTensorType(terms.type).shape, [product], [terms]
    while waiting:
        value = waiting.pop()
        if value.owner in chain:
            continue
        nest = loop_nest(value.owner, 0) if not isinstance(value.owner, ir.Block) else None
        if nest is None or nest.gathers or not nest.is_pointwise:
            return None
        chain.append(value.owner.operation)
        waiting += [item for item in nest.inputs if ir.RankedTensorType(item.type).shape == shape]
    made = [result for item in chain for result in item.results if result != terms]
    is_own = all(use.owner.operation in chain for value in made for use in value.uses)
    return chain if is_own else None


def _is_copied(factor: ir.Value) -> bool:
    """Whether the copy engine can read a factor, seen as it may be: rows begin at multiples of 16 bytes."""
    while not isinstance(factor.owner, ir.Block) and factor.owner.name in VIEWS:
        source = factor.owner.operands[ir.OpResult(factor).result_number]  # a barrier has several
        if factor.owner.name == "blu.row_windows":
            return False
        if factor.owner.name == "tensor.extract_slice" and not _is_aligned_slice(factor.owner, source):
            return False
        factor = source
    return True


def _is_aligned_slice(slice_: ir.Operation, source: ir.Value) -> bool:
    """Whether all that a slice leaves out, other than leading elements, is a multiple of 16 bytes."""
    if len(slice_.operands) != 1 or set(slice_.attributes["static_strides"]) != {1}:
        return False
    offsets, sizes = list(slice_.attributes["static_offsets"]), ir.RankedTensorType(source.type).shape
    is_turned = not isinstance(source.owner, ir.Block) and source.owner.name == "linalg.transpose"
    first = 0 if is_turned else 1
    return not any(number % _ALIGNED for number in (*offsets[first:], *sizes[-1:]))


def _split(operation: ir.Operation) -> None:
    nest = loop_nest(operation, 0)
    assert nest is not None, "a row sum without loops"
    with ir.InsertionPoint(operation), operation.location:
        parts = _ranges(nest)
        maps = [projection(2, (0, 1)), projection(2, (0,))]
        (total,) = generic([parts], [operation.operands[-1]], maps, [PARALLEL, REDUCTION], added)
    operation.results[0].replace_all_uses_with(total)
    operation.erase()


def _ranges(nest: LoopNest) -> ir.Value:
    """The sums over ranges of columns."""
    rows, columns = nest.sizes
    zeros = fill(constant(ir.F32Type.get(), 0.0), [rows, ceil(columns / LENGTH)])
    row, column = (ir.AffineExpr.get_dim(dim) for dim in range(2))
    ranges = ir.AffineMap.get(2, 0, [row, ir.AffineExpr.get_floor_div(column, LENGTH)])
    (parts,) = generic(nest.inputs, [zeros], [projection(2, (0, 1)), ranges], [PARALLEL, REDUCTION], added)
    parts.owner.attributes[OF_PRODUCT] = ir.UnitAttr.get()
    return parts

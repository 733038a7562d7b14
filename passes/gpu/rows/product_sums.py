"""Which column sums are of what follows a product, so that its warps can add up the rows that they hold."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.gemm.choice import ProductSizes, choose_instruction, fills_warpgroups, takes_warpgroups
from blu.passes.gpu.gemm.schedule import WARPGROUP_TILES
from blu.passes.kernels.contraction import maps_of, read_contraction
from blu.passes.kernels.rows.reductions import Fold
from blu.passes.loops.fuse.loops import VIEWS, is_repeated, loop_nest

_HALVES = ("bf16", "f16")
_TYPES = (*_HALVES, "f32")


def is_of_product(operation: ir.Operation, fold: Fold, target: GpuTarget) -> bool:
    """Whether the terms of a sum down columns are numbers that a product of warpgroups makes, and stores."""
    rows = rows_of(operation, fold)
    if rows is None or not _is_stored(rows):
        return False
    contraction = _contraction_behind(rows)
    return contraction is not None and _is_by_warpgroups(contraction, target)


def halves_product_behind(value: ir.Value, target: GpuTarget) -> ir.Operation | None:
    """The product of halves by warpgroups of which elementwise ops of the same loops make a value; None if none."""
    contraction = _contraction_behind(value)
    if contraction is None or not _is_by_warpgroups(contraction, target, needs_whole_tiles=False):
        return None
    types = {str(ir.RankedTensorType(factor.type).element_type) for factor in list(contraction.operands)[:2]}
    return contraction if types <= {*_HALVES} else None


def rows_of(operation: ir.Operation, fold: Fold) -> ir.Value | None:
    """The only operand of a sum, of halves or f32, where terms are its elements, widened."""
    nest, term = loop_nest(operation, 0), fold.term
    if nest is None or len(nest.inputs) != 1 or nest.dims[0] != (0, 1):
        return None
    if not isinstance(term.owner, ir.Block) and term.owner.name == "arith.extf":
        term = term.owner.operands[0]
    is_element = term == operation.regions[0].blocks[0].arguments[0]
    type_ = str(ir.RankedTensorType(nest.inputs[0].type).element_type)
    return nest.inputs[0] if is_element and type_ in _TYPES else None


def _is_stored(value: ir.Value) -> bool:
    """Whether a value is a factor of another product, which reads it from memory, seen as it may be."""
    users = [use.owner.operation for use in value.uses]
    if any(user.name == "linalg.contract" for user in users):
        return True
    return any(_is_stored(result) for user in users if user.name in VIEWS for result in user.results)


def _contraction_behind(value: ir.Value) -> ir.Operation | None:
    """The product of which elementwise ops of the same loops make a value, without anything found from its rows."""
    shape, seen, waiting, others = ir.RankedTensorType(value.type).shape, set(), [value], []
    product = None
    while waiting:
        current = waiting.pop()
        owner = current.owner
        if isinstance(owner, ir.Block) or owner in seen:
            continue
        seen.add(owner)
        nest = loop_nest(owner.operation, 0)
        if nest is None or list(nest.result_sizes) != list(shape) or not (nest.is_contraction or nest.is_pointwise):
            others.append(current)
        elif nest.is_contraction:
            product = product or owner.operation
        else:
            waiting += nest.inputs
    return None if product is None or _are_made_from(others, product) else product


def _are_made_from(values: Sequence[ir.Value], product: ir.Operation) -> bool:
    """Whether one of some values is made from a product."""
    seen, waiting = set(), list(values)
    while waiting:
        owner = waiting.pop().owner
        if isinstance(owner, ir.Block) or owner in seen or owner.operation.block != product.block:
            continue
        if owner.operation == product:
            return True
        if product.is_before_in_block(owner.operation):
            seen.add(owner)
            waiting += owner.operands
    return False


def _is_deep(factor: ir.Value, dims: Sequence[int | None], depth: int) -> bool:
    """Whether neighbours of a factor, a matrix, lie along k, as warpgroups read tf32."""
    if len(dims) != 2:
        return False
    is_turned = False
    while not isinstance(factor.owner, ir.Block) and factor.owner.name in VIEWS:
        is_turned ^= factor.owner.name == "linalg.transpose"
        factor = factor.owner.operands[ir.OpResult(factor).result_number]  # a barrier has several
    return dims[0 if is_turned else 1] == depth


def _is_by_warpgroups(operation: ir.Operation, target: GpuTarget, needs_whole_tiles: bool = True) -> bool:
    """Whether warpgroups do a product of tiles of whole rows, one of two matrices that lie in memory."""
    factors = list(operation.operands)[:2]
    if any(not isinstance(value.owner, ir.Block) and is_repeated(value.owner.operation) for value in factors):
        return False
    contraction = read_contraction(operation, {value: value for value in operation.operands})
    instruction = choose_instruction(contraction)
    if instruction not in (*_HALVES, "tf32") or contraction.depth is None or contraction.outer:
        return False
    if instruction == "tf32" and not all(map(_is_deep, factors, maps_of(operation), [contraction.depth] * 2)):
        return False
    if contraction.result_dims != (contraction.rows, contraction.columns):
        return False
    sizes = ProductSizes.of(contraction, instruction)
    if needs_whole_tiles and sizes.rows % WARPGROUP_TILES["none"][0]:
        return False
    return sizes.is_aligned and not sizes.is_degenerate and takes_warpgroups(sizes, target) and fills_warpgroups(sizes)

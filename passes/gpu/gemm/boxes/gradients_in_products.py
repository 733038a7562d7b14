"""Which gradients of standardized rows a product can find, and what of their kernel changes there."""

from __future__ import annotations

from collections.abc import Mapping

from blu.dialects.core.mlir import func, ir
from blu.passes.framework.families import LOOPS, family_of, mark
from blu.passes.framework.kernels import callee_of
from blu.passes.gpu.gemm.boxes.exchange import CLUSTERS, SUMS
from blu.passes.gpu.gemm.boxes.plan import ROWS_OF_WARP
from blu.passes.gpu.gemm.choice import choose_instruction
from blu.passes.gpu.gemm.few_rows.prologue import makes_rows
from blu.passes.gpu.gemm.schedule import WARPGROUP_TILES
from blu.passes.gpu.gemm.split import contraction_of
from blu.passes.gpu.gemm.wgmma import LEAST_DEPTH
from blu.passes.gpu.rows.split_column_sums import added, range_maps
from blu.passes.kernels.epilogue import is_rounding, is_sum
from blu.passes.loops.fuse.loops import OF_PRODUCT, LoopNest, loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, REDUCTION, constant, fill, generic, projection

REPEATED = ("arith.constant", "tensor.empty", "func.return", "linalg.fill")
_READ, _GIVEN = 3, 2
"""Tensors of as many elements that a kernel of rows reads beside the product, and gives."""


def has_clusters(kernel: func.FuncOp, shape: tuple[int, ...]) -> bool:
    """Whether clusters have whole rows of the result of a kernel's product, of halves."""
    tile, contraction = WARPGROUP_TILES["none"], contraction_of(kernel)
    if makes_rows(kernel) or shape[1] not in [size * tile[1] for size in CLUSTERS] or contraction.outer:
        return False
    if choose_instruction(contraction) not in ("bf16", "f16"):
        return False
    if contraction.depth is None or contraction.size(contraction.depth) < LEAST_DEPTH:
        return False  # warps multiply these, who know nothing of rows
    return (contraction.size(contraction.rows), contraction.size(contraction.columns)) == shape


def given_beside_factors(kernel: func.FuncOp) -> list[ir.RankedTensorType]:
    """The types of what a product's kernel reads beside its factors."""
    factors = list(contraction_of(kernel).operation.operands)[:2]
    return [ir.RankedTensorType(item.type) for item in kernel.arguments if item not in factors]


def makes_halves(kernel: func.FuncOp, shape: tuple[int, ...]) -> bool:
    """Whether a product is rounded, with nothing else done to it, in whole tiles of rows that a cluster has."""
    if not has_clusters(kernel, shape) or given_beside_factors(kernel) or shape[0] % WARPGROUP_TILES["none"][0]:
        return False
    nests = _nests(kernel)
    return len(nests) == 1 and is_rounding(nests[0].operation) and nests[0].sizes == shape


def finds_gradients(call: func.CallOp, place: int, kernels: Mapping[str, func.FuncOp]) -> bool:
    """Whether a kernel of rows makes of a product, `place` of what it reads, and of 16 bits that others have, two sums
    along rows, and of these two results of 16 bits."""
    kernel = kernels[callee_of(call)]
    (shape,) = {tuple(ir.RankedTensorType(call.operands_[place].type).shape)}
    return (
        len(list(call.operands_[place].uses)) == 1
        and _reads_halves(kernel, place, shape)
        and _gives_halves(call, shape, kernels)
        and _adds_up(kernel, place, shape)
    )


def _nests(kernel: func.FuncOp) -> list[LoopNest]:
    """The loops of a kernel but for its contraction."""
    found = (loop_nest(item.operation, 0) for item in kernel.entry_block.operations)
    return [nest for nest in found if nest is not None and nest.operation.name == "linalg.generic"]


def _reads_halves(kernel: func.FuncOp, place: int, shape: tuple[int, ...]) -> bool:
    types = [ir.RankedTensorType(item) for number, item in enumerate(kernel.type.inputs) if number != place]
    whole = [item for item in types if tuple(item.shape) == shape]
    others = [item for item in types if item not in whole]
    is_of_rows = all(tuple(item.shape) == shape[:1] and isinstance(item.element_type, ir.F32Type) for item in others)
    return is_of_rows and len(whole) == _READ and all(item.element_type.width == 16 for item in whole)


def _gives_halves(call: func.CallOp, shape: tuple[int, ...], kernels: Mapping[str, func.FuncOp]) -> bool:
    whole = [item for item in call.results if tuple(ir.RankedTensorType(item.type).shape) == shape]
    is_of_halves = all(ir.RankedTensorType(item.type).element_type.width == 16 for item in whole)
    others = [item for item in call.results if item not in whole]
    return len(whole) == _GIVEN and is_of_halves and all(_sum_of_ranges(item, kernels) for item in others)


def _sum_of_ranges(value: ir.Value, kernels: Mapping[str, func.FuncOp]) -> func.CallOp | None:
    """The call that only adds up the rows of a value, which nothing else reads."""
    users = [use.owner.operation for use in value.uses]
    call = users[0].opview if len(users) == 1 else None
    kernel = kernels.get(callee_of(call)) if isinstance(call, func.CallOp) else None
    if kernel is None or family_of(kernel) != LOOPS or len(call.operands_) != 1 or len(call.results) != 1:
        return None
    nests = _nests(kernel)
    known = [item for item in kernel.entry_block.operations if item.operation.name in REPEATED]
    is_alone = len(nests) == 1 and len(known) + 1 == len(list(kernel.entry_block.operations))
    return call if is_alone and nests[0].reduced == (True, False) and is_sum(nests[0].operation) else None


def _adds_up(kernel: func.FuncOp, place: int, shape: tuple[int, ...]) -> bool:
    """Whether a kernel has as many sums along rows as a cluster exchanges, all of a product and one other tensor."""
    arguments, nests = list(kernel.arguments), _nests(kernel)
    if len(nests) + sum(item.operation.name in REPEATED for item in kernel.entry_block.operations) != len(
        list(kernel.entry_block.operations)
    ):
        return False
    sums = [nest for nest in nests if nest.is_row_reduction]
    if len(sums) != SUMS or not all(_is_known(nest, shape) for nest in nests):
        return False
    read = [_arguments_of(nest.inputs[0]) for nest in sums]
    whole = {item for found in read for item in found if item != arguments[place]}
    return len(whole) == 1 and all(tuple(ir.RankedTensorType(item.type).shape) == shape for item in whole)


def _is_known(nest: LoopNest, shape: tuple[int, ...]) -> bool:
    """Whether a cluster does what these loops do."""
    if nest.gathers or nest.sizes not in (shape, shape[:1]):
        return False
    return nest.is_pointwise or ((nest.is_row_reduction or nest.range_length > 0) and is_sum(nest.operation))


def _arguments_of(value: ir.Value) -> set[ir.Value]:
    """The arguments of a kernel of which a value is made."""
    if isinstance(value.owner, ir.Block):
        return {value}
    return {found for operand in value.owner.operation.operands for found in _arguments_of(operand)}


def by_warps(made: ir.Value) -> ir.Value:
    """A kernel's result; of sums over ranges of rows those over the rows of a warp instead, at the insertion point."""
    nest = None if isinstance(made.owner, ir.Block) else loop_nest(made.owner.operation, 0)
    if nest is None or not nest.range_length:
        return made
    rows, columns = nest.sizes
    zeros = fill(constant(ir.F32Type.get(), 0.0), [rows // ROWS_OF_WARP, columns])
    maps, kinds = range_maps(ROWS_OF_WARP), [REDUCTION, PARALLEL]
    (parts,) = generic([nest.inputs[0]], [zeros], maps, kinds, added)
    parts.owner.attributes[OF_PRODUCT] = ir.UnitAttr.get()
    made.owner.operation.erase()
    return parts


def add_up_ranges(old: ir.Value, ranges: ir.Value, kernels: dict[str, func.FuncOp]) -> str:
    """Let what has added up some ranges of rows add up others; the name of its kernel until then."""
    call = _sum_of_ranges(old, kernels)
    assert call is not None, "ranges of rows that are not added up"
    before, count = callee_of(call), ir.RankedTensorType(ranges.type).shape[0]
    name = f"{before}_of_{count}"
    if name not in kernels:
        kernels[name] = _sum_kernel(name, kernels[before], ranges.type)
    call.operation.operands[0] = ranges
    call.operation.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
    return before


def _sum_kernel(name: str, like: func.FuncOp, type_: ir.Type) -> func.FuncOp:
    with ir.InsertionPoint(like), like.location:
        kernel = func.FuncOp(name, ([type_], like.type.results), visibility="private")
    mark(kernel, LOOPS)
    block = kernel.add_entry_block([like.location])
    with ir.InsertionPoint(block), like.location:
        zeros = fill(constant(ir.F32Type.get(), 0.0), ir.RankedTensorType(like.type.results[0]).shape)
        maps, kinds = [projection(2, (0, 1)), projection(2, (1,))], [REDUCTION, PARALLEL]
        (total,) = generic(list(block.arguments), [zeros], maps, kinds, added)
        func.ReturnOp([total])
    return kernel

"""The pass that takes the sum of a split product's parts out of its kernel."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects import plan
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import arith, func, ir, tensor
from blu.dialects.core.modules import end_of
from blu.passes.framework.base import Pass
from blu.passes.framework.families import GEMM, ROWS, family_of, mark
from blu.passes.framework.kernels import calls_of, kernels_in
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm.schedule import parts_of, schedule_of
from blu.passes.host.bufferize.uses import transposed_layout
from blu.passes.kernels.contraction import Contraction
from blu.passes.loops.fuse.loops import loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, projection, reshape

_LONG = 8
"""How many times as long as rows and columns k is, where nobody waits for a sum that something is fused to."""
_MAKERS = ("arith.constant", "tensor.empty", "linalg.fill")


@dataclass(frozen=True)
class SplitProducts(Pass):
    """A product whose k is split among blocks, and that nothing is fused to, gives its parts; another kernel adds them.
    So does one of which all that is fused to it makes elements of each sum, if k are the rows of both factors, or
    far more than rows and columns (a weight's gradient): the other kernel does that too.

        %1 = call @gemm_0(%x, %y) : (tensor<512x65536xbf16>, tensor<65536x512xbf16>) -> tensor<512x512xf32>

    becomes

        %1 = call @gemm_0(%x, %y) : (..) -> tensor<11x512x512xf32>
        %2 = tensor.collapse_shape (tensor.extract_slice %1[0, 0, 0]), and so on
        %13 = call @gemm_0_sum(%2, ..) : (tensor<262144xf32>, ..) -> tensor<262144xf32>
        %14 = tensor.expand_shape %13

    so that the sums of equal products can be one launch. How often k is split is in the kernel's schedule, as for other
    products with something fused to them, which keep their parts in scratch memory and add them themselves. In the
    kernel, `plan.parts` says that a contraction's result is left in parts.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels = kernels_in(module)
        calls = calls_of(module, kernels)
        types = {name: type_ for name, kernel in kernels.items() if (type_ := _parts_of(kernel, calls[name]))}
        for name, type_ in types.items():
            # A result that is only seen transposed is better written so by the kernel that has it in shared memory.
            split = [call for call in calls[name] if not any(transposed_layout(item, kernels) for item in call.results)]
            if split:
                whole = kernels[name] if len(split) == len(calls[name]) else _copy(kernels[name], f"{name}_parts")
                _split(module, split, whole, type_)
                self.count("products", len(split))


def _parts_of(kernel: func.FuncOp, calls: Sequence[func.CallOp]) -> ir.RankedTensorType | None:
    """The type of the parts of a kernel that is split and whose sums are not needed soon."""
    split = parts_of(schedule_of(kernel)) if family_of(kernel) == GEMM else 1
    if split == 1 or gemm_split.gives_parts(kernel):
        return None
    contraction = gemm_split.contraction_of(kernel)
    is_ordered = contraction.result_dims == (*contraction.outer, contraction.rows, contraction.columns)
    if not is_ordered or not (_is_plain(kernel, contraction.operation) or _is_sum(kernel, contraction, calls)):
        return None
    parts = gemm_split.parts_type(contraction, split)
    return ir.RankedTensorType.get(parts.shape, parts.element_type)


def _is_plain(kernel: func.FuncOp, contraction: ir.Operation) -> bool:
    """Whether a kernel returns a product as it is."""
    return list(end_of(kernel.entry_block).operands) == [contraction.results[0]]


def _is_sum(kernel: func.FuncOp, contraction: Contraction, calls: Sequence[func.CallOp]) -> bool:
    """Whether a kernel adds up rows of both factors, or far more terms than there are sums, and makes results of each
    by itself, reading no more than rows: a weight's gradient. Many of them are there before anybody needs one.
    """
    returned, total = list(end_of(kernel.entry_block).operands), contraction.operation.results[0]
    others = [item for item in _behind(kernel) if item.name not in _MAKERS]
    read = [value.type for item in others for value in item.operands if isinstance(value.owner, ir.Block)]
    longest = max(contraction.size(contraction.rows), contraction.size(contraction.columns))
    return (
        {value.type for value in returned} == {total.type}
        and not contraction.outer
        and (contraction.size(contraction.depth) >= _LONG * longest or _adds_rows(contraction, calls))
        and all(_is_pointwise(item) for item in others)
        and all(len(ir.RankedTensorType(type_).shape) < 2 for type_ in read)
    )


def _adds_rows(contraction: Contraction, calls: Sequence[func.CallOp]) -> bool:
    """Whether the first factor is seen transposed in all calls."""
    factor = contraction.operation.operands[0]
    if not isinstance(factor.owner, ir.Block):
        return False
    given = [call.operands_[ir.BlockArgument(factor).arg_number].owner for call in calls]
    return all(not isinstance(owner, ir.Block) and owner.operation.name == "linalg.transpose" for owner in given)


def _behind(kernel: func.FuncOp) -> list[ir.Operation]:
    """What makes a kernel's results, in order, without the product."""
    found: set[ir.Operation] = set()
    waiting = [value.owner for value in end_of(kernel.entry_block).operands]
    while waiting:
        owner = waiting.pop()
        if isinstance(owner, ir.Block) or owner.operation.name == "linalg.contract" or owner.operation in found:
            continue
        found.add(owner.operation)
        waiting += [value.owner for value in owner.operation.operands]
    return [item.operation for item in kernel.entry_block.operations if item.operation in found]


def _is_pointwise(operation: ir.Operation) -> bool:
    nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
    return nest is not None and not any(nest.reduced) and len(operation.results) == 1


def _copy(kernel: func.FuncOp, name: str) -> func.FuncOp:
    """A kernel for those of its calls whose parts are added by another one."""
    copy = kernel.operation.clone(ir.InsertionPoint.after(kernel.operation))
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    return copy.opview


def _split(module: ir.Module, calls: Sequence[func.CallOp], kernel: func.FuncOp, type_: ir.RankedTensorType) -> None:
    """Let a product leave its parts, and another kernel add them after each of these calls."""
    contraction = gemm_split.contraction_of(kernel).operation
    is_plain = _is_plain(kernel, contraction)
    number, name = type_.shape[0], kernel.name.value
    pieces = [product(type_.shape[1:])] if is_plain else type_.shape[1:]
    piece = ir.RankedTensorType.get(pieces, type_.element_type)
    with calls[0].location:
        adding, given = _sum_kernel(module, f"{name}_sum", kernel, contraction, [piece] * number)
    read = _leave_parts(kernel, contraction, type_)
    for call in calls:
        operands = list(call.operands_)
        with ir.InsertionPoint(call), call.location:
            parts = func.CallOp([type_], name, [operands[place] for place in read]).results[0]
            terms = [_part(parts, place, pieces) for place in range(number)]
            types = [piece] * len(call.results)
            totals = func.CallOp(types, adding, terms + [operands[place] for place in given]).results
            for result, total in zip(call.results, totals, strict=True):
                result.replace_all_uses_with(reshape(total, ir.RankedTensorType(result.type).shape))
        call.erase()


def _leave_parts(kernel: func.FuncOp, contraction: ir.Operation, type_: ir.RankedTensorType) -> list[int]:
    """Let a kernel return the parts of a contraction alone; the numbers of the arguments that it still has."""
    end, block, behind = end_of(kernel.entry_block), kernel.entry_block, _behind(kernel)
    with ir.InsertionPoint(end), end.location:
        func.ReturnOp([plan.parts(type_, contraction.results[0])])
    end.erase()
    for item in reversed(behind):
        if not any(list(result.uses) for result in item.results):
            item.erase()
    left = [place for place, argument in enumerate(block.arguments) if list(argument.uses)]
    for place in reversed(range(len(block.arguments))):
        if place not in left:
            block.erase_argument(place)
    types = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [type_]))
    return left


def _part(parts: ir.Value, number: int, shape: Sequence[int]) -> ir.Value:
    """One part, as a view of a shape."""
    type_ = ir.RankedTensorType(parts.type)
    sizes = [1, *type_.shape[1:]]
    offsets, strides = [number] + [0] * len(type_.shape[1:]), [1] * len(sizes)
    piece = ir.RankedTensorType.get(sizes, type_.element_type)
    part = tensor.ExtractSliceOp(piece, parts, [], [], [], offsets, sizes, strides).result
    return reshape(part, shape)


def _sum_kernel(
    module: ir.Module, name: str, whole: func.FuncOp, contraction: ir.Operation, parts: Sequence[ir.Type]
) -> tuple[str, list[int]]:
    """A kernel that adds tensors in order, and does what a kernel does with its product; its other arguments are
    those of that kernel with these numbers."""
    behind = _behind(whole)
    read = {value for item in behind for value in item.operands}
    given = [place for place, argument in enumerate(whole.entry_block.arguments) if argument in read]
    types = [*parts, *(whole.type.inputs[place] for place in given)]
    with ir.InsertionPoint(module.body):
        kernel = func.FuncOp(name, (types, [parts[0]] * len(whole.type.results)), visibility="private")
        mark(kernel, ROWS)
        block = kernel.add_entry_block([ir.Location.current] * len(types))
    with ir.InsertionPoint(block):
        rank, element = len(ir.RankedTensorType(parts[0]).shape), ir.RankedTensorType(parts[0]).element_type
        target = empty(ir.RankedTensorType(parts[0]).shape, element)
        maps = [projection(rank, range(rank))] * (len(parts) + 1)
        terms = list(block.arguments)[: len(parts)]
        (total,) = generic(terms, [target], maps, [PARALLEL] * rank, _added)
        others = zip(given, list(block.arguments)[len(parts) :], strict=True)
        made = {contraction.results[0]: total} | {whole.entry_block.arguments[place]: value for place, value in others}
        _again(behind, made)
        func.ReturnOp([made[value] for value in end_of(whole.entry_block).operands])
    return name, given


def _again(operations: Sequence[ir.Operation], made: dict[ir.Value, ir.Value]) -> None:
    """Copy ops, with other values for some that they read, and add their results to these."""
    for item in operations:
        clone = item.clone()
        for number, operand in enumerate(item.operands):
            clone.operands[number] = made.get(operand, operand)
        made.update(zip(item.results, clone.results, strict=True))


def _added(first: ir.Value, *others: ir.Value) -> ir.Value:
    """The sum of all but the last, which is what the result holds before."""
    total = first
    for value in others[:-1]:
        total = arith.addf(total, value)
    return total

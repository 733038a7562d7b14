"""The pass that takes the sum of a split product's parts out of its kernel."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects import plan
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import arith, func, ir, tensor
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import GEMM, ROWS, family_of, mark
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm.schedule import parts_of, schedule_of
from blu.passes.host.bufferize.uses import transposed_layout
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, projection, reshape


@dataclass(frozen=True)
class SplitProducts(Pass):
    """A product whose k is split among blocks, and that nothing is fused to, gives its parts; another kernel adds them.

        %1 = call @gemm_0(%x, %y) : (tensor<512x65536xbf16>, tensor<65536x512xbf16>) -> tensor<512x512xf32>

    becomes

        %1 = call @gemm_0(%x, %y) : (..) -> tensor<11x512x512xf32>
        %2 = tensor.collapse_shape (tensor.extract_slice %1[0, 0, 0]), and so on
        %13 = call @gemm_0_sum(%2, ..) : (tensor<262144xf32>, ..) -> tensor<262144xf32>
        %14 = tensor.expand_shape %13

    so that the sums of equal products can be one launch. How often k is split is in the kernel's schedule, as for
    products with more fused to them, which keep their parts in scratch memory and add them themselves. In the kernel,
    `plan.parts` says that a contraction's result is left in parts.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels = kernels_in(module)
        types = {name: type_ for name, kernel in kernels.items() if (type_ := _parts_of(kernel)) is not None}
        calls: dict[str, list[func.CallOp]] = {name: [] for name in types}
        for call in find(module, func.CallOp) if types else ():
            name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            if name in calls:
                calls[name].append(call)
        for name, type_ in types.items():
            # A result that is only seen transposed is better written so by the kernel that has it in shared memory.
            split = [call for call in calls[name] if transposed_layout(call.results[0], kernels) is None]
            if split:
                whole = kernels[name] if len(split) == len(calls[name]) else _copy(kernels[name], f"{name}_parts")
                _split(module, split, whole, type_)
                self.count("products", len(split))


def _parts_of(kernel: func.FuncOp) -> ir.RankedTensorType | None:
    """The type of the parts of a kernel that is nothing but a product, and is split."""
    split = parts_of(schedule_of(kernel)) if family_of(kernel) == GEMM else 1
    if split == 1 or gemm_split.gives_parts(kernel):
        return None
    contraction = gemm_split.contraction_of(kernel)
    returned = list(kernel.entry_block.operations)[-1].operation.operands
    is_ordered = contraction.result_dims == (*contraction.outer, contraction.rows, contraction.columns)
    if list(returned) != [contraction.operation.results[0]] or not is_ordered:
        return None
    parts = gemm_split.parts_type(contraction, split)
    return ir.RankedTensorType.get(parts.shape, parts.element_type)


def _copy(kernel: func.FuncOp, name: str) -> func.FuncOp:
    """A kernel for those of its calls whose parts are added by another one."""
    copy = kernel.operation.clone(ir.InsertionPoint.after(kernel.operation))
    copy.attributes["sym_name"] = ir.StringAttr.get(name)
    return copy.opview


def _split(module: ir.Module, calls: Sequence[func.CallOp], kernel: func.FuncOp, type_: ir.RankedTensorType) -> None:
    """Let a product leave its parts, and another kernel add them after each of these calls."""
    end = list(kernel.entry_block.operations)[-1].operation
    with ir.InsertionPoint(end), end.location:
        end.operands[0] = plan.parts(type_, end.operands[0])
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kernel.type.inputs, [type_]))
    name, adding = kernel.name.value, ""
    for call in calls:
        result = call.results[0]
        with ir.InsertionPoint(call), call.location:
            parts = func.CallOp([type_], name, list(call.operands_)).results[0]
            terms = [_part(parts, number) for number in range(type_.shape[0])]
            adding = adding or _sum_kernel(module, f"{name}_sum", terms)
            total = func.CallOp([terms[0].type], adding, terms).results[0]
            result.replace_all_uses_with(reshape(total, ir.RankedTensorType(result.type).shape))
        call.erase()


def _part(parts: ir.Value, number: int) -> ir.Value:
    """One part, as a view without dims."""
    type_ = ir.RankedTensorType(parts.type)
    sizes = [1, *type_.shape[1:]]
    offsets, strides = [number] + [0] * len(type_.shape[1:]), [1] * len(sizes)
    piece = ir.RankedTensorType.get(sizes, type_.element_type)
    part = tensor.ExtractSliceOp(piece, parts, [], [], [], offsets, sizes, strides).result
    return reshape(part, [product(sizes)])


def _sum_kernel(module: ir.Module, name: str, terms: Sequence[ir.Value]) -> str:
    """A kernel that adds tensors in order."""
    types = [ir.RankedTensorType(term.type) for term in terms]
    with ir.InsertionPoint(module.body):
        kernel = func.FuncOp(name, (types, [types[0]]), visibility="private")
        mark(kernel, ROWS)
        block = kernel.add_entry_block([ir.Location.current] * len(types))
    with ir.InsertionPoint(block):
        target = empty(types[0].shape, types[0].element_type)
        maps = [projection(1, [0])] * (len(types) + 1)
        (total,) = generic(list(block.arguments), [target], maps, [PARALLEL], _added)
        func.ReturnOp([total])
    return name


def _added(first: ir.Value, *others: ir.Value) -> ir.Value:
    """The sum of all but the last, which is what the result holds before."""
    total = first
    for value in others[:-1]:
        total = arith.addf(total, value)
    return total

"""The pass that lets products standardize the rows that they make."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import GEMM, ROWS, family_of, mark
from blu.passes.framework.kernels import callee_of, erase_uncalled, kernels_in, wished_in
from blu.passes.gpu.gemm.boxes import gradients_in_products as gradients
from blu.passes.gpu.gemm.boxes.exchange import SUMS
from blu.passes.kernels.epilogue import is_sum
from blu.passes.loops.fuse.fuse import clone_kernel
from blu.passes.loops.fuse.loops import loop_nest

FEWEST_ROWS = 1 << 15
"""Of fewer, most clusters have no or one tile."""


@dataclass(frozen=True)
class SumRowsInProducts(Pass):
    """What reads the rows that a product has made, adds them up and gives halves, is done in the product's kernel.

        %1 = call @gemm_0(%x, %w, %r) : (tensor<65536x768xbf16>, ..) -> tensor<65536x768xf32>
        %2, %3 = call @rows_0(%1, %scale) : (tensor<65536x768xf32>, ..) -> (tensor<65536xf32>, tensor<65536x768xbf16>)

    becomes

        %1, %2, %3 = call @gemm_0_rows_0(%x, %w, %r, %scale)

    Clusters of blocks have whole rows there (row_sums.py), so that these are not read again. The same is done with
    gradients of what was standardized, which a product gives in halves that nothing else reads (row_gradients.py). Sums
    down their columns are those of the rows that a warp holds then, whoever adds these up.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        target, kernels = GpuTarget.of(module), kernels_in(module)
        if not target.wgmma:
            return
        wished, joined = wished_in(module), dict[str, func.FuncOp]()
        for call in list(find(module, func.CallOp)):
            if callee_of(call) not in kernels or callee_of(call) in wished:
                continue
            product = _product_of(call, kernels, wished)
            if product is not None:
                names = [callee_of(call), callee_of(product)]
                names += _fuse(product, call, kernels)
                joined |= {name: kernels[name] for name in names}
                self.count("kernels of rows that products do")
        erase_uncalled(module, joined)


def _product_of(call: func.CallOp, kernels: dict[str, func.FuncOp], wished: set[str]) -> func.CallOp | None:
    """The call whose kernel can do what another one does with its rows."""
    rows = kernels[callee_of(call)]
    if family_of(rows) != ROWS or not call.operands_:
        return None
    for place, operand in enumerate(call.operands_):
        product = None if isinstance(operand.owner, ir.Block) else operand.owner.opview
        if not isinstance(product, func.CallOp) or callee_of(product) in wished or len(product.results) != 1:
            continue
        kernel = kernels.get(callee_of(product))
        if kernel is None or family_of(kernel) != GEMM or product.operation.block != call.operation.block:
            continue
        shape = tuple(ir.RankedTensorType(operand.type).shape)
        is_large = len(shape) == 2 and shape[0] >= FEWEST_ROWS
        if not is_large:
            continue
        if _makes_rows_of(kernel, shape) and _adds_up(rows, place, shape) and _is_first_user(operand, call):
            return product
        if gradients.makes_halves(kernel, shape) and gradients.finds_gradients(call, place, kernels):
            return product
    return None


def _makes_rows_of(kernel: func.FuncOp, shape: tuple[int, ...]) -> bool:
    """Whether a product makes whole rows of f32 for a cluster, of halves, and reads at most one such tensor."""
    if not gradients.has_clusters(kernel, shape):
        return False
    whole = [type_ for type_ in gradients.given_beside_factors(kernel) if len(type_.shape) > 1]
    (result,) = kernel.type.results
    is_f32 = all(isinstance(ir.RankedTensorType(item).element_type, ir.F32Type) for item in [*whole, result])
    return is_f32 and len(whole) <= 1 and all(tuple(item.shape) == shape for item in whole)


def _adds_up(kernel: func.FuncOp, place: int, shape: tuple[int, ...]) -> bool:
    """Whether a kernel of rows reads one tensor of them, adds them up as often as a cluster does, and gives halves."""
    types = [ir.RankedTensorType(item) for item in kernel.type.inputs]
    if any(number != place and tuple(type_.shape) != shape[1:] for number, type_ in enumerate(types)):
        return False
    sums = 0
    for operation in kernel.entry_block.operations:
        name = operation.operation.name
        if name in gradients.REPEATED:
            continue
        nest = loop_nest(operation.operation, 0) if name == "linalg.generic" else None
        if nest is None or nest.gathers or nest.sizes not in (shape, shape[:1]):
            return False
        if not nest.is_pointwise and not (nest.is_row_reduction and is_sum(operation.operation)):
            return False
        sums += nest.is_row_reduction
    return sums == SUMS and _gives_halves(kernel, shape)


def _gives_halves(kernel: func.FuncOp, shape: tuple[int, ...]) -> bool:
    found = [ir.RankedTensorType(item) for item in kernel.type.results]
    whole = [item for item in found if tuple(item.shape) == shape]
    others = [item for item in found if item not in whole]
    is_of_halves = all(isinstance(item.element_type, ir.BF16Type | ir.F16Type) for item in whole)
    is_of_rows = all(tuple(item.shape) == shape[:1] and isinstance(item.element_type, ir.F32Type) for item in others)
    return bool(whole) and is_of_halves and is_of_rows


def _is_first_user(value: ir.Value, call: func.CallOp) -> bool:
    """Whether nothing reads a value before a call does."""
    users = {use.owner.operation for use in value.uses}
    for operation in call.operation.block.operations:
        if operation.operation in users:
            return operation.operation == call.operation
    return False


def _fuse(product: func.CallOp, rows: func.CallOp, kernels: dict[str, func.FuncOp]) -> list[str]:
    """Let a product do what is done with its rows; the names of kernels for which others are called."""
    name = f"{callee_of(product)}_{callee_of(rows)}"
    place = list(rows.operands_).index(product.results[0])
    if name not in kernels:
        kernels[name] = _join(name, kernels[callee_of(product)], kernels[callee_of(rows)], place)
    passed = list(rows.operands_)
    passed[place : place + 1] = []
    with ir.InsertionPoint(rows), product.location:
        call = func.CallOp(kernels[name].type.results, name, [*product.operands_, *passed])
    kept = len(call.results) - len(rows.results)
    replaced = []
    for old, new in zip([*list(product.results)[:kept], *rows.results], call.results, strict=True):
        if old.type == new.type:
            old.replace_all_uses_with(new)
        else:
            replaced.append(gradients.add_up_ranges(old, new, kernels))
    rows.erase()
    product.erase()
    return replaced


def _join(name: str, product: func.FuncOp, rows: func.FuncOp, place: int) -> func.FuncOp:
    """A kernel that does what both do, one after the other. It gives what the product made where that is f32."""
    others = list(rows.type.inputs)
    others[place : place + 1] = []
    types, count = [*product.type.inputs, *others], len(product.type.inputs)
    (own,) = product.type.results
    is_kept = isinstance(ir.RankedTensorType(own).element_type, ir.F32Type)
    with ir.InsertionPoint(rows), product.location:
        kernel = func.FuncOp(name, (types, [*product.type.results, *rows.type.results]), visibility="private")
    mark(kernel, GEMM)
    block = kernel.add_entry_block([product.location] * len(types))
    arguments = list(block.arguments)
    with ir.InsertionPoint(block), product.location:
        (made,) = clone_kernel(product, arguments[:count])
        given = arguments[count:]
        found = [gradients.by_warps(item) for item in clone_kernel(rows, [*given[:place], made, *given[place:]])]
        results = [*[made] * is_kept, *found]
        func.ReturnOp(results)
    made_types = ir.FunctionType.get(types, [item.type for item in results])
    kernel.operation.attributes["function_type"] = ir.TypeAttr.get(made_types)
    return kernel

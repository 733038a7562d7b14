"""The pass that lets products of few rows normalize what they multiply."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import GEMM, MAKES_ROWS, ROWS, family_of, mark
from blu.passes.framework.kernels import call_in_place_of, callee_of, erase_uncalled, kernels_in, wished_in
from blu.passes.gpu.gemm.choice import ProductSizes, choose_instruction, takes_strips
from blu.passes.gpu.gemm.few_rows import strips
from blu.passes.gpu.gemm.few_rows.prologue import can_make
from blu.passes.gpu.gemm.split import contraction_of
from blu.passes.kernels.contraction import Contraction
from blu.passes.loops.fuse.fuse import clone_kernel

_VIEWS = ("tensor.collapse_shape", "tensor.expand_shape", "linalg.transpose")


@dataclass(frozen=True)
class NormalizeInProducts(Pass):
    """Where products of few rows alone read what a kernel of rows has made, each makes it itself.

        %1 = call @rows_0(%x, %scale) : (tensor<8x768xbf16>, tensor<768xbf16>) -> tensor<8x768xbf16>
        %2 = call @gemm_0(%1, %w) : (tensor<8x768xbf16>, tensor<768x3072xbf16>) -> tensor<8x3072xbf16>

    becomes

        %2 = call @gemm_0_rows_0(%x, %scale, %w)
        func.func private @gemm_0_rows_0(%x, %scale, %w) attributes {blu.makes_rows} { ..  linalg.contract .. }

    A block of such a product reads all rows anyway, so that it costs a little arithmetic, and there is a launch less,
    which takes longer than all of that. Products are those of strips, whose blocks have registers for the rows
    (strips.py), and rows are made elementwise and by sums along k (prologue.py).
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels, wished = kernels_in(module), wished_in(module)
        target = GpuTarget.of(module)
        makers = {
            name for name, kernel in kernels.items() if family_of(kernel) == ROWS and can_make(kernel.entry_block)
        }
        for call in list(find(module, func.CallOp)) if makers else ():
            name = callee_of(call)
            uses = list(call.results[0].uses) if name in makers - wished else []
            readers = [use.owner.operation.opview for use in uses]
            if readers and all(_takes(reader, call.results[0], kernels, wished, target) for reader in readers):
                for reader in readers:
                    _fuse(call, reader, kernels)
                call.erase()
                self.count("kernels of rows that products make")
        erase_uncalled(module, kernels)


def _takes(
    reader: ir.OpView, rows: ir.Value, kernels: dict[str, func.FuncOp], wished: set[str], target: GpuTarget
) -> bool:
    """Whether a user of rows is a call of a product that reads them as its left factor, and can make them."""
    if not isinstance(reader, func.CallOp) or callee_of(reader) in wished:
        return False
    kernel = kernels[callee_of(reader)]
    if family_of(kernel) != GEMM or MAKES_ROWS in kernel.attributes:
        return False
    contraction, passed = contraction_of(kernel), list(reader.operands_)
    left, right = contraction.left.buffer, contraction.right.buffer
    arguments = list(kernel.arguments)
    if left not in arguments or right not in arguments or passed.count(rows) != 1 or len([*left.uses]) != 1:
        return False
    has_form = contraction.left.dims == (contraction.rows, contraction.depth) and None not in contraction.left.dims
    is_left = passed[arguments.index(left)] == rows and has_form
    return is_left and _is_whole(passed[arguments.index(right)]) and _is_of_strips(contraction, target)


def _is_whole(matrix: ir.Value) -> bool:
    """Whether a matrix is all of an argument, or of a result: its rows begin at multiples of 16 bytes then."""
    while not isinstance(matrix.owner, ir.Block) and matrix.owner.name in _VIEWS:
        matrix = matrix.owner.operands[0]
    return isinstance(matrix.owner, ir.Block) or matrix.owner.name == "func.call"


def _is_of_strips(contraction: Contraction, target: GpuTarget) -> bool:
    """Whether a single product is one of strips, whose blocks have registers for the rows."""
    instruction = choose_instruction(contraction)
    if instruction not in ("bf16", "f16") or contraction.columns is None or contraction.outer:
        return False
    sizes = ProductSizes.of(contraction, instruction)
    return takes_strips(contraction, sizes, target) and strips.has_room(sizes.rows, sizes.depth)


def _fuse(rows: func.CallOp, product: func.CallOp, kernels: dict[str, func.FuncOp]) -> None:
    """Let a product make the rows that a call has made for it."""
    name = f"{callee_of(product)}_{callee_of(rows)}"
    place = list(product.operands_).index(rows.results[0])
    if name not in kernels:
        kernels[name] = _join(name, kernels[callee_of(rows)], kernels[callee_of(product)], place)
    passed = list(product.operands_)
    passed[place : place + 1] = rows.operands_
    call_in_place_of(list(product.results), name, passed, product, product.location)
    product.erase()


def _join(name: str, rows: func.FuncOp, product: func.FuncOp, place: int) -> func.FuncOp:
    """A kernel that does what both do; the arguments of `rows` are in place of the product's of that number."""
    types = list(product.type.inputs)
    types[place : place + 1] = rows.type.inputs
    with ir.InsertionPoint(product), product.location:
        kernel = func.FuncOp(name, (types, list(product.type.results)), visibility="private")
    mark(kernel, GEMM)
    kernel.attributes[MAKES_ROWS] = ir.UnitAttr.get()
    block = kernel.add_entry_block([product.location] * len(types))
    arguments, count = list(block.arguments), len(rows.type.inputs)
    with ir.InsertionPoint(block), product.location:
        (made,) = clone_kernel(rows, arguments[place : place + count])
        func.ReturnOp(clone_kernel(product, [*arguments[:place], made, *arguments[place + count :]]))
    return kernel

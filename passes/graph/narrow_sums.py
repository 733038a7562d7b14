"""The pass that lets sums over ranks travel in fewer bits."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType, as_dtype, f32
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import end_of
from blu.dialects.core.op import attributes_of, emitting_at, operation_class, value_type
from blu.dialects.mesh import reductions_of
from blu.dialects.ops.reduction import Reduction
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find

SUMS = ("blu.all_reduce", "blu.reduce_scatter")


@dataclass(frozen=True)
class NarrowSums(Pass):
    """Sums of f32 tensors over an axis that `blu.reduce` names are made in the dtype that it says.

        %1 = "blu.all_reduce"(%0) {axis = "dp", reduction = "sum"} : (tensor<4x8xf32>) -> tensor<4x8xf32>

    becomes, in a module with blu.reduce = {dp = "bf16"},

        %a = "blu.convert"(%0) {dtype = "bf16"} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
        %b = "blu.all_reduce"(%a) {axis = "dp", reduction = "sum"} : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
        %1 = "blu.convert"(%b) {dtype = "f32"} : (tensor<4x8xbf16>) -> tensor<4x8xf32>

    Scalars, and single numbers of rows, stay what they are: losses, norms, and statistics of rows that are split, as
    those of a softmax, cost nothing. Each rank's term is rounded to the dtype, and the sum
    again (once through MPI, at each rank that it passes through NCCL).
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        dtypes = {axis: as_dtype(name) for axis, name in reductions_of(module).items()}
        if not dtypes:
            return
        for function in find(module, func.FuncOp):
            for operation in [] if function.is_external else [item.operation for item in function.entry_block]:
                if operation.name in SUMS and _can_be_narrow(operation):
                    dtype = dtypes.get(attributes_of(operation)["axis"])
                    if dtype is not None:
                        _narrow(operation, dtype)
                        self.count("sums")


def _can_be_narrow(operation: ir.Operation) -> bool:
    tensor, attributes = Tensor(operation.operands[0]), attributes_of(operation)
    is_large = bool(tensor.shape) and not _is_for_rows(tensor.value)
    return is_large and tensor.dtype == f32 and attributes["reduction"] in ("sum", "mean")


def _is_for_rows(value: ir.Value) -> bool:
    """Whether a tensor has one number of each row: of what is reduced over its last dimension, in whatever shape."""
    while value_type(value).shape[-1:] not in ((), (1,)):
        operation = value.owner
        if isinstance(operation, ir.Block) or not operation.operands:
            return False
        cls = operation_class(operation)
        if cls is not None and issubclass(cls, Reduction):
            return value_type(operation.operands[0]).ndim - 1 in attributes_of(operation)["axes"]
        if operation.name not in ("blu.reshape", "blu.convert", "blu.barrier"):
            return False
        value = operation.operands[0]
    return True


def _narrow(operation: ir.Operation, dtype: DType) -> None:
    cls = operation_class(operation)
    assert cls is not None, operation.name
    with emitting_at(operation.location):
        # As early and as late as can be, so that it can wait for others, and travel with them.
        with _behind(operation.operands[0].owner, operation.block):
            narrow = Tensor(operation.operands[0]).astype(dtype)
        with ir.InsertionPoint(operation):
            total = cls(narrow, **attributes_of(operation))
        with ir.InsertionPoint(_first_reader(operation)):
            wide = total.astype(f32)
    operation.results[0].replace_all_uses_with(wide.value)
    operation.erase()


def _behind(maker: ir.Block | ir.OpView | ir.Operation, block: ir.Block) -> ir.InsertionPoint:
    if isinstance(maker, ir.Block):
        return ir.InsertionPoint.at_block_begin(block)
    return ir.InsertionPoint.after(maker.operation)


def _first_reader(operation: ir.Operation) -> ir.Operation:
    """The first op of the block that reads the result of one, itself or in a body; the end where none does."""
    block = operation.block
    first = end_of(block)
    for reader in (_in_block(use.owner.operation, block) for use in operation.results[0].uses):
        first = reader if reader.is_before_in_block(first) else first
    return first


def _in_block(operation: ir.Operation, block: ir.Block) -> ir.Operation:
    while operation.block != block:
        operation = operation.parent.operation
    return operation

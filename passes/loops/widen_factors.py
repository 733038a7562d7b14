"""The pass that converts factors of fp8, where no kernel multiplies them."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType, as_dtype, dtype_of_mlir
from blu.dialects.core.mlir import ir, linalg
from blu.passes.framework.base import Pass, find
from blu.passes.loops.lower_to_linalg.generic import pointwise, shape_of
from blu.passes.loops.lower_to_linalg.scalar import Scalar


@dataclass(frozen=True)
class WidenFactors(Pass):
    """Products of fp8 become those of a dtype that holds all its numbers, whose kernels there are.

        %2 = linalg.contract ins(%0, %1 : tensor<8x16xf8E4M3FN>, tensor<16x4xf8E5M2>) outs(%zeros : tensor<8x4xf32>)

    becomes

        %a = linalg.generic ins(%0) { arith.extf } -> tensor<8x16xf32>
        %b = linalg.generic ins(%1) { arith.extf } -> tensor<16x4xf32>
        %2 = linalg.contract ins(%a, %b) outs(%zeros : tensor<8x4xf32>)

    Sums are f32 in both. `to` is f32, or bf16 for GPUs, whose tensor cores take that.
    """

    level = "linalg"
    to: str = "f32"

    def run(self, module: ir.Module) -> None:
        for operation in products_of_float8(module):
            widen(operation, as_dtype(self.to))
            self.count("products")


def products_of_float8(module: ir.Module) -> list[ir.Operation]:
    """The contractions whose factors are fp8: if one is, both are."""
    found = [item.operation for item in find(module, "linalg.contract")]
    return [item for item in found if _dtype(item.operands[0]).is_stored_only]


def widen(operation: ir.Operation, dtype: DType) -> None:
    """Let a contraction read its factors in another dtype."""
    with ir.InsertionPoint(operation), operation.location:
        replace_factors(operation, [_converted(factor, dtype) for factor in list(operation.operands)[:2]])


def replace_factors(operation: ir.Operation, factors: list[ir.Value]) -> None:
    """The same contraction of other factors, in the place of this one."""
    start, maps = operation.operands[2], operation.attributes["indexing_maps"]
    contract = linalg.ContractOp([start.type], factors, [start], maps)
    linalg.fill_builtin_region(contract.operation)
    for name in operation.attributes:
        if name.startswith("blu."):
            contract.operation.attributes[name] = operation.attributes[name]
    operation.results[0].replace_all_uses_with(contract.results[0])
    operation.erase()


def _converted(factor: ir.Value, dtype: DType) -> ir.Value:
    source = _dtype(factor)
    return pointwise(
        shape_of(factor), [factor], dtype.to_mlir(), lambda element: Scalar(element, source).to(dtype).value
    )


def _dtype(value: ir.Value) -> DType:
    return dtype_of_mlir(ir.RankedTensorType(value.type).element_type)

"""The pass that writes attention as matrix products where no GPU kernel takes it whole."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.mlir import ir
from blu.dialects.op import operands_of
from blu.passes.base import Pass, find
from blu.passes.decompose import decompose_operation
from blu.passes.gpu.attention import LARGEST_ROW

KERNELS = ("blu.attention", "blu.attention_gradient")


@dataclass(frozen=True)
class DecomposeAttention(Pass):
    """Attention that the GPU's kernels do not take becomes products and a softmax: f32 and f64, and very long rows.

        %1 = "blu.attention"(%q, %k, %v) {causal = false, scale = 0.125} : (tensor<2x8x64xf32>, ..)

    becomes

        %a = "blu.matmul"(%q, %k)
        %b = "blu.softmax"(%a)
        %1 = "blu.matmul"(%b, %v)
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for operation in [item.operation for name in KERNELS for item in find(module, name)]:
            if not takes(operation):
                decompose_operation(operation)
                self.count("ops decomposed")


def takes(operation: ir.Operation) -> bool:
    """Whether a kernel for GPUs takes an attention or its gradient: 16-bit floats in rows that fit in registers."""
    operands = operands_of(operation)
    query, _, value = operands[1:4] if operation.name == "blu.attention_gradient" else operands[:3]
    types = [ir.RankedTensorType(item.type) for item in (query, value)]
    is_half = isinstance(types[0].element_type, (ir.F16Type, ir.BF16Type))
    return is_half and all(1 <= type_.shape[-1] <= LARGEST_ROW for type_ in types)

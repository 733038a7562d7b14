"""The pass that writes attention as matrix products where no GPU kernel takes it whole."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.framework.base import Pass, find
from blu.passes.gpu.attention import attention
from blu.passes.gpu.attention import gradient as attention_gradient
from blu.passes.graph.decompose import decompose_operation

# What an emitter takes of each of these ops.
TAKEN = {
    "blu.attention": attention.takes,
    "blu.attention_piece": attention.takes_piece,
    "blu.attention_gradient": attention_gradient.takes,
}


@dataclass(frozen=True)
class DecomposeAttention(Pass):
    """Attention that the GPU's kernels do not take becomes products and a softmax: f64, and very long rows.

        %1 = "blu.attention"(%q, %k, %v) {causal = false, scale = 0.125} : (tensor<2x8x64xf64>, ..)

    becomes

        %a = "blu.matmul"(%q, %k)
        %b = "blu.softmax"(%a)
        %1 = "blu.matmul"(%b, %v)
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for operation in [item.operation for name in TAKEN for item in find(module, name)]:
            if not TAKEN[operation.name](operation):
                decompose_operation(operation)
                self.count("ops decomposed")

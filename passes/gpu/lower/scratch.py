"""The pass that gives GPU kernels memory to work in, beside what they read and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.passes.framework.base import Pass, find
from blu.passes.gpu.attention import gradient as attention_gradient
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.others import ordering, scan, scatter
from blu.passes.gpu.rows import partials as row_partials

# For each family of kernels that needs scratch memory: its types, from the kernel on tensors.
SCRATCH: dict[str, Callable[[func.FuncOp], list[ir.MemRefType]]] = {
    "attention_gradient": attention_gradient.reserve,
    "argsort": ordering.reserve,
    "arg_top_k": ordering.reserve,
    "gemm": gemm_split.reserve,
    "rows": row_partials.reserve,
    "loops": row_partials.reserve,
    "scan": scan.reserve,
    "scatter_add": scatter.reserve,
}


@dataclass(frozen=True)
class ReserveGpuScratch(Pass):
    """Kernels whose launches hand something on to each other say what; bufferization gives them buffers for it.

        func.func private @attention_gradient_0(..) attributes {blu.kernel = "attention_gradient"}

    becomes

        func.func private @attention_gradient_0(..)
            attributes {blu.kernel = "attention_gradient", blu.scratch = [memref<8x64xf32>, ..]}

    The buffers are the kernel's last arguments, and live in the arena while its launches run.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for kernel in find(module, func.FuncOp):
            if "blu.kernel" not in kernel.attributes:
                continue
            reserve = SCRATCH.get(ir.StringAttr(kernel.attributes["blu.kernel"]).value)
            types = reserve(kernel) if reserve else []
            if types:
                kernel.attributes["blu.scratch"] = ir.ArrayAttr.get([ir.TypeAttr.get(type_) for type_ in types])
                self.count("buffers", len(types))

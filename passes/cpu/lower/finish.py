"""The pass that takes kernels from vector code to the LLVM dialect."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.cpu.lower.lower_to_llvm import lower_to_llvm
from blu.passes.framework.base import Pass
from blu.passes.framework.launches import holders_in, host_functions


@dataclass(frozen=True)
class LowerToLlvm(Pass, name="lower-to-llvm"):
    """Kernels become functions of the LLVM dialect that take bare pointers and a range of blocks.

        func.func @gemm_0(%x: memref<4x4xf32>, %out: memref<4x4xf32>, %begin: index, %end: index) { vector.fma .. }

    becomes

        llvm.func @gemm_0(%x: !llvm.ptr, %out: !llvm.ptr, %begin: i64, %end: i64) { llvm.intr.fma .. }

    The host program stays what it is.
    """

    level = "kernel"
    leads_to = "llvm"

    def run(self, module: ir.Module) -> None:
        holders = [item.opview for item in holders_in(module.operation)]
        for kernels in holders if host_functions(module) else [module]:
            lower_to_llvm(kernels, module.operation)

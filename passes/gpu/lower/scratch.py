"""The pass that gives GPU kernels memory to work in, beside what they read and write."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.framework.base import Pass
from blu.passes.framework.families import family_of, reserve
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.families import EMITTERS


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
        for kernel in kernels_in(module).values():
            emitter = EMITTERS.get(family_of(kernel).name)
            types = emitter.scratch(kernel) if emitter and emitter.scratch else []
            if types:
                reserve(kernel, types)
                self.count("buffers", len(types))

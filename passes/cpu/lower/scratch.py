"""The pass that gives kernels memory to work in, beside what they read and write."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.cpu.families import EMITTERS
from blu.passes.framework.base import Pass
from blu.passes.framework.families import family_of, reserve
from blu.passes.framework.kernels import kernels_in


@dataclass(frozen=True)
class ReserveScratch(Pass):
    """Kernels whose emitter needs more memory than a stack should hold say so; bufferization gives them buffers for it.

        func.func private @argsort_0(%keys) attributes {blu.kernel = "argsort"}

    becomes

        func.func private @argsort_0(%keys) attributes {blu.kernel = "argsort", blu.scratch = [memref<1x74xi32>, ..]}

    The buffers are the kernel's last arguments. They live in the arena while the kernel runs, so that the memory plan
    knows them and no kernel allocates.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for kernel in kernels_in(module).values():
            emitter = EMITTERS.get(family_of(kernel).name)
            types = emitter.scratch(kernel) if emitter and emitter.scratch else []
            if types:
                reserve(kernel, types)
                self.count("buffers", len(types))

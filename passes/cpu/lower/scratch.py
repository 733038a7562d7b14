"""The pass that gives kernels memory to work in, beside what they read and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.passes.cpu.others import ordering, scan, selection, update
from blu.passes.framework.base import Pass, find

# For each family of kernels that needs scratch memory: its types, from the kernel on tensors.
SCRATCH: dict[str, Callable[[func.FuncOp], list[ir.MemRefType]]] = {
    "argsort": ordering.reserve,
    "arg_top_k": selection.reserve,
    "scan": scan.reserve,
    "scatter_add": update.reserve,
}


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
        for kernel in find(module, func.FuncOp):
            reserve = SCRATCH.get(_family(kernel))
            types = reserve(kernel) if reserve else []
            if types:
                kernel.attributes["blu.scratch"] = ir.ArrayAttr.get([ir.TypeAttr.get(type_) for type_ in types])
                self.count("buffers", len(types))


def _family(function: func.FuncOp) -> str:
    """The family of a kernel; empty for the host program."""
    return ir.StringAttr(function.attributes["blu.kernel"]).value if "blu.kernel" in function.attributes else ""

"""The pass that writes every kernel's code, by the emitter of its family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.families import EMITTERS
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.kernels.launch import BLOCKS


@dataclass(frozen=True)
class EmitKernels(Pass):
    """Each kernel becomes vector code over a range of blocks, and its calls pass the whole range.

        func.func private @gemm_0(%x, %w, %out) { linalg.contract .. }            call @gemm_0(%x, %w, %out)

    becomes

        func.func @gemm_0(%x, %w, %out, %begin: index, %end: index) {             call @gemm_0(%x, %w, %out, %c0, %c12)
          scf.for %block = %begin to %end { vector.fma .. }
        }

    A kernel that takes several launches becomes several, and so does each call of it.
    """

    level = "memref"
    leads_to = "kernel"

    def run(self, module: ir.Module) -> None:
        target = CpuTarget.of(module)
        launches: dict[str, list[str]] = {}
        for name, kernel in kernels_in(module).items():
            family = family_of(kernel).name
            if family not in EMITTERS:
                self.fail(kernel, f"no emitter writes kernels of the family '{family}' for {target.name}")
            written = EMITTERS[family].emit(kernel, target)
            launches[name] = [item.name.value for item in written] if written else [name]
            self.count(f"{family} kernels")
        kernels = kernels_in(module)
        for call in list(find(module, func.CallOp)):
            name = ir.FlatSymbolRefAttr(call.operation.attributes["callee"]).value
            _call_each(call, [kernels[launch] for launch in launches[name]])


def _call_each(call: func.CallOp, kernels: Sequence[func.FuncOp]) -> None:
    """Replace a call by calls of all that its kernel has become, each with the range of all its blocks."""
    with ir.InsertionPoint(call), call.operation.location:
        for kernel in kernels:
            blocks = ir.IntegerAttr(kernel.attributes[BLOCKS]).value
            bounds = [arith.ConstantOp(ir.IndexType.get(), number).result for number in (0, blocks)]
            func.CallOp([], kernel.name.value, [*call.operation.operands, *bounds])
    call.operation.erase()

"""The pass that writes every kernel's code, by the emitter of its family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects.mlir import arith, func, ir
from blu.dialects.target import CpuTarget
from blu.passes.base import Pass, find
from blu.passes.cpu import attention, attention_backward, gemm, ordering, rows, update

Emitter = Callable[[func.FuncOp, CpuTarget], None]
EMITTERS: dict[str, Emitter] = {
    "gemm": gemm.emit,
    "rows": rows.emit,
    # Vectorised where the row emitter can (sums over rows, for one); it hands the rest to loops.emit.
    "loops": rows.emit,
    "attention": attention.emit,
    "attention_gradient": attention_backward.emit,
    "argsort": ordering.emit,
    "update": update.emit_slice,
    "scatter_add": update.emit_scatter_add,
}


@dataclass(frozen=True)
class EmitKernels(Pass):
    """Each kernel becomes vector code over a range of blocks, and its calls pass the whole range.

        func.func private @gemm_0(%x, %w, %out) { linalg.contract .. }            call @gemm_0(%x, %w, %out)

    becomes

        func.func @gemm_0(%x, %w, %out, %begin: index, %end: index) {             call @gemm_0(%x, %w, %out, %c0, %c12)
          scf.for %block = %begin to %end { vector.fma .. }
        }
    """

    level = "memref"
    leads_to = "kernel"

    def run(self, module: ir.Module) -> None:
        target = CpuTarget.of(module)
        for kernel in [item for item in find(module, func.FuncOp) if "blu.kernel" in item.attributes]:
            family = ir.StringAttr(kernel.attributes["blu.kernel"]).value
            if family not in EMITTERS:
                self.fail(kernel, f"no emitter writes kernels of the family '{family}' for {target.name}")
            EMITTERS[family](kernel, target)
            self.count(f"{family} kernels")
        kernels = {item.name.value: item for item in find(module, func.FuncOp) if "blu.kernel" in item.attributes}
        for call in list(find(module, func.CallOp)):
            _pass_blocks(call, kernels)


def _pass_blocks(call: func.CallOp, kernels: dict[str, func.FuncOp]) -> None:
    """Add the range of all blocks to a call."""
    name = ir.FlatSymbolRefAttr(call.operation.attributes["callee"]).value
    blocks = ir.IntegerAttr(kernels[name].attributes["blu.blocks"]).value
    with ir.InsertionPoint(call), call.operation.location:
        bounds = [arith.ConstantOp(ir.IndexType.get(), number).result for number in (0, blocks)]
        func.CallOp([], name, [*call.operation.operands, *bounds])
    call.operation.erase()

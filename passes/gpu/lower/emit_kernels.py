"""The pass that writes every kernel's GPU code, by the emitter of its family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from blu.dialects import plan
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.gpu.attention import attention
from blu.passes.gpu.attention import gradient as attention_gradient
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.isa.bulk_copy import map_type
from blu.passes.gpu.isa.fast_math import mark, writes_halves
from blu.passes.gpu.others import ordering, scan, scatter, update
from blu.passes.gpu.rows import rows
from blu.passes.gpu.rows import sums as row_sums
from blu.passes.kernels.launch import MAPS

# An emitter replaces a kernel by one or more, which are launched in order with the same arguments.
Emitter = Callable[[func.FuncOp, GpuTarget], list[func.FuncOp]]
EMITTERS: dict[str, Emitter] = {
    "gemm": gemm.emit,
    "rows": row_sums.emit,
    "loops": rows.emit,
    "attention": attention.emit,
    "attention_gradient": attention_gradient.emit,
    "argsort": ordering.emit,
    "arg_top_k": ordering.emit,
    "scan": scan.emit,
    "update": update.emit_slice,
    "scatter_add": scatter.emit,
}


@dataclass(frozen=True)
class EmitGpuKernels(Pass):
    """Each kernel becomes the code of one thread, and says how many blocks of how many threads run it.

        func.func private @rows_0(%x, %out) attributes {blu.kernel = "rows"} { linalg.generic .. }

    becomes

        func.func @rows_0(%x, %out) attributes {blu.grid = array<i64: 12, 1, 1>, blu.threads = 256, ..} {
          %block = nvvm.read.ptx.sreg.ctaid.x ...
        }

    A kernel that takes several launches becomes several, and so does each call of it.
    """

    level = "memref"
    leads_to = "kernel"

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module)
        launches: dict[str, list[func.FuncOp]] = {}
        for kernel in [item for item in find(module, func.FuncOp) if "blu.kernel" in item.attributes]:
            family, name = ir.StringAttr(kernel.attributes["blu.kernel"]).value, kernel.name.value
            if family not in EMITTERS:
                self.fail(kernel, f"no emitter writes kernels of the family '{family}' for {target.name}")
            rounds = writes_halves(kernel)
            launches[name] = EMITTERS[family](kernel, target)
            if rounds:
                mark(launches[name])
            self.count(f"{family} kernels", len(launches[name]))
        for call in list(find(module, func.CallOp)):
            _call_each(call, launches)


def _call_each(call: func.CallOp, launches: dict[str, list[func.FuncOp]]) -> None:
    """Replace a call by calls of all that its kernel has become, with the tensor maps that they take."""
    name, batch = ir.FlatSymbolRefAttr(call.operation.attributes["callee"]).value, plan.batch_of(call.operation)
    with ir.InsertionPoint(call), call.operation.location:
        for number, kernel in enumerate(launches[name]):
            maps = ir.ArrayAttr(kernel.attributes[MAPS]) if MAPS in kernel.attributes else ()
            buffers = [plan.buffer(map_type(), "map", index) for index in range(len(maps))]
            launch = func.CallOp([], kernel.name.value, [*call.operation.operands, *buffers])
            if batch is not None:
                plan.put_in_batch(launch.operation, batch, number)
    call.operation.erase()

"""The pass that writes every kernel's GPU code, by the emitter of its family."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects import plan
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.families import EMITTERS
from blu.passes.gpu.isa.tma import map_type
from blu.passes.gpu.lower.fast_math import mark, writes_halves
from blu.passes.kernels.launch import MAPS


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
        for name, kernel in kernels_in(module).items():
            family = family_of(kernel).name
            if family not in EMITTERS:
                self.fail(kernel, f"no emitter writes kernels of the family '{family}' for {target.name}")
            rounds = writes_halves(kernel)
            launches[name] = EMITTERS[family].emit(kernel, target)
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

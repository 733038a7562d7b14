"""The pass that writes every kernel's GPU code, by the emitter of its family."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects import plan
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.framework.launches import LaunchWriter, host_functions, kernel_of, launched_in
from blu.passes.gpu.emission import emit_kernels
from blu.passes.gpu.families import EMITTERS
from blu.passes.gpu.isa.tma import map_type
from blu.passes.gpu.lower.fast_math import mark, writes_halves
from blu.passes.gpu.lower.gpu_module import grid_of_kernel, put_into_gpu_module
from blu.passes.kernels.launch import MAPS


@dataclass(frozen=True)
class EmitGpuKernels(Pass):
    """Each kernel becomes the code of one thread, and its calls say how many blocks of how many threads run it.

        call @rows_0(%x, %out)
        func.func private @rows_0(%x, %out) attributes {blu.kernel = "rows"} { linalg.generic .. }

    becomes

        gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) threads in (%c256, %c1, %c1) .. args(%x, %out)
        gpu.module @kernels {
          gpu.func @rows_0(%x, %out) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 256, 1, 1>} {
            %block = nvvm.read.ptx.sreg.ctaid.x ...
          }
        }

    A kernel that takes several launches becomes several, and so does each call of it. What nothing calls is left out.
    """

    level = "memref"
    leads_to = "kernel"

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module)
        kernels = kernels_in(module)
        called = launched_in(module, kernels)
        wanted: dict[str, func.FuncOp] = {}
        for name, kernel in kernels.items():
            family = family_of(kernel).name
            if family not in EMITTERS:
                self.fail(kernel, f"no emitter writes kernels of the family '{family}' for {target.name}")
            if name in called:
                wanted[name] = kernel
            else:
                kernel.operation.erase()
        about = {name: (family_of(kernel).name, writes_halves(kernel)) for name, kernel in wanted.items()}
        launches = emit_kernels(wanted, target)
        for name, (family, rounds) in about.items():
            if rounds:
                mark(launches[name])
            self.count(f"{family} kernels", len(launches[name]))
        for function in host_functions(module):
            writer = LaunchWriter(function)
            for call in list(find(function, func.CallOp)):
                _launch_each(call, launches[kernel_of(call.operation)], writer)
        put_into_gpu_module(module, [kernel for each in launches.values() for kernel in each])


def _launch_each(call: func.CallOp, kernels: list[func.FuncOp], writer: LaunchWriter) -> None:
    """Replace a call by launches of all that its kernel has become, with the tensor maps that they take."""
    operands, batch = list(call.operation.operands), plan.batch_of(call.operation)
    with ir.InsertionPoint(call), call.operation.location:
        for number, kernel in enumerate(kernels):
            maps = ir.ArrayAttr(kernel.attributes[MAPS]) if MAPS in kernel.attributes else ()
            shown = [_tensor_map(ir.DictAttr(item), operands) for item in maps]
            launch = writer.on_gpu(kernel.name.value, grid_of_kernel(kernel), [*operands, *shown])
            if batch is not None:
                plan.put_in_batch(launch, batch, number)
    call.operation.erase()


def _tensor_map(shown: ir.DictAttr, operands: list[ir.Value]) -> ir.Value:
    """Emit the map of the operand that it shows."""
    return plan.tensor_map(map_type(), operands[ir.IntegerAttr(shown["argument"]).value], shown)

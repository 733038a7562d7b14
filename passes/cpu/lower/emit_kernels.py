"""The pass that writes every kernel's code, by the emitter of its family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.families import EMITTERS
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import family_of, is_kernel
from blu.passes.framework.kernels import kernels_in
from blu.passes.framework.launches import BLOCKS, CHUNK, KERNELS, code_of, host_functions, kernel_of, launched_in


@dataclass(frozen=True)
class EmitKernels(Pass):
    """Each kernel becomes vector code over a range of blocks, and its calls say how many blocks there are.

        call @gemm_0(%x, %w, %out)
        func.func private @gemm_0(%x, %w, %out) { linalg.contract .. }

    becomes

        call @gemm_0(%x, %w, %out) {blu.blocks = 12, blu.chunk = 1}
        func.func private @gemm_0(..)
        module @kernels {
          func.func @gemm_0(%x, %w, %out, %begin: index, %end: index) {
            scf.for %block = %begin to %end { vector.fma .. }
          }
        }

    A kernel that takes several launches becomes several, and so does each call of it. What nothing calls is left out.
    """

    level = "memref"
    leads_to = "kernel"

    def run(self, module: ir.Module) -> None:
        target = CpuTarget.of(module)
        kernels = kernels_in(module)
        called = launched_in(module, kernels)
        launches: dict[str, list[str]] = {}
        for name, kernel in kernels.items():
            family = family_of(kernel).name
            if family not in EMITTERS:
                self.fail(kernel, f"no emitter writes kernels of the family '{family}' for {target.name}")
            if name not in called:
                kernel.operation.erase()
                continue
            written = EMITTERS[family].emit(kernel, target)
            launches[name] = [item.name.value for item in written] if written else [name]
            self.count(f"{family} kernels")
        emitted = kernels_in(module)
        for call in [call for function in host_functions(module) for call in find(function, func.CallOp)]:
            _launch_each(call, [emitted[name] for name in launches[kernel_of(call.operation)]])
        _put_into_module(module, emitted)


def _launch_each(call: func.CallOp, kernels: Sequence[func.FuncOp]) -> None:
    """Replace a call by launches of all that its kernel has become."""
    with ir.InsertionPoint(call), call.operation.location:
        for kernel in kernels:
            if ir.IntegerAttr(kernel.attributes[BLOCKS]).value:
                launch = func.CallOp([], kernel.name.value, list(call.operation.operands))
                for name in (BLOCKS, CHUNK):
                    launch.attributes[name] = kernel.attributes[name]
    call.operation.erase()


def _put_into_module(module: ir.Module, kernels: Mapping[str, func.FuncOp]) -> None:
    """Put kernels and what they refer to into a module of their own, those without blocks left out."""
    if not host_functions(module):
        return
    launched = launched_in(module, kernels)
    for name, kernel in kernels.items():
        if name not in launched:
            kernel.operation.erase()
    code = code_of(module)
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        holder = ir.Module.create().operation.clone()
    holder.attributes["sym_name"] = ir.StringAttr.get(KERNELS)
    for operation in code:
        if operation.name == "func.func" and is_kernel(operation.opview):
            _declare(operation)
        holder.regions[0].blocks[0].append(operation)


def _declare(kernel: ir.Operation) -> None:
    """Leave a declaration for the host program, which says how many blocks there are, and calls what is elsewhere."""
    name, inputs = ir.StringAttr(kernel.attributes["sym_name"]).value, kernel.opview.type.inputs[:-2]
    with ir.InsertionPoint(kernel), kernel.location:
        func.FuncOp(name, ir.FunctionType.get(inputs, []), visibility="private")
    for attribute in (BLOCKS, CHUNK, "sym_visibility"):
        if attribute in kernel.attributes:
            del kernel.attributes[attribute]

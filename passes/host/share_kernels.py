"""The pass that lets launches of the same code share one kernel."""

from __future__ import annotations

from collections.abc import Hashable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir, llvm
from blu.dialects.core.modules import plain_bytecode
from blu.passes.framework import families
from blu.passes.framework.base import Pass, find
from blu.passes.framework.launches import grid_of, host_functions, kernel_of, launches_in, let_launch
from blu.passes.kernels.launch import PER_PROCESSOR

_SIZES = ("nvvm.reqntid", "nvvm.cluster_dim", PER_PROCESSOR)


@dataclass(frozen=True)
class ShareKernels(Pass):
    """Of kernels whose code is equal, only the first stays: how many blocks run is said by their launches.

        gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) .. args(%x)
        gpu.launch_func @kernels::@rows_1 blocks in (%c96, %c1, %c1) .. args(%y)
        gpu.module @kernels {
          llvm.func @rows_0(%x: !llvm.ptr) attributes {nvvm.kernel} { .. }
          llvm.func @rows_1(%x: !llvm.ptr) attributes {nvvm.kernel} { .. }
        }

    becomes

        gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) .. args(%x)
        gpu.launch_func @kernels::@rows_0 blocks in (%c96, %c1, %c1) .. args(%y)
        gpu.module @kernels {
          llvm.func @rows_0(%x: !llvm.ptr) attributes {nvvm.kernel} { .. }
        }
    """

    level = "llvm"

    def run(self, module: ir.Module) -> None:
        launches = [launch for function in host_functions(module) for launch in launches_in(function)]
        memory = {kernel_of(launch): grid_of(launch).shared_bytes for launch in launches}
        alike: dict[Hashable, list[llvm.LLVMFuncOp]] = {}
        names: dict[str, str] = {}
        for kernel in [item for item in find(module, llvm.LLVMFuncOp) if "nvvm.kernel" in item.attributes]:
            name = _name(kernel)
            alike.setdefault((memory.get(name), _outline(kernel)), []).append(kernel)
            names[name] = name
        for kernels in alike.values():
            first: dict[Hashable, str] = {}
            for kernel in kernels if len(kernels) > 1 else ():
                name = _name(kernel)
                names[name] = first.setdefault(_key(kernel), name)
                if names[name] != name:
                    kernel.operation.erase()
                    self.count("kernels shared")
        for launch in launches:
            let_launch(launch, names[kernel_of(launch)])


def _name(kernel: llvm.LLVMFuncOp) -> str:
    return ir.StringAttr(kernel.attributes["sym_name"]).value


def _outline(kernel: llvm.LLVMFuncOp) -> Hashable:
    """What equal kernels have in common and few others, and what takes less time to read than their text."""
    attributes = tuple(kernel.attributes.get(name, None) for name in ("function_type", families.ATTRIBUTE, *_SIZES))
    return attributes, tuple(len(block.operations) for block in kernel.operation.regions[0].blocks)


def _key(kernel: llvm.LLVMFuncOp) -> Hashable:
    """What a kernel of an outline is, but for its name, the user's lines and what launches and passes need of it.

    One with global memory of its own is like no other.
    """
    with kernel.context, ir.Location.unknown():
        alone = ir.Module.create()
        copy = kernel.operation.clone(ir.InsertionPoint(alone.body)).operation
        for name in list(copy.attributes):
            if "." in name:
                del copy.attributes[name]
        copy.attributes["sym_name"] = ir.StringAttr.get("kernel")
        return plain_bytecode(alone)

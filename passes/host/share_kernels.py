"""The pass that lets launches of the same code share one kernel."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from blu.dialects.core.mlir import ir, llvm
from blu.dialects.core.modules import code_text
from blu.passes.framework import families
from blu.passes.framework.base import Pass, find
from blu.passes.host.export_plan import read_plan, write_plan
from blu.passes.kernels.launch import CLUSTER, PER_PROCESSOR, SHARED, THREADS


@dataclass(frozen=True)
class ShareKernels(Pass):
    """Of kernels whose code is equal, only the first stays: shapes that only say how many blocks run are in the plan.

        module attributes {blu.plan = "{\\"launches\\": [{\\"kernel\\": \\"rows_0\\", \\"grid\\": [12]},
                                                    {\\"kernel\\": \\"rows_1\\", \\"grid\\": [96]}]}"} {
          llvm.func @rows_0(%x: !llvm.ptr) attributes {nvvm.kernel} { .. }
          llvm.func @rows_1(%x: !llvm.ptr) attributes {nvvm.kernel} { .. }
        }

    becomes

        module attributes {blu.plan = "{\\"launches\\": [{\\"kernel\\": \\"rows_0\\", \\"grid\\": [12]},
                                                    {\\"kernel\\": \\"rows_0\\", \\"grid\\": [96]}]}"} {
          llvm.func @rows_0(%x: !llvm.ptr) attributes {nvvm.kernel} { .. }
        }
    """

    level = "llvm"

    def run(self, module: ir.Module) -> None:
        first: dict[Hashable, str] = {}
        names: dict[str, str] = {}
        for kernel in [item for item in find(module, llvm.LLVMFuncOp) if "nvvm.kernel" in item.attributes]:
            name = ir.StringAttr(kernel.attributes["sym_name"]).value
            names[name] = first.setdefault(_key(kernel), name)
            if names[name] != name:
                kernel.operation.erase()
                self.count("kernels shared")
        plan = read_plan(module)
        launches = tuple(replace(launch, kernel=names[launch.kernel]) for launch in plan.launches)
        write_plan(module, replace(plan, launches=launches))


def _key(kernel: llvm.LLVMFuncOp) -> Hashable:
    """What a kernel is, but for its name and the user's lines. One with global memory of its own is like no other."""
    names = (families.ATTRIBUTE, THREADS, SHARED, CLUSTER, PER_PROCESSOR)
    attributes = tuple(kernel.attributes.get(name, None) for name in names)
    text = code_text(kernel)
    header, body = text.split("\n", 1)
    return attributes, header[header.index("(") : header.index(" attributes ")], body

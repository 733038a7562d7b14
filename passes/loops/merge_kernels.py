"""The pass that lets calls of equal kernels call one."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.passes.framework.base import Pass, find
from blu.passes.framework.kernels import callee_of, kernels_in, text_of, wished_in


@dataclass(frozen=True)
class MergeKernels(Pass):
    """Of kernels that are equal, only the first stays, and all calls call that one.

        %1 = call @gemm_0(%x, %w0)                              %1 = call @gemm_0(%x, %w0)
        %2 = call @gemm_1(%1, %w1)                              %2 = call @gemm_0(%1, %w1)
        func.func private @gemm_0(%x, %w) { linalg.contract }   func.func private @gemm_0(%x, %w) { linalg.contract }
        func.func private @gemm_1(%x, %w) { linalg.contract }

    Layers of a model are alike: what later passes do for each kernel is then done for one layer. Kernels stay apart
    where the module asks for a schedule of one of them (`blu.schedules`).
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels, wished = kernels_in(module), wished_in(module)
        first: dict[str, str] = {}
        names: dict[str, str] = {}
        for name, kernel in kernels.items():
            if name not in wished:
                names[name] = first.setdefault(text_of(kernel), name)
        merged = {name: kept for name, kept in names.items() if name != kept}
        for call in find(module, func.CallOp) if merged else ():
            callee = callee_of(call)
            if callee in merged:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(merged[callee])
        for name in merged:
            kernels[name].operation.erase()
        self.count("kernels merged", len(merged))

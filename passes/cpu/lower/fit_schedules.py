"""The pass that chooses how kernels for processors go about their work, and writes it on them."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.families import EMITTERS
from blu.passes.cpu.rows.schedule import REPEATED
from blu.passes.framework.base import Pass, find
from blu.passes.framework.kernels import callee_of, kernels_in
from blu.passes.kernels.choose_schedules import fit_to_strides


@dataclass(frozen=True)
class FitCpuSchedules(Pass):
    """Kernels get a schedule: how they go about their work, by their sizes and by where their operands lie.

        func.func private @gemm_0(%x: memref<512x512xf32>, ..) attributes {blu.kernel = "gemm"}

    becomes

        func.func private @gemm_0(%x: memref<512x512xf32>, ..) attributes {blu.kernel = "gemm",
            blu.schedule = {kind = "tiles", rows = 6 : i64, vectors = 2 : i64, ..}}

    What a kernel's schedule says already stays, and is refused where it does not fit. Kernels that loops launch are
    marked while that is chosen.
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        repeated = _kernels_in_loops(module)
        for kernel in repeated:
            kernel.attributes[REPEATED] = ir.UnitAttr.get(module.context)
        fit_to_strides(self, module, CpuTarget.of(module), EMITTERS)
        for kernel in repeated:
            del kernel.attributes[REPEATED]


def _kernels_in_loops(module: ir.Module) -> list[func.FuncOp]:
    """The kernels that bodies of loops call."""
    bodies = {ir.FlatSymbolRefAttr(loop.attributes["body"]).value for loop in find(module, LOOP)}
    steps = [item for item in find(module, func.FuncOp) if item.name.value in bodies]
    called = {callee_of(call) for step in steps for call in find(step, func.CallOp)}
    return [kernel for name, kernel in kernels_in(module).items() if name in called]

"""The pass that chooses how kernels for processors go about their work, and writes it on them."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.families import EMITTERS
from blu.passes.framework.base import Pass
from blu.passes.kernels.choose_schedules import fit_to_strides


@dataclass(frozen=True)
class FitCpuSchedules(Pass):
    """Kernels get a schedule: how they go about their work, by their sizes and by where their operands lie.

        func.func private @gemm_0(%x: memref<512x512xf32>, ..) attributes {blu.kernel = "gemm"}

    becomes

        func.func private @gemm_0(%x: memref<512x512xf32>, ..) attributes {blu.kernel = "gemm",
            blu.schedule = {kind = "tiles", rows = 6 : i64, vectors = 2 : i64, ..}}

    What a kernel's schedule says already stays, and is refused where it does not fit.
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        fit_to_strides(self, module, CpuTarget.of(module), EMITTERS)

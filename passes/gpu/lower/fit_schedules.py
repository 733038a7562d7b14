"""The pass that decides of schedules what depends on where the operands of a kernel lie in memory."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass
from blu.passes.gpu.families import EMITTERS
from blu.passes.kernels.choose_schedules import fit_to_strides


@dataclass(frozen=True)
class FitSchedules(Pass):
    """Schedules say by which kind of kernel, now that strides are known.

        func.func private @gemm_0(%x: memref<512x512xbf16>, ..) attributes {blu.kernel = "gemm",
            blu.schedule = {kind = "product", instruction = "bf16", ..}}

    becomes

        func.func private @gemm_0(%x: memref<512x512xbf16>, ..) attributes {blu.kernel = "gemm",
            blu.schedule = {kind = "wgmma", instruction = "bf16", rows = 128 : i64, columns = 192 : i64, ..}}

    A schedule of another kind stays what it is, and is refused where it does not fit the strides. A kernel that was
    written by hand at this level, without a schedule, gets one for which it needs no more memory.
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        fit_to_strides(self, module, GpuTarget.of(module), EMITTERS)

"""The pass that chooses how kernels for GPUs go about their work, and writes it on them."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass
from blu.passes.gpu.families import EMITTERS
from blu.passes.kernels.choose_schedules import choose_by_sizes


@dataclass(frozen=True)
class ChooseSchedules(Pass):
    """Kernels get a schedule: what their sizes decide, before bufferization gives them memory.

        func.func private @gemm_0(%x, %y) attributes {blu.kernel = "gemm"}

    becomes

        func.func private @gemm_0(%x, %y) attributes {blu.kernel = "gemm", blu.schedule = {kind = "product",
            instruction = "bf16", rows = 128 : i64, columns = 128 : i64, split = 4 : i64}}

    and `blu-fit-schedules` puts another kind in the place of "product" once strides are known. Fields that a kernel's
    `blu.schedule` has already stay as they are, and so do those that `blu.schedules` of the module has for a kernel,
    which is how schedules are chosen by others:

        module attributes {blu.schedules = {gemm_0 = {kind = "wgmma", columns = 128 : i64}}}
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        choose_by_sizes(self, module, GpuTarget.of(module), EMITTERS)

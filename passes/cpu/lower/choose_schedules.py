"""The pass that hands to kernels for processors what others say of how they go about their work."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.families import EMITTERS
from blu.passes.framework.base import Pass
from blu.passes.kernels.choose_schedules import choose_by_sizes


@dataclass(frozen=True)
class ChooseCpuSchedules(Pass):
    """Kernels keep what is said of their schedules, under the names that they have before bufferization.

        module attributes {blu.schedules = {gemm_0 = {kind = "tiles", rows = 4 : i64}}} {
          func.func private @gemm_0(%x, %y) attributes {blu.kernel = "gemm"}

    becomes

        module {
          func.func private @gemm_0(%x, %y) attributes {blu.kernel = "gemm",
              blu.schedule = {kind = "tiles", rows = 4 : i64}}

    and `blu-fit-cpu-schedules` chooses the rest, once strides are known.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        choose_by_sizes(self, module, CpuTarget.of(module), EMITTERS)

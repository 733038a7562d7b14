"""The pass that decides of schedules what depends on where the factors of a product lie in memory."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass
from blu.passes.framework.families import GEMM, SCHEDULE, SCRATCH, family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.gemm import split
from blu.passes.gpu.gemm.choice import choose_by_strides
from blu.passes.gpu.gemm.gemm import product_of
from blu.passes.gpu.gemm.limits import excess, misfit
from blu.passes.gpu.gemm.schedule import LoopsSchedule, ProductSchedule, parts_of, schedule_of
from blu.passes.gpu.lower.choose_schedules import choose, refuse
from blu.passes.kernels.schedules import Schedule


@dataclass(frozen=True)
class FitSchedules(Pass):
    """The schedules of matrix products say by which kind of kernel, now that strides are known.

        func.func private @gemm_0(%x: memref<512x512xbf16>, ..) attributes {blu.kernel = "gemm",
            blu.schedule = {kind = "product", instruction = "bf16", ..}}

    becomes

        func.func private @gemm_0(%x: memref<512x512xbf16>, ..) attributes {blu.kernel = "gemm",
            blu.schedule = {kind = "wgmma", instruction = "bf16", rows = 128 : i64, columns = 192 : i64, ..}}

    A schedule of another kind stays what it is, and is refused where it does not fit the strides. A kernel that was
    written by hand at this level, without a schedule, gets one of which k is not split.
    """

    level = "memref"

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module)
        for kernel in kernels_in(module).values():
            if family_of(kernel) == GEMM:
                fit(kernel, target)
                self.count(f"schedules of kind {schedule_of(kernel).kind}")


def fit(kernel: func.FuncOp, target: GpuTarget) -> None:
    """Write on a kernel over buffers which kind of kernel it is. PassError where its schedule does not fit."""
    has_parts = SCRATCH in kernel.attributes or split.gives_parts(kernel)
    schedule = schedule_of(kernel) if SCHEDULE in kernel.attributes or has_parts else choose(kernel, target, {}, False)
    product = product_of(kernel)
    if isinstance(schedule, ProductSchedule):
        schedule = LoopsSchedule() if product is None else choose_by_strides(product, schedule, target)
    if product is not None and not isinstance(schedule, LoopsSchedule):
        _check_parts(kernel, schedule)
        if message := excess(schedule, product.contraction, target) or misfit(schedule, product):
            raise refuse(kernel, message)
    kernel.attributes[SCHEDULE] = schedule.to_attribute()


def _check_parts(kernel: func.FuncOp, schedule: Schedule) -> None:
    """The memory of a kernel holds as many parts as its schedule says."""
    contraction, count = split.contraction_of(kernel), parts_of(schedule)
    wanted = split.parts_type(contraction, count)
    if split.gives_parts(kernel):
        given = [value.operands[1].type for value in _written(kernel)]
    else:
        given = [ir.TypeAttr(item).value for item in ir.ArrayAttr(kernel.attributes.get(SCRATCH, ir.ArrayAttr.get([])))]
    if given != ([wanted] if count > 1 or split.gives_parts(kernel) else []):
        found = ", ".join(map(str, given)) or "none"
        advice = "blu-split-products and blu-reserve-gpu-scratch give memory by the schedule that a kernel has then."
        raise refuse(kernel, f"split = {count} takes memory of {wanted} for parts, and the kernel has {found}", advice)


def _written(kernel: func.FuncOp) -> list[ir.Operation]:
    names = "bufferization.materialize_in_destination"
    return [item.operation for item in kernel.body.blocks[0] if item.operation.name == names]

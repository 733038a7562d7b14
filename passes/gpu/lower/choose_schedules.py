"""The pass that chooses how kernels for GPUs go about their work, and writes it on them."""

from __future__ import annotations

from dataclasses import dataclass

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError, suggestion
from blu.passes.framework.base import Pass
from blu.passes.framework.families import GEMM, SCHEDULE, family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.gemm import split
from blu.passes.gpu.gemm.choice import choose_by_sizes
from blu.passes.gpu.gemm.limits import excess
from blu.passes.gpu.gemm.schedule import LoopsSchedule
from blu.passes.kernels.schedules import WISHES, Fields, Schedule, read_fields, refused


@dataclass(frozen=True)
class ChooseSchedules(Pass):
    """Each matrix product gets a schedule: what its sizes decide, before bufferization gives it memory.

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
        target = GpuTarget.of(module)
        kernels = kernels_in(module)
        wishes = self._take_wishes(module, kernels)
        for name, kernel in kernels.items():
            if family_of(kernel) == GEMM:
                schedule = choose(kernel, target, wishes.get(name, {}))
                kernel.attributes[SCHEDULE] = schedule.to_attribute()
                self.count(f"schedules of kind {schedule.kind}")

    def _take_wishes(self, module: ir.Module, kernels: dict[str, func.FuncOp]) -> dict[str, Fields]:
        """What the module says of schedules, by kernel."""
        attributes = module.operation.attributes
        if WISHES not in attributes:
            return {}
        if not isinstance(attributes[WISHES], ir.DictAttr):
            self.fail(module.operation, f"{WISHES} = {attributes[WISHES]} is no dictionary of kernels' names")
        products = [name for name, kernel in kernels.items() if family_of(kernel) == GEMM]
        found = {
            item.name: _fields_of(item.attr, kernels.get(item.name, module)) for item in ir.DictAttr(attributes[WISHES])
        }
        for name in found:
            if name in kernels and name not in products:
                self.fail(kernels[name], f"kernel '{name}' has no schedule: only matrix products have one")
            if name not in kernels:
                advice = f"{suggestion(name, products)} There are: {', '.join(products) or 'none'}.".strip()
                self.fail(module.operation, f"schedules are given for '{name}', which is no kernel", advice=advice)
        del attributes[WISHES]
        return found


def choose(kernel: func.FuncOp, target: GpuTarget, wishes: Fields, can_split: bool = True) -> Schedule:
    """The schedule of a kernel of a product by its sizes; what is given stays. PassError for what does not fit."""
    contraction = split.contraction_of(kernel)
    given = {**(_fields_of(kernel.attributes[SCHEDULE], kernel) if SCHEDULE in kernel.attributes else {}), **wishes}
    if not all(map(_is_in_memory, list(contraction.operation.operands)[:2])):
        return LoopsSchedule()
    try:
        schedule = choose_by_sizes(contraction, target, given, can_split)
    except ParseError as error:
        raise refuse(kernel, error.message, error.advice) from None
    if message := excess(schedule, contraction, target):
        raise refuse(kernel, message)
    return schedule


def refuse(kernel: func.FuncOp, message: str, advice: str = "") -> Exception:
    """The error of a schedule that does not fit its kernel, at the user's line of the product."""
    line = split.contraction_of(kernel).operation.location
    return refused(kernel, f"the schedule of kernel '{kernel.name.value}': {message}", advice, line)


def _is_in_memory(value: ir.Value) -> bool:
    """Whether a factor is what the kernel was given, and not made in it."""
    return isinstance(value.owner, ir.Block) or value.owner.name == "bufferization.to_tensor"


def _fields_of(attribute: ir.Attribute, place: func.FuncOp | ir.Module) -> Fields:
    try:
        return read_fields(attribute)
    except ParseError as error:
        raise refused(place, error.message) from None

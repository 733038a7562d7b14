"""What there is to tune in a program: its kernels, each as a program of its own, once for all that are equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from blu.compiler.driver.driver import DriverOptions, run_pipeline
from blu.compiler.driver.remaining import remaining_steps
from blu.compiler.pipelines import Step
from blu.dataclass import dataclass, field
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget, Target, target_of
from blu.passes.cpu.lower.choose_schedules import ChooseCpuSchedules
from blu.passes.cpu.lower.fit_schedules import FitCpuSchedules
from blu.passes.framework.families import SCHEDULE, family_of
from blu.passes.framework.kernels import kernels_in
from blu.passes.gpu.lower.choose_schedules import ChooseSchedules
from blu.passes.gpu.lower.fit_schedules import FitSchedules
from blu.passes.kernels.isolate import KERNEL, isolated, problem_of
from blu.passes.kernels.schedules import Fields, Scheduler, read_fields

CHOOSE, FIT = (ChooseSchedules, ChooseCpuSchedules), (FitSchedules, FitCpuSchedules)
QUIET = DriverOptions(reproduce=False)


@dataclass(frozen=True)
class KernelProblem:
    """A kernel of which there is something to choose. `names` are those of all equal kernels of the program."""

    problem: str
    family: str
    line: str
    names: tuple[str, ...]
    module: ir.Module = field(repr=False, compare=False)
    scheduler: Scheduler = field(repr=False, compare=False)

    def chosen(self) -> Fields:
        """The schedule that is chosen where none is given."""
        return fit(self.module, self.family)[1]

    def expected(self, schedule: Fields) -> float:
        """What the kernel should take by a schedule, in whatever unit; 0 where nothing is known."""
        with self.module.context:
            return self.scheduler.expected(kernels_in(self.module)[KERNEL], target_of(self.module), schedule)

    @property
    def operands(self) -> str:
        """The types of what the kernel takes and gives."""
        type_ = kernels_in(self.module)[KERNEL].type
        words = [", ".join(map(_short, types)) for types in (type_.inputs, type_.results)]
        return " -> ".join(words)


def problems_of(module: ir.Module, autocast: str = "") -> list[KernelProblem]:
    """The kernels of a module, from wherever in its pipeline it is before schedules are chosen."""
    before = run_pipeline(module, _steps_before(module, autocast), QUIET).module
    with before.context:
        return _merged(_problems(before, target_of(before)))


def _problems(module: ir.Module, target: Target) -> Iterator[KernelProblem]:
    kernels, emitters = kernels_in(module), _emitters_of(target)
    schedulers: dict[str, Scheduler] = {}
    for name, kernel in kernels.items():
        emitter = emitters.get(family_of(kernel).name)
        if emitter is not None and emitter.scheduler is not None and SCHEDULE not in kernel.attributes:
            schedulers[name] = emitter.scheduler
    for name, alone in isolated(module, schedulers):
        family, line = family_of(kernels[name]).name, _line_of(kernels[name], schedulers[name])
        yield KernelProblem(problem_of(alone), family, line, (name,), alone, schedulers[name])


def _merged(found: Iterator[KernelProblem]) -> list[KernelProblem]:
    by_text: dict[str, list[KernelProblem]] = {}
    for item in found:
        by_text.setdefault(item.problem, []).append(item)
    return [replace(equal[0], names=tuple(item.names[0] for item in equal)) for equal in by_text.values()]


def _line_of(kernel: func.FuncOp, scheduler: Scheduler) -> str:
    location = scheduler.line(kernel) if scheduler.line else kernel.operation.location
    return describe(location) or describe(kernel.operation.location) or ""


def _emitters_of(target: Target) -> Any:
    if isinstance(target, GpuTarget):
        from blu.passes.gpu.families import EMITTERS as ON_GPUS

        return ON_GPUS
    from blu.passes.cpu.families import EMITTERS

    return EMITTERS


def fit(module: ir.Module, family: str) -> tuple[ir.Module, dict[str, str | int]]:
    """The program of a kernel of that family once strides are known, and the schedule that it says of it then.

    PassError where a schedule that it was given does not fit.
    """
    fitted = run_pipeline(module, _steps_until(remaining_steps(module), FIT), QUIET).module
    with fitted.context:
        kernels = (item for item in kernels_in(fitted).values() if family_of(item).name == family)
        schedule = next(item.attributes[SCHEDULE] for item in kernels if SCHEDULE in item.attributes)
        return fitted, read_fields(schedule)


def _short(type_: ir.Type) -> str:
    return str(type_).removeprefix("tensor<").removesuffix(">")


def _steps_before(module: ir.Module, autocast: str) -> Sequence[Step]:
    return _steps_until(remaining_steps(module, autocast), CHOOSE)[:-1]


def _steps_until(steps: Sequence[Step], kinds: tuple[type, ...]) -> Sequence[Step]:
    return steps[: next(index for index, step in enumerate(steps) if isinstance(step.pass_, kinds)) + 1]

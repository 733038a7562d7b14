"""What passes that choose schedules do, whatever the target: it stays what is given, and each family says the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blu.dialects.core.mlir import func, ir
from blu.errors import ParseError, PassError, TunedScheduleWarning, suggestion
from blu.passes.framework.base import Pass
from blu.passes.framework.families import SCHEDULE, UNTUNED, family_of
from blu.passes.framework.kernels import TUNED, WISHES, kernels_in
from blu.passes.kernels.emitters import Emitter
from blu.passes.kernels.isolate import isolated, problem_of
from blu.passes.kernels.schedules import (
    Fields,
    Schedule,
    Scheduler,
    dictionary,
    given_to,
    read_fields,
    refused,
    said_of,
)

Emitters = Mapping[str, Emitter]
"""Those of a target, by the names of families."""


def choose_by_sizes(pass_: Pass, module: ir.Module, target: Any, emitters: Emitters) -> None:
    """Write on kernels what sizes decide of their schedules, and what the module says of them."""
    kernels = kernels_in(module)
    wishes, tuned = _take_wishes(pass_, module, kernels, emitters), _take_tuned(pass_, module, kernels, emitters)
    for name, kernel in kernels.items():
        scheduler = _scheduler_of(kernel, emitters)
        if scheduler is None:
            continue
        given = {**given_to(kernel), **wishes.get(name, {})}
        with said_of(kernel, scheduler.line and scheduler.line(kernel)):
            chosen = scheduler.choose(kernel, target, given)
        if name in tuned and not given:
            chosen = _choose_tuned(pass_, kernel, target, tuned[name], chosen, scheduler)
        if chosen:
            kernel.attributes[SCHEDULE] = dictionary(chosen)
            pass_.count(f"schedules of kind {chosen['kind']}")


def fit_to_strides(pass_: Pass, module: ir.Module, target: Any, emitters: Emitters) -> None:
    """Write on kernels over buffers their whole schedules."""
    for kernel in kernels_in(module).values():
        scheduler = _scheduler_of(kernel, emitters)
        if scheduler is not None:
            pass_.count(f"schedules of kind {_fitted(pass_, kernel, target, scheduler).kind}")


def _fitted(pass_: Pass, kernel: func.FuncOp, target: Any, scheduler: Scheduler) -> Schedule:
    """The schedule of a kernel, which is not the tuned one where that does not fit the strides."""
    if UNTUNED not in kernel.attributes:
        return fit_kernel(kernel, target, scheduler)
    chosen = kernel.attributes[UNTUNED]
    del kernel.attributes[UNTUNED]
    try:
        return fit_kernel(kernel, target, scheduler)
    except PassError as error:
        _leave_out(pass_, kernel, error.message)
    kernel.attributes[SCHEDULE] = chosen
    if not len(chosen):
        del kernel.attributes[SCHEDULE]
    return fit_kernel(kernel, target, scheduler)


def _leave_out(pass_: Pass, kernel: func.FuncOp, reason: str) -> None:
    name = kernel.name.value
    pass_.warn(f"kernel '{name}' has the schedule that is chosen, not the tuned one: {reason}", TunedScheduleWarning)


def fit_kernel(kernel: func.FuncOp, target: Any, scheduler: Scheduler) -> Schedule:
    """Write on a kernel over buffers its whole schedule. PassError where what it says does not fit."""
    given = given_to(kernel)
    with said_of(kernel, scheduler.line and scheduler.line(kernel)):
        schedule = scheduler.fit(kernel, target, given)
    kernel.attributes[SCHEDULE] = schedule.to_attribute()
    return schedule


def _take_tuned(
    pass_: Pass, module: ir.Module, kernels: Mapping[str, func.FuncOp], emitters: Emitters
) -> dict[str, Fields]:
    """What the module says of schedules by problems, by the kernels that have these."""
    attributes = module.operation.attributes
    if TUNED not in attributes:
        return {}
    if not isinstance(attributes[TUNED], ir.DictAttr):
        pass_.fail(module.operation, f"{TUNED} = {attributes[TUNED]} is no dictionary of problems")
    by_problem = {item.name: _fields_of(item.attr, module) for item in ir.DictAttr(attributes[TUNED])}
    scheduled = [name for name, kernel in kernels.items() if _scheduler_of(kernel, emitters)]
    problems = {name: problem_of(alone) for name, alone in isolated(module, scheduled)}
    del attributes[TUNED]
    return {name: by_problem[problem] for name, problem in problems.items() if problem in by_problem}


def _choose_tuned(
    pass_: Pass, kernel: func.FuncOp, target: Any, tuned: Fields, chosen: Fields, scheduler: Scheduler
) -> Fields:
    """A schedule that was found to be faster, unless it does not fit any more: then what is chosen, with a warning."""
    try:
        found = scheduler.choose(kernel, target, tuned)
    except ParseError as error:
        _leave_out(pass_, kernel, error.message)
        return chosen
    kernel.attributes[UNTUNED] = dictionary(chosen)
    pass_.count("tuned schedules")
    return found


def _scheduler_of(kernel: func.FuncOp, emitters: Emitters) -> Scheduler | None:
    emitter = emitters.get(family_of(kernel).name)
    return emitter.scheduler if emitter else None


def _take_wishes(
    pass_: Pass, module: ir.Module, kernels: Mapping[str, func.FuncOp], emitters: Emitters
) -> dict[str, Fields]:
    """What the module says of schedules, by kernel."""
    attributes = module.operation.attributes
    if WISHES not in attributes:
        return {}
    if not isinstance(attributes[WISHES], ir.DictAttr):
        pass_.fail(module.operation, f"{WISHES} = {attributes[WISHES]} is no dictionary of kernels' names")
    items = list(ir.DictAttr(attributes[WISHES]))
    found = {item.name: _fields_of(item.attr, kernels.get(item.name, module)) for item in items}
    for name in found:
        _check_name(pass_, module, kernels, emitters, name)
    del attributes[WISHES]
    return found


def _check_name(
    pass_: Pass, module: ir.Module, kernels: Mapping[str, func.FuncOp], emitters: Emitters, name: str
) -> None:
    """There is a kernel of that name, and something to choose for it."""
    if name not in kernels:
        candidates = [each for each, kernel in kernels.items() if _scheduler_of(kernel, emitters)]
        advice = f"{suggestion(name, candidates)} There are: {', '.join(candidates) or 'none'}.".strip()
        pass_.fail(module.operation, f"schedules are given for '{name}', which is no kernel", advice=advice)
    if _scheduler_of(kernels[name], emitters) is None:
        family = family_of(kernels[name]).name
        message = f"kernel '{name}' has no schedule: there is one way to write kernels of the family '{family}'"
        pass_.fail(kernels[name], message)


def _fields_of(attribute: ir.Attribute, place: func.FuncOp | ir.Module) -> Fields:
    try:
        return read_fields(attribute)
    except ParseError as error:
        raise refused(place, error.message) from None

"""How the schedule of a kernel is written on it: `blu.schedule = {kind = "wgmma", rows = 128 : i64, split = 4 : i64}`.

A kind of schedule is a frozen dataclass whose fields are strings and positive integers (and 0, where it is the
default, or metadata say so). Whoever emits a kernel reads its schedule and never chooses: what is not in the attribute
is the field's default.

Two passes choose: one before bufferization, of what sizes decide, one after, of what strides do. Families of kernels in
which there is something to choose say how in the table of their target, as a `Scheduler`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, fields
from typing import Any, ClassVar

from blu.dataclass import dataclass
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.description import encoded
from blu.errors import ParseError, PassError, suggestion
from blu.passes.framework.families import SCHEDULE
from blu.passes.framework.kernels import TUNED, WISHES

Fields = Mapping[str, str | int]
LEAST = "least"
"""What the metadata of a field say if that may be 0, though it is not by default."""


@dataclass(frozen=True)
class Schedule:
    """Base of all kinds of schedules; `kind` is a kind's name."""

    kind: ClassVar[str] = ""

    def to_attribute(self) -> ir.DictAttr:
        """The dictionary that `read_fields` and `make` read back: the kind, and all fields."""
        return dictionary(self.fields)

    @property
    def fields(self) -> dict[str, str | int]:
        """The kind, and all fields."""
        return {"kind": self.kind, **asdict(self)}


def wish_for(module: ir.Module, schedules: Mapping[str, Fields]) -> None:
    """Write fields of the schedules of kernels on a module, for blu-choose-schedules."""
    with module.context:
        dictionaries = {name: dictionary(given) for name, given in schedules.items()}
        module.operation.attributes[WISHES] = ir.DictAttr.get(dictionaries)


def put_tuned(module: ir.Module, schedules: Mapping[str, Fields]) -> None:
    """Write on a module the schedules by which problems (isolate.py) were found to be solved faster, if any were."""
    if schedules:
        with module.context:
            dictionaries = {problem: dictionary(fields) for problem, fields in schedules.items()}
            module.operation.attributes[TUNED] = ir.DictAttr.get(dictionaries)


def dictionary(given: Fields) -> ir.DictAttr:
    """Fields as an attribute, which `read_fields` reads back."""
    return ir.DictAttr.get({name: encoded(value) for name, value in given.items()})


Kinds = Mapping[str, type[Schedule]]


def around(schedule: Fields) -> Iterator[dict[str, str | int]]:
    """The schedules in which one number is half of what it is, or twice as much."""
    for name, value in schedule.items():
        if isinstance(value, int) and value:
            for other in (2 * value, value // 2):
                if other:
                    yield {**schedule, name: other}


@dataclass(frozen=True)
class Scheduler:
    """How the kernels of a family on a target get their schedules.

    `choose` gives the fields that sizes decide, of a kernel on tensors: none where they decide nothing. `fit` gives the
    schedule of a kernel over buffers. Both get the fields that the kernel's schedule has already, which stay, and raise
    ParseError where these do not fit. `line` is the user's line that such an error names, if not the kernel's.
    `neighbours` are the schedules that a tuner tries beside one, whether they fit or not: the likeliest first.
    `expected` is what a kernel on tensors should take by a schedule, in whatever unit; 0 where that is not known. What
    is far above another need not be measured.
    """

    choose: Callable[[func.FuncOp, Any, Fields], Fields]
    fit: Callable[[func.FuncOp, Any, Fields], Schedule]
    line: Callable[[func.FuncOp], ir.Location] | None = None
    neighbours: Callable[[Fields], Iterable[Fields]] = around
    expected: Callable[[func.FuncOp, Any, Fields], float] = lambda kernel, target, schedule: 0.0


def table_of(*kinds: type[Schedule]) -> Kinds:
    """Kinds of schedules by name."""
    return {cls.kind: cls for cls in kinds}


def by_sizes(
    kinds: Kinds,
    choose: Callable[[func.FuncOp, Any], Schedule],
    excesses: Callable[[Schedule, func.FuncOp, Any], Iterator[str]],
    others: Callable[[func.FuncOp, Any], Fields] = lambda kernel, target: {},
) -> Scheduler:
    """The scheduler of a family of which sizes decide all.

    `excesses` says what a schedule asks for that there is not, of any but the one that is chosen. `others` are fields
    that go with kinds which are not chosen.
    """

    def fit(kernel: func.FuncOp, target: Any, given: Fields) -> Schedule:
        chosen = choose(kernel, target)
        schedule = make(kinds, {"kind": chosen.kind, **given}, {**others(kernel, target), **chosen.fields})
        if schedule != chosen and (message := next(excesses(schedule, kernel, target), "")):
            raise ParseError(message)
        return schedule

    return Scheduler(lambda kernel, target, given: fit(kernel, target, given).fields, fit)


def by_strides(
    kinds: Kinds,
    choose: Callable[[func.FuncOp, Any], Schedule],
    excesses: Callable[[Schedule, func.FuncOp, Any], Iterator[str]],
    others: Callable[[func.FuncOp, Any], Fields] = lambda kernel, target: {},
) -> Scheduler:
    """The same where strides decide all: before these are known, what is given is only kept."""

    def keep(kernel: func.FuncOp, target: Any, given: Fields) -> Fields:
        if given:
            check(kinds, given)
        return given

    return Scheduler(keep, by_sizes(kinds, choose, excesses, others).fit)


def read_fields(attribute: ir.Attribute) -> dict[str, str | int]:
    """What a dictionary says of a schedule. ParseError where it holds other things than strings and integers."""
    if not isinstance(attribute, ir.DictAttr):
        raise ParseError(f"{attribute} is no schedule, which is a dictionary")
    found = {}
    for item in attribute:
        if not isinstance(item.attr, ir.StringAttr | ir.IntegerAttr) or isinstance(item.attr, ir.BoolAttr):
            raise ParseError(f"'{item.name}' of a schedule is a number or a string, not {item.attr}")
        found[item.name] = item.attr.value
    return found


def make(kinds: Kinds, given: Fields, chosen: Fields) -> Schedule:
    """The schedule of the kind that is given, with the fields that are given, and those chosen that it has.

    ParseError says which kind or field there is none of, and which value does not fit its field.
    """
    check(kinds, given)
    kind = str(given["kind"])
    known = {item.name: item for item in fields(kinds[kind])}
    own = {name: value for name, value in given.items() if name != "kind"}
    values: dict[str, Any] = {**{name: value for name, value in chosen.items() if name in known}, **own}
    for name, item in known.items():
        if name not in values and item.default is MISSING:
            raise ParseError(f"a schedule of kind '{kind}' says its '{name}'")
    return kinds[kind](**values)


def check(kinds: Kinds, given: Fields) -> None:
    """ParseError says which kind or field there is none of, and which value does not fit its field."""
    if "kind" not in given:
        raise ParseError("a schedule says its 'kind'", advice=_one_of("", list(kinds)))
    kind = str(given["kind"])
    if kind not in kinds:
        raise ParseError(f"there is no kind of schedule '{kind}'", advice=_one_of(kind, list(kinds)))
    known = {item.name: item for item in fields(kinds[kind])}
    for name, value in given.items():
        if name == "kind":
            continue
        if name not in known:
            raise ParseError(f"a schedule of kind '{kind}' has no field '{name}'", advice=_one_of(name, list(known)))
        least = known[name].metadata.get(LEAST, 0 if known[name].default == 0 else 1)
        _check_value(name, value, str(known[name].type), least)


def _check_value(name: str, value: str | int, type_: str, least: int) -> None:
    if type(value).__name__ != type_:
        raise ParseError(f"'{name}' of a schedule is {'a number' if type_ == 'int' else 'a string'}, not {value!r}")
    if isinstance(value, int) and value < least:
        raise ParseError(f"'{name}' of a schedule is at least {least}, not {value}")


def _one_of(word: str, candidates: list[str]) -> str:
    return f"{suggestion(word, candidates)} There are: {', '.join(candidates) or 'none'}.".strip()


def schedule_of(kernel: func.FuncOp, kinds: Kinds) -> Schedule:
    """The schedule that is written on a kernel, with nothing chosen. PassError where there is none, or no such one."""
    if SCHEDULE not in kernel.attributes:
        raise missing(kernel)
    with said_of(kernel):
        return make(kinds, read_fields(kernel.attributes[SCHEDULE]), {})


def given_to(kernel: func.FuncOp) -> dict[str, str | int]:
    """The fields of the schedule that is written on a kernel, if any. PassError for what is none."""
    if SCHEDULE not in kernel.attributes:
        return {}
    with said_of(kernel):
        return read_fields(kernel.attributes[SCHEDULE])


def missing(kernel: func.FuncOp) -> PassError:
    """The error of a kernel without a schedule."""
    advice = (
        "blu-choose-schedules chooses it, before blu-bufferize, and blu-fit-schedules after that; on processors, "
        "blu-fit-cpu-schedules does."
    )
    return refused(kernel, f"kernel '{kernel.name.value}' has no {SCHEDULE}", advice)


@contextmanager
def said_of(kernel: func.FuncOp, line: ir.Location | None = None) -> Iterator[None]:
    """What a ParseError says, as a PassError of a kernel's schedule, at the user's line."""
    try:
        yield
    except ParseError as error:
        message = f"the schedule of kernel '{kernel.name.value}': {error.message}"
        raise refused(kernel, message, error.advice, line) from None


def refused(
    place: func.FuncOp | ir.Module, message: str, advice: str = "", line: ir.Location | None = None
) -> PassError:
    """The error at the line of a kernel, or at that one of the user's."""
    operation = place.operation
    location = describe(line or operation.location) or describe(operation.location)
    return PassError(message, location=location, advice=advice, operation=operation.name)

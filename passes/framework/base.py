"""What a pass is: a frozen dataclass whose fields are its options and whose docstring shows IR before and after.

    @dataclass(frozen=True)
    class DropNegations(Pass):
        \"\"\"Two negations cancel each other.

            %1 = "blu.negative"(%0)
            %2 = "blu.negative"(%1)      ->      (uses of %2 become uses of %0)
        \"\"\"

        level = "blu"
        max_count: int = 1000

        def run(self, module: ir.Module) -> None:
            for operation in find(module, "blu.negative"):
                ...

Defining the class registers it as `blu-drop-negations`; `blu-opt --blu-drop-negations=max-count=3` runs it.
A user's mistake that a pass meets is reported with `self.fail(operation, "what is wrong")`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, NoReturn

from blu.dataclass import dataclass, field
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import PassManager, ir
from blu.dialects.core.modules import operations_in
from blu.dialects.inside import inside
from blu.errors import ParseError, PassError
from blu.passes.framework import registry
from blu.passes.framework.options import format_options, parse_options

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Subclasses write `run`; `level` is the IR level a pass takes, `leads_to` the one it gives.

    The name is the class name in kebab case with `blu-` in front, unless `class X(Pass, name="...")` says otherwise.
    `abstract=True` defines a common base that is no pass of its own.
    """

    name: ClassVar[str] = ""
    level: ClassVar[str] = ""
    leads_to: ClassVar[str] = ""
    only_looks: ClassVar[bool] = False
    """Whether it leaves every module as it is, which need not be verified again then."""
    only_removes: ClassVar[bool] = False
    """Whether it leaves all ops as they are but those that it removes, which need not be verified again either."""

    def __init_subclass__(cls, *, name: str = "", abstract: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if abstract:
            return
        if not (cls.__dict__.get("__doc__") or "").strip():
            raise TypeError(f"pass {cls.__qualname__} needs a docstring that shows IR before and after")
        if cls.run is Pass.run:
            raise TypeError(f"pass {cls.__qualname__} needs a method run(self, module)")
        cls.name = name or "blu-" + _WORD_START.sub("-", cls.__name__).lower()
        registry.register(cls)

    def run(self, module: ir.Module) -> None:
        """Rewrite the module in place."""
        raise AssertionError("every pass has its own run")

    @classmethod
    def from_options(cls, text: str) -> Pass:
        """The pass with options read from text such as `max-count=3`."""
        return cls(**parse_options(cls, text))

    def __str__(self) -> str:
        return self.name + format_options(self)

    def fail(self, operation: ir.Operation | ir.OpView, message: str, *, advice: str = "") -> NoReturn:
        """Stop with an error at the user's location of `operation`."""
        operation = operation.operation
        raise PassError(message, location=describe(operation.location), advice=advice, operation=operation.name)

    def count(self, what: str, number: int = 1) -> None:
        """Add to a statistic of this run, shown by --mlir-pass-statistics and in the dump's manifest."""
        _watch.get().counts[what] += number

    def warn(self, message: str, category: type[Warning]) -> None:
        """Warn the user, once the pass has run."""
        _watch.get().warnings.append((message, category))

    def explain(self, lines: Iterable[str]) -> None:
        """Keep why this run did what it did, in lines shown by --explain-fusion and in the dump's manifest."""
        if (watch := _watch.get()) is not _NOBODY:
            watch.reasons.extend(lines)


@dataclass(frozen=True)
class MlirPass(Pass, abstract=True):
    """An upstream pass with its options, or a nested pipeline of them: `MlirPass("func.func(cse,canonicalize)")`."""

    text: str

    @property
    def name(self) -> str:  # type: ignore[override]
        """The pass's name; a nested pipeline's whole text."""
        return self.text if "(" in self.text else self.text.partition("{")[0].strip()

    def run(self, module: ir.Module) -> None:
        manager = self.parse(module.context)
        manager.enable_verifier(False)  # the driver verifies after each pass
        manager.run(module.operation)

    def parse(self, context: ir.Context) -> Any:
        """MLIR's pass manager for it. ParseError says what MLIR does not accept."""
        try:
            return PassManager.parse(f"builtin.module({self.text})", context=context)
        except ValueError as error:
            raise ParseError(f"MLIR does not accept '{self.text}': {_first_line(str(error))}") from None

    def __str__(self) -> str:
        return self.text


def _first_line(text: str) -> str:
    """The sentence of MLIR's message, without the position in a pipeline that the user did not write."""
    lines = [line for line in text.strip().splitlines() if line]
    return re.sub(r"^(.*Parser>?:(\d+:\d+: error:)? ?)", "", lines[0]) if lines else "no reason given"


@dataclass
class Watch:
    """What a running pass is at: the operation that `find` gave it last, its statistics, reasons and warnings."""

    operation: str = ""
    location: ir.Location | None = None
    counts: Counter[str] = field(default_factory=Counter)
    reasons: list[str] = field(default_factory=list)
    warnings: list[tuple[str, type[Warning]]] = field(default_factory=list)


_NOBODY = Watch()  # what passes count outside of a driver
_watch: ContextVar[Watch] = ContextVar("watch", default=_NOBODY)


@contextmanager
def watching() -> Iterator[Watch]:
    """Follow a pass: which operation it has reached, what it counts."""
    watch = Watch()
    with inside(_watch, watch):
        yield watch


def find(root: ir.Module | ir.Operation | ir.OpView, *kinds: str | type[ir.OpView]) -> Iterator[ir.OpView]:
    """Operations under `root` of the kinds given (names, "dialect.*", or op classes; all where none is given).

    In order of the text, nested operations after their parent. They are collected before the first is given,
    so the loop may replace and erase the operation that it holds (but not others that are still to come).
    """
    watch = _watch.get()
    for operation in _found(root.operation, kinds):
        watch.operation, watch.location = operation.name, operation.location
        yield operation.opview


# What holds code and cannot hold another of its kind: who looks for these need not look into them.
FUNCTIONS = frozenset({"func.func", "gpu.func", "llvm.func"})


def _found(root: ir.Operation, kinds: Sequence[str | type[ir.OpView]]) -> list[ir.Operation]:
    names = {kind if isinstance(kind, str) else kind.OPERATION_NAME for kind in kinds}
    prefixes = tuple(name[:-1] for name in names if name.endswith(".*"))
    if not names:
        return list(operations_in(root))
    operations = operations_in(root, FUNCTIONS if names <= FUNCTIONS else ())
    if not prefixes:
        return [item for item in operations if item.name in names]
    return [item for item in operations if item.name in names or item.name.startswith(prefixes)]


def replace(operation: ir.Operation | ir.OpView, values: Sequence[ir.Value]) -> None:
    """Let all uses of the operation's results use `values` instead, and erase the operation."""
    results = list(operation.operation.results)
    assert len(results) == len(values), f"{operation.operation.name} has {len(results)} results, not {len(values)}"
    for result, value in zip(results, values, strict=True):
        result.replace_all_uses_with(value)
    operation.operation.erase()

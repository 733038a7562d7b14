"""From what a pass raised to one PassError: which pass and level, on which operation, at which line of the user's."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from blu.compiler.driver.diagnostics import Diagnostic
from blu.compiler.pipelines import Step
from blu.dataclass import dataclass
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir
from blu.errors import BluError, PassError
from blu.frontend.tracing.user_location import line_of_the_user
from blu.passes.framework import registry
from blu.passes.framework.base import Watch

NOT_OURS = "if all of this IR comes from Blu's own passes, that is a defect of Blu: please report it"
_OPERATION = re.compile(r"'([a-z_]\w*\.[\w.]+)' op\b")


@dataclass(frozen=True)
class Failure:
    """A pass that raised, with what MLIR reported meanwhile and the operation that the pass was at.

    `is_after_run` says that the pass itself came to its end, and the IR it left was found wrong.
    """

    step: Step
    error: BaseException
    diagnostics: list[Diagnostic]
    watch: Watch
    is_after_run: bool = False
    module: ir.Module | None = None

    @property
    def is_said(self) -> bool:
        """Whether the pass itself says what is wrong with what it was given; else the IR has to be looked at."""
        return isinstance(self.error, BluError)

    @property
    def place(self) -> str | None:
        """Where the operation is that the pass was given last, else where the module is."""
        known = [self.watch.location] if self.watch.location is not None else []
        if self.module is not None:
            known += [item.operation.location for item in (self.module, *self.module.body.operations)]
        return next((place for place in map(describe, known) if place), None)


@dataclass(frozen=True)
class Cause:
    """What is known of the reason."""

    message: str
    location: str | None = None
    operation: str = ""
    advice: str = ""


def explain(failure: Failure) -> PassError:
    """The error that the user sees. The original exception is to be chained to it."""
    cause = _cause(failure)
    step = failure.step
    level = f" at level '{step.level}'" if step.level else ""
    operation = f" on '{cause.operation}'" if cause.operation and f"'{cause.operation}'" not in cause.message else ""
    verdict = "left IR that is wrong" if failure.is_after_run else "failed"
    return PassError(
        f"pass '{step.name}' {verdict}{level}{operation}: {cause.message}",
        location=cause.location or failure.place,
        advice=cause.advice,
        pass_name=step.name,
        level=step.level,
        operation=cause.operation,
        diagnostics=failure.diagnostics,
    )


def _cause(failure: Failure) -> Cause:
    error = failure.error
    if isinstance(error, BluError):
        return _at_operation(failure, error.message, error.location, error.advice, getattr(error, "operation", ""))
    if isinstance(error, ir.MLIRError):
        return _reported(failure)
    if isinstance(error, RuntimeError) and "has been invalidated" in str(error):
        message = f"op no longer valid, used at {_raised_at(error)}"
        return _at_operation(failure, message, advice="find operations anew in each pass: handles end with the pass")
    line = line_of_the_user(error)  # of a pass, a rule or a declaration of theirs
    said = f"{type(error).__name__}: {error} (raised at {Path(line).name if line else _raised_at(error)})"
    if line is None and registry.is_ours(type(failure.step.pass_)) and not failure.is_after_run:
        return _at_operation(failure, f"this is not what the pass before it leaves: {said}", advice=NOT_OURS)
    return _at_operation(failure, said)


def _at_operation(
    failure: Failure, message: str, location: str | None = None, advice: str = "", operation: str = ""
) -> Cause:
    """A cause that, where it knows no place itself, is placed at the operation that the pass was given last."""
    return Cause(message, location or failure.place, operation or failure.watch.operation, advice)


def _reported(failure: Failure) -> Cause:
    """The first error that MLIR reported."""
    errors = [item for item in failure.diagnostics if item.severity == "error"]
    if not errors:
        return Cause(str(failure.error))
    first = errors[0]
    named = _OPERATION.search(first.message)
    more = f" (and {len(errors) - 1} more errors)" if len(errors) > 1 else ""
    return Cause(first.message + more, str(first.place) or None, named[1] if named else "")


def _raised_at(error: BaseException) -> str:
    """`file.py:line` of the innermost Python frame."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "an unknown line"

"""What watches a run of passes: printing, dumps, progress."""

from __future__ import annotations

from dataclasses import replace

from blu.compiler.pipelines import Step
from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import ir


@dataclass(frozen=True)
class PassRun:
    """One pass that has run. `changed` is None where nobody asked (it costs printing the module)."""

    number: int
    name: str
    level: str
    seconds: float
    verify_seconds: float = 0.0
    statistics: dict[str, int] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    changed: bool | None = None

    def with_change(self, changed: bool) -> PassRun:
        """The same run, knowing whether it changed the module."""
        return replace(self, changed=changed)


class Observer:
    """Told before and after each pass; the module is only to be read."""

    def start(self, module: ir.Module) -> None:
        """The module as it comes in."""

    def before(self, step: Step, module: ir.Module) -> None:
        """A pass is about to run on `module`."""

    def after(self, step: Step, module: ir.Module, run: PassRun) -> None:
        """A pass has given `module`."""

    def failed(self, step: Step, module: ir.Module) -> None:
        """A pass has failed; `module` is what it was given."""

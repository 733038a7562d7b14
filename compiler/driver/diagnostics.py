"""MLIR's diagnostics as `file:line:col: error: ...`, collected instead of printed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.locations import SourcePlace, place_of
from blu.dialects.core.mlir import ir


@dataclass(frozen=True)
class Diagnostic:
    """One message of MLIR's with its notes. `severity` is error, warning, remark or note."""

    severity: str
    message: str
    place: SourcePlace
    notes: tuple[Diagnostic, ...] = ()

    def __str__(self) -> str:
        where = f"{self.place}: " if str(self.place) else ""
        return "\n".join([f"{where}{self.severity}: {self.message}", *map(str, self.notes)])


@contextmanager
def capture_diagnostics(context: ir.Context) -> Iterator[list[Diagnostic]]:
    """Collect everything that MLIR reports in `context` during the block, errors included, in order."""
    found: list[Diagnostic] = []

    def collect(diagnostic: ir.Diagnostic) -> bool:
        found.append(_convert(diagnostic))
        return True

    before = context.emit_error_diagnostics
    handler = context.attach_diagnostic_handler(collect)
    context.emit_error_diagnostics = True
    try:
        yield found
    finally:
        context.emit_error_diagnostics = before
        handler.detach()


def _convert(diagnostic: ir.Diagnostic) -> Diagnostic:
    severity = str(diagnostic.severity).rpartition(".")[2].lower()
    try:
        notes = tuple(map(_convert, diagnostic.notes))
        return Diagnostic(severity, diagnostic.message, place_of(diagnostic.location), notes)
    except (UnicodeDecodeError, RuntimeError):  # names from damaged bytecode; bindings cannot pass an exception on
        return Diagnostic(severity, "a name that is no UTF-8 text", SourcePlace())


def rename_file(diagnostic: Diagnostic, old: str, new: str) -> Diagnostic:
    """The diagnostic with the file name `old` (such as "-", text without a name) shown as `new`."""
    place = replace(diagnostic.place, file=new) if diagnostic.place.file == old else diagnostic.place
    return replace(diagnostic, place=place, notes=tuple(rename_file(note, old, new) for note in diagnostic.notes))

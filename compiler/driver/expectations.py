"""`--verify-diagnostics`: comments in IR that say which errors are expected, as `mlir-opt` reads them.

// expected-error@+1 {{gives f32[4], but the result is declared as f32[5]}}
%0 = "blu.add"(%a, %a) : ...
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from blu.compiler.driver.diagnostics import Diagnostic
from blu.dataclass import dataclass
from blu.errors import ParseError

_EXPECTED = re.compile(
    r"//.*?expected-(?P<severity>error|warning|remark|note)(?P<pattern>-re)?"
    r"(?:@(?P<where>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>(?:\{\{.*?\}\}|.)*?)\}\}"
)
_LOOKALIKE = re.compile(r"expected-(error|warning|remark|note)")


@dataclass
class Expectation:
    """One comment: a message of that severity, holding that text, on that line (0: without a location)."""

    severity: str
    line: int
    text: str
    is_pattern: bool
    written_at: int
    met: bool = False

    def fits(self, diagnostic: Diagnostic) -> bool:
        """Whether the diagnostic is the expected one."""
        if (self.severity, self.line) != (diagnostic.severity, diagnostic.place.line):
            return False
        return bool(self._regex().search(diagnostic.message))

    def _regex(self) -> re.Pattern[str]:
        """With -re, only the parts in double braces are patterns, as upstream has it."""
        if not self.is_pattern:
            return re.compile(re.escape(self.text))
        parts = enumerate(re.split(r"\{\{(.*?)\}\}", self.text))
        return re.compile("".join(part if index % 2 else re.escape(part) for index, part in parts))


def read_expectations(text: str, name: str) -> list[Expectation]:
    """All expectations in a text, in order."""
    found: list[Expectation] = []
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        matches = list(_EXPECTED.finditer(line))
        if not matches and _LOOKALIKE.search(line):
            raise ParseError("expected-...  needs a text in {{double braces}}", location=f"{name}:{number}:1")
        for match in matches:
            target = _target(lines, number, match["where"])
            found.append(Expectation(match["severity"], target, match["text"], bool(match["pattern"]), number))
    return found


def _target(lines: Sequence[str], number: int, where: str | None) -> int:
    """The line that an expectation on line `number` speaks of."""
    if where is None:
        return number
    if where == "unknown":
        return 0
    if where in ("above", "below"):
        step = -1 if where == "above" else 1
        target = number + step
        while 1 <= target <= len(lines) and _LOOKALIKE.search(lines[target - 1]):
            target += step
        return target
    return number + int(where)


def check_expectations(expected: list[Expectation], found: Sequence[Diagnostic], name: str) -> Iterator[str]:
    """A line for each diagnostic that was not expected and each expectation that was not met."""
    for diagnostic in _flatten(found):
        fitting = next((item for item in expected if item.fits(diagnostic) and not item.met), None)
        if fitting is not None:
            fitting.met = True
        elif diagnostic.severity != "note":
            yield f"{_place(diagnostic, name)}: error: unexpected {diagnostic.severity}: {diagnostic.message}"
    for item in expected:
        if not item.met:
            yield f'{name}:{item.written_at}:1: error: expected {item.severity} "{item.text}" was not produced'


def _flatten(diagnostics: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flatten(diagnostic.notes)


def _place(diagnostic: Diagnostic, name: str) -> str:
    return str(diagnostic.place) or name

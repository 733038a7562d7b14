"""Reading IR files: checked before MLIR sees them, whose parser recurses and ends the process on deep nesting."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from blu.compiler.driver.diagnostics import Diagnostic, capture_diagnostics, rename_file
from blu.compiler.driver.written_by import telling_who_wrote, version_in
from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.remembering import remembering
from blu.errors import ParseError

MAX_DEPTH = 500
MAX_BYTES = 1 << 31
MAX_DIGITS = 5_000
MAX_EXPANSION = 10_000_000
_BYTECODE = b"ML\xefR"
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|>=|[(\[{<]|[)\]}>]')
_SKIPPED = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_ALIAS = re.compile(r"^[ \t]*([#!][A-Za-z_][\w$.-]*)[ \t]*=", re.MULTILINE)
_LINE_TOKEN = re.compile(r"->|[(\[{<]|[)\]}>]|\n")
_LONG_RUN = re.compile(rf"(?:-\s*){{{MAX_DEPTH}}}|[0-9a-fA-F]{{{MAX_DIGITS}}}")
_REFERENCE = re.compile(r"[#!][A-Za-z_][\w$.-]*")


@dataclass(frozen=True)
class IrSource:
    """IR as read from a file: text, or MLIR bytecode. `name` is shown in messages."""

    name: str
    data: str | bytes
    path: Path | None = None


class MalformedError(ParseError):
    """IR that MLIR does not accept, with everything that MLIR said about it."""

    def __init__(self, diagnostics: list[Diagnostic], name: str):
        errors = [item for item in diagnostics if item.severity == "error"]
        first = errors[0] if errors else None
        self.diagnostics = diagnostics
        place = str(first.place) if first and first.place.line else name
        super().__init__(first.message if first else "MLIR does not accept this module", location=place)


def read_source(name: str) -> IrSource:
    """Read a file (or stdin, for "-"). ParseError says why it cannot be read."""
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise ParseError(f"cannot read {name}: {error.strerror}") from error
    shown = "<stdin>" if name == "-" else name
    if len(data) > MAX_BYTES:
        raise ParseError(f"{shown} has {len(data)} bytes; IR files are limited to {MAX_BYTES}")
    path = None if name == "-" else Path(name)
    if data.startswith(_BYTECODE):
        return IrSource(shown, data, path)
    try:
        return IrSource(shown, data.decode(), path)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ParseError(f"byte {data[error.start]:#x} is no UTF-8 text", location=f"{shown}:{line}:1") from None


def parse_source(source: IrSource, context: ir.Context) -> ir.Module:
    """The verified module of a source. MalformedError carries `file:line:col` and MLIR's diagnostics."""
    if isinstance(source.data, str):
        check_limits(source.data, source.name)
    with telling_who_wrote(source.name, version_in(source.data)), capture_diagnostics(context) as found:
        try:
            with remembering():
                module = _parsed(source, context)
                module.operation.verify()
        except ir.MLIRError:
            raise MalformedError([rename_file(item, "-", source.name) for item in found], source.name) from None
        except ValueError as error:
            raise ParseError(str(error), location=source.name) from None
    return module


def _parsed(source: IrSource, context: ir.Context) -> ir.Module:
    # Only a module read from a file by MLIR itself carries the file's name in its locations.
    if source.path is not None and source.path.is_file():
        return ir.Module.parseFile(str(source.path), context)
    return ir.Module.parse(source.data, context)


def check_limits(text: str, name: str) -> None:
    """Refuse text that nests deeper than MAX_DEPTH, by brackets or by aliases that refer to each other."""
    depth, deepest = 0, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "([{<":
            depth += 1
            deepest = max(deepest, depth)
            if depth > MAX_DEPTH:
                raise _too_deep(text, match.start(), name)
        elif token in ")]}>":
            depth = max(depth - 1, 0)
    if _ALIAS.search(text):
        _check_aliases(text, name)
    if _LONG_RUN.search(text):
        _check_runs(text, name)


def _check_runs(text: str, name: str) -> None:
    """Signs in a row nest like brackets, and reading a number takes time quadratic in its digits."""
    match = _LONG_RUN.search(_blanked(text))
    if match and match[0][0].isdigit():
        raise _at(text, match.start(), name, f"a number of more than {MAX_DIGITS} digits")
    if match:
        raise _too_deep(text, match.start(), name)


def _blanked(text: str) -> str:
    """The text with what is in strings, and comments, replaced by spaces. A string by itself defines an alias, too."""
    return _SKIPPED.sub(lambda match: _blank(match[0]), text)


def _blank(skipped: str) -> str:
    return f'"{" " * (len(skipped) - 2)}"' if skipped[0] == '"' else " " * len(skipped)


def _check_aliases(text: str, name: str) -> None:
    """Follow aliases of attributes, types and locations: each adds its own nesting to what it refers to."""
    found = list(_aliases(text))
    starts = {alias: start for alias, _, start in found}
    references = {alias: [item for item in mentioned if item in starts] for alias, mentioned, _ in found}
    extents: dict[str, tuple[int, int]] = {}
    for root in references:
        stack = [root]
        while stack:
            alias = stack[-1]
            waiting = next((item for item in references[alias] if item not in extents and item != alias), None)
            if waiting is not None and alias not in extents:
                stack.append(waiting)
            else:
                stack.pop()
                extents.setdefault(alias, _extent([extents.get(item, (0, 0)) for item in references[alias]]))
            depth, size = extents.get(alias, (0, 0))
            if max(len(stack), depth) > MAX_DEPTH:
                raise _too_deep(text, starts[alias], name)
            if size > MAX_EXPANSION:
                raise _at(text, starts[alias], name, f"aliases that expand to more than {MAX_EXPANSION} elements")


def _extent(parts: list[tuple[int, int]]) -> tuple[int, int]:
    """Depth and expanded size of a definition that mentions parts of these depths and sizes."""
    return 1 + max((depth for depth, _ in parts), default=0), 1 + sum(size for _, size in parts)


def _aliases(text: str) -> Iterator[tuple[str, list[str], int]]:
    """Each alias, the aliases that its definition mentions, and where it stands."""
    blank = _blanked(text)
    for match in _ALIAS.finditer(blank):
        definition = blank[match.end() : _definition_end(blank, match.end())]
        yield match[1], _REFERENCE.findall(definition), match.start(1)


def _definition_end(text: str, start: int) -> int:
    """The first end of line at which all brackets that were opened since `start` are closed."""
    depth = 0
    for match in _LINE_TOKEN.finditer(text, start):
        if match[0] == "\n" and depth <= 0 and text[start : match.start()].strip():
            return match.start()
        depth += 1 if match[0] in "([{<" else -1 if match[0] in ")]}>" else 0
    return len(text)


def _too_deep(text: str, position: int, name: str) -> ParseError:
    return _at(text, position, name, f"nesting deeper than {MAX_DEPTH}")


def _at(text: str, position: int, name: str, message: str) -> ParseError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return ParseError(message, location=f"{name}:{line}:{column}")

"""Pipeline text, as `--pass-pipeline` takes it: our passes and MLIR's, in any order.

    lower-to-linalg,blu-fuse{scalars-apart=true},canonicalize,func.func(cse,canonicalize{top-down=false})

MLIR's own parser knows no Python passes. Here, each element at the top is one pass to run on the module; an element
of MLIR's is given to MLIR with its options and nested elements untouched. All of it may stand in `builtin.module(...)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.errors import BluError, ParseError
from blu.passes.framework import registry
from blu.passes.framework.base import MlirPass, Pass
from blu.passes.framework.upstream import UPSTREAM_PASSES

MAX_DEPTH = 32
_NAME = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*")
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'[^']*'""", re.DOTALL)
_CLOSING = {"(": ")", "{": "}"}


@dataclass(frozen=True)
class Element:
    """One element as written: `name{options}` or `name(nested)`; `start` is its position in the text."""

    name: str
    options: str
    nested: str | None
    start: int
    text: str


def parse_pipeline(text: str) -> tuple[Pass, ...]:
    """The passes of a pipeline text. ParseError names the column, and for unknown passes the nearest names."""
    elements = split_elements(text)
    if len(elements) == 1 and elements[0].name == "builtin.module" and elements[0].nested is not None:
        return parse_pipeline(elements[0].nested)
    context = ir.Context()
    return tuple(_to_pass(element, text, context) for element in elements)


def format_pipeline(passes: Iterable[Pass]) -> str:
    """The text that `parse_pipeline` reads back."""
    return ",".join(map(str, passes))


def split_elements(text: str) -> list[Element]:
    """Split at the commas outside of braces, parentheses and quotes."""
    elements: list[Element] = []
    position = 0
    while text[position:].strip():
        element, position = _read_element(text, position)
        elements.append(element)
        rest = text[position:].lstrip()
        if rest and not rest.startswith(","):
            raise _error(text, position, "expected ',' between passes")
        position = len(text) - len(rest) + 1
        if rest.startswith(",") and not text[position:].strip():
            raise _error(text, position, "a pass is missing after the last ','")
    return elements


def _read_element(text: str, position: int) -> tuple[Element, int]:
    match = _NAME.match(text, position)
    if match is None:
        raise _error(text, position, "expected the name of a pass")
    start, end = match.start(1), match.end()
    options, nested = "", None
    if text[end : end + 1] == "{":
        close = _find_close(text, end)
        options, end = text[end + 1 : close], close + 1
    if text[end : end + 1] == "(":
        close = _find_close(text, end)
        nested, end = text[end + 1 : close], close + 1
    return Element(match[1], options, nested, start, text[start:end].strip()), end


def _find_close(text: str, start: int) -> int:
    """The position of the bracket that closes the one at `start`."""
    expected: list[str] = []
    position = start
    while position < len(text):
        quoted = _QUOTED.match(text, position)
        if quoted:
            position = quoted.end()
            continue
        character = text[position]
        if character in _CLOSING:
            expected.append(_CLOSING[character])
        elif character in ")}":
            if expected.pop() != character:
                raise _error(text, position, f"'{character}' closes nothing that is open here")
            if not expected:
                return position
        if len(expected) > MAX_DEPTH:
            raise _error(text, position, f"nesting deeper than {MAX_DEPTH}")
        position += 1
    raise _error(text, start, f"'{text[start]}' is never closed")


def _to_pass(element: Element, text: str, context: ir.Context) -> Pass:
    try:
        return make_pass(element, context)
    except BluError as error:
        raise _error(text, element.start, error.message, error.advice) from None


def make_pass(element: Element, context: ir.Context) -> Pass:
    """The pass of one element: ours by the registry, else MLIR's, which is asked whether it accepts the element."""
    # Asking the registry imports all passes of ours: not for a name that is known to be MLIR's.
    cls = None if element.name in UPSTREAM_PASSES else registry.lookup(element.name)
    if cls is not None and element.nested is not None:
        raise ParseError(f"'{element.name}' is a pass and nests no others")
    if cls is not None:
        return cls.from_options(element.options)
    upstream = MlirPass(element.text)
    try:
        upstream.parse(context)
    except ParseError as error:
        raise _explain(element, error, context) from None
    return upstream


def _explain(element: Element, error: ParseError, context: ir.Context) -> ParseError:
    """What is wrong with an element that neither we nor MLIR accept."""
    unknown = re.search(r"'([^']*)' does not refer to a registered pass", error.message)
    if unknown is None:
        return ParseError(error.message, advice=_upstream_advice(element, error, context))
    name = unknown[1].strip()
    if registry.lookup(name) is not None:
        return ParseError(f"'{name}' runs on the module and cannot stand inside of '{element.name}(...)'")
    return unknown_pass(name)


def unknown_pass(name: str) -> ParseError:
    """The error for a name that is no pass, with the nearest names."""
    guess = registry.nearest(name, [*registry.all_passes(), *UPSTREAM_PASSES])
    return ParseError(f"there is no pass '{name}'", advice=guess or "blu-opt --list-passes lists them")


def _upstream_advice(element: Element, error: ParseError, context: ir.Context) -> str:
    if "restricted to" in error.message or "can't run" in error.message or "unable to schedule" in error.message:
        return f"write func.func({element.text})"
    try:
        accepted = str(MlirPass(element.name).parse(context))
    except ParseError:
        return ""
    options = accepted.partition("{")[2].rpartition("}")[0].split()
    return "its options, with their defaults: " + " ".join(options) if options else "it has no options"


def _error(text: str, position: int, message: str, advice: str = "") -> ParseError:
    return ParseError(f"pipeline, column {position + 1}: {message}", advice=advice)

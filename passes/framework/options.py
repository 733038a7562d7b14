"""Options of a pass: its dataclass fields, read from and written as `{max-ops=4 rows=true tile=8,16}`."""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
import typing
from collections.abc import Callable
from typing import Any

from blu.dataclass import dataclass
from blu.errors import ParseError

_ITEM = re.compile(r"""\s*([\w-]+)(?:=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s"'{}]*))?(?=\s|$)""", re.DOTALL)
_PLAIN = re.compile(r"[^\s\"'{}()=]+")


@dataclass(frozen=True)
class OptionKind:
    """How one Python type is read from option text and written to it."""

    name: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]


def _read_bool(text: str) -> bool:
    return {"true": True, "1": True, "": True, "false": False, "0": False}[text.lower()]


def _write_str(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else json.dumps(value)


_KINDS: dict[Any, OptionKind] = {
    int: OptionKind("int", lambda text: int(text, 0), str),
    float: OptionKind("float", float, repr),
    bool: OptionKind("bool", _read_bool, lambda value: "true" if value else "false"),
    str: OptionKind("str", str, _write_str),
    tuple[int, ...]: OptionKind(
        "int,int,...",
        lambda text: tuple(int(item, 0) for item in text.split(",") if item),
        lambda value: ",".join(map(str, value)),
    ),
}


@dataclass(frozen=True)
class Option:
    """One option of a pass: `name` as on the command line, `field` as in Python."""

    name: str
    field: str
    kind: OptionKind
    default: Any

    def __str__(self) -> str:
        return f"{self.name}=<{self.kind.name}> (default {self.kind.write(self.default) or 'empty'})"


def options_of(cls: type) -> tuple[Option, ...]:
    """The options that the class declares as dataclass fields; a field that cannot be an option is a TypeError."""
    hints = typing.get_type_hints(cls)
    declared = {field.name for field in dataclasses.fields(cls)}
    forgotten = [name for name, hint in hints.items() if name not in declared and not _is_class_variable(hint)]
    if forgotten:
        raise TypeError(f"{cls.__qualname__} has the field {forgotten[0]!r}: decorate it with @dataclass(frozen=True)")
    return tuple(_option(cls, field, hints[field.name]) for field in dataclasses.fields(cls))


def _is_class_variable(hint: Any) -> bool:
    return typing.get_origin(hint) is typing.ClassVar or hint is typing.ClassVar


def _option(cls: type, field: dataclasses.Field, hint: Any) -> Option:
    where = f"{cls.__qualname__}.{field.name}"
    if hint not in _KINDS:
        kinds = ", ".join(str(getattr(kind, "__name__", kind)) for kind in _KINDS)
        raise TypeError(f"{where}: an option is one of {kinds}, not {hint}")
    if field.default is dataclasses.MISSING:
        raise TypeError(f"{where}: an option needs a default value")
    return Option(field.name.replace("_", "-"), field.name, _KINDS[hint], field.default)


def parse_options(cls: type, text: str) -> dict[str, Any]:
    """Python values by field name from the text between the braces. ParseError lists the options there are."""
    options = {option.name: option for option in options_of(cls)}
    values: dict[str, Any] = {}
    for name, raw in _items(cls, text):
        option = options.get(name.replace("_", "-"))
        if option is None:
            raise ParseError(f"pass '{_name(cls)}' has no option '{name}'", advice=_advice(options, name))
        if option.field in values:
            raise ParseError(f"pass '{_name(cls)}': option '{option.name}' is given twice")
        values[option.field] = _read(cls, option, raw)
    return values


def _items(cls: type, text: str) -> list[tuple[str, str]]:
    found, position, text = [], 0, text.strip()
    while position < len(text):
        match = _ITEM.match(text, position)
        if match is None:
            raise ParseError(
                f"pass '{_name(cls)}': cannot read the options {text[position:].strip()!r}",
                advice="write key=value pairs separated by spaces; quote values that hold spaces or braces",
            )
        found.append((match[1], match[2]))
        position = match.end()
    return found


def _read(cls: type, option: Option, raw: str | None) -> Any:
    if raw is None and option.kind.name != "bool":
        raise ParseError(f"pass '{_name(cls)}': option '{option.name}' needs a value: {option}")
    try:
        return option.kind.read(_unquote(raw or ""))
    except (ValueError, KeyError):
        message = f"pass '{_name(cls)}': {raw} is no value for the option '{option.name}'"
        raise ParseError(message, advice=f"write {option}") from None


def _unquote(raw: str) -> str:
    if raw.startswith('"'):
        return json.loads(raw, strict=False)
    return raw[1:-1] if raw.startswith("'") else raw


def _advice(options: dict[str, Option], name: str) -> str:
    if not options:
        return "it has no options"
    near = difflib.get_close_matches(name, options, 1)
    guess = f"did you mean '{near[0]}'? " if near else ""
    return guess + "its options: " + "; ".join(map(str, options.values()))


def _name(cls: type) -> str:
    return getattr(cls, "name", cls.__qualname__)


def format_options(instance: Any) -> str:
    """`{max-ops=4}` with the options that differ from their defaults, or nothing."""
    changed = [(option, getattr(instance, option.field)) for option in options_of(type(instance))]
    items = [f"{option.name}={option.kind.write(value)}" for option, value in changed if value != option.default]
    return "{" + " ".join(items) + "}" if items else ""

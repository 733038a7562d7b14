"""The reference of all public names, written from their docstrings: docs/reference.md."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import blu
from blu.dialects.tensor.tensor import METHODS

HEADER = """# Reference

All public names, with what their docstrings say, written by `pytest tests/frontend/test_face.py --update-golden`.
Functions of arrays that [methods](#methods) lists are methods of arrays and tensors as well. The array-API standard's
functions that `blu` has, too, are said there once; the [settings](settings.md) have a document of their own.

What docstrings say of errors comes on top of what holds for all functions: ShapeError for axes that are not there and
shapes that do not broadcast, DTypeError for what is no tensor, number or dtype and for dtypes that an operation is not
defined for, ArgumentError for an argument that is not what its parameter takes. Each is told with the user's file and
line, under the name of the function that was called.
"""
# In documents of their own.
_ELSEWHERE = {"settings"}


def reference() -> str:
    """The text of the document."""
    modules = [(f"blu.{name}", getattr(blu, name)) for name in sorted({*blu._MODULES} - _ELSEWHERE)]
    own = sorted({*dir(blu)} - {*blu._MODULES, "__version__"})
    chapters = [_chapter("blu", {name: getattr(blu, name) for name in own})]
    chapters += [_chapter(name, _public(module), inspect.getdoc(module) or "") for name, module in modules]
    errors = {name: item for name, item in _public(importlib.import_module("blu.errors")).items() if _is_error(item)}
    names = ", ".join(f"`{name}`" for name in sorted(METHODS) if not name.startswith("_"))
    return "\n".join([HEADER, *chapters, _chapter("blu.errors", errors), f"## Methods\n\n{names}\n"])


def _is_error(item: Any) -> bool:
    return inspect.isclass(item) and issubclass(item, Exception)


def _public(module: ModuleType) -> dict[str, Any]:
    """What a module says is public, or else the functions and classes that are its own."""
    names = getattr(module, "__all__", None)
    if names is None:
        found = {name: item for name, item in vars(module).items() if not name.startswith("_")}
        return {name: item for name, item in found.items() if _is_from(item, module.__name__)}
    return {name: getattr(module, name) for name in names}


def _is_from(item: Any, package: str) -> bool:
    home = getattr(item, "__module__", None) or ""
    return callable(item) and (home == package or home.startswith(f"{package}."))


def _chapter(title: str, items: dict[str, Any], introduction: str = "") -> str:
    entries = [_entry(f"{title}.{name}", items[name]) for name in sorted(items, key=str.lower)]
    return "\n".join([f"## {title}\n", *([introduction, ""] if introduction else []), *entries])


def _entry(name: str, item: Any) -> str:
    if not callable(item):
        return f"### {name}\n\n{_value(item)}\n"
    text = inspect.getdoc(item) or ""
    lines = [f"### {name}\n", f"`{name.rpartition('.')[2]}{_signature(item)}`\n", text, ""]
    return "\n".join(lines + (_methods(item) if inspect.isclass(item) else []))


def _value(item: Any) -> str:
    if isinstance(item, ModuleType):
        return inspect.getdoc(item) or ""
    return f"A {type(item).__name__}."


def _methods(kind: type) -> list[str]:
    """The methods and properties that a class has itself, with the first line of what they say."""
    found = [f"- `{name}`: {text.splitlines()[0]}" for name, text in _documented(kind)]
    return [*found, ""] if found else []


def _documented(kind: type) -> Iterator[tuple[str, str]]:
    for name, item in sorted(vars(kind).items()):
        function = item.__func__ if isinstance(item, classmethod | staticmethod) else item
        is_method = isinstance(function, property) or getattr(function, "__qualname__", "").startswith(kind.__name__)
        text = inspect.getdoc(function) if is_method and not name.startswith("_") else None
        if text and not inspect.isclass(function):
            yield f"{name}{_signature(function) if inspect.isfunction(function) else ''}", text


def _signature(item: Any) -> str:
    """The parameters, without annotations, which docstrings explain."""
    if _is_error(item):
        return "(message)"
    try:
        parameters = inspect.signature(item).parameters.values()
    except (TypeError, ValueError):
        return "(...)"
    plain = [
        each.replace(annotation=inspect.Parameter.empty) for each in parameters if each.name not in ("self", "cls")
    ]
    text = str(inspect.Signature(plain))
    return re.sub(r"<(?:function|class|factory) ?'?([\w.<>]*)'?(?: at 0x\w+)?>", r"\1", text)

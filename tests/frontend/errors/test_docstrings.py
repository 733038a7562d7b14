"""What docstrings of public functions say of errors: each that a function's own module raises is named."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import blu
import blu.errors
from blu.errors import BluError

ERRORS = {name for name, item in vars(blu.errors).items() if inspect.isclass(item) and issubclass(item, BluError)}
# By the names of classes that these are as well.
ALIASES = {"OutOfRangeError": "IndexError"}
# What a function cannot raise, although one that it calls can.
UNREACHED = {"median": {"ArgumentError"}, "nanmedian": {"ArgumentError"}}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All public functions, by their names."""
    for name in dir(blu):
        if inspect.isfunction(item := getattr(blu, name)):
            yield f"blu.{name}", item
    for chapter in sorted(blu._MODULES):
        module = getattr(blu, chapter)
        for name in getattr(module, "__all__", None) or [found for found in vars(module) if not found.startswith("_")]:
            item = getattr(module, name)
            if inspect.isfunction(item) and item.__module__.startswith("blu"):
                yield f"blu.{chapter}.{name}", item


@cache
def functions_in(module: ModuleType) -> dict[str, tuple[set[str], set[str]]]:
    """Of each function of a module, by name: the errors that it raises, and the functions that it calls."""
    tree = ast.parse(inspect.getsource(module))
    return {node.name: (_raised(node), _called(node)) for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def _raised(function: ast.FunctionDef) -> set[str]:
    calls = (node.exc for node in ast.walk(function) if isinstance(node, ast.Raise))
    return {call.func.id for call in calls if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)} & ERRORS


def _called(function: ast.FunctionDef) -> set[str]:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {called.id for called in calls if isinstance(called, ast.Name)}


def errors_of(function: Callable[..., Any]) -> set[str]:
    """What a function raises, with the private functions of its module that it calls."""
    plain = inspect.unwrap(function)
    module, name = sys.modules[plain.__module__], plain.__code__.co_name
    known, public = functions_in(module), set(getattr(module, "__all__", ()))
    found: set[str] = set()
    seen, waiting = set(public) - {name}, [name]
    while waiting:
        if (one := waiting.pop()) in seen or one not in known:
            continue
        seen.add(one)
        raised, called = known[one]
        found |= raised
        waiting.extend(called)
    return found


def test_docstrings_name_the_errors_that_functions_raise() -> None:
    missing = []
    for name, function in public_functions():
        text = inspect.getdoc(function) or ""
        wanted = errors_of(function) - UNREACHED.get(name.rpartition(".")[2], set())
        lacking = sorted(each for each in wanted if each not in text and ALIASES.get(each, each) not in text)
        missing += [f"{name} raises {', '.join(lacking)}"] if lacking else []
    assert not missing, "\n".join(missing)


def test_what_is_looked_at_is_what_there_is() -> None:
    assert errors_of(blu.median) == {"ArgumentError", "ShapeError"}
    assert errors_of(blu.stack) == {"ShapeError"} and not errors_of(blu.exp)
    assert len(list(public_functions())) > 500

"""FILE.py::FUNCTION: load a user's file, and trace one of its functions with the arguments that the file describes."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.subjects.subject import FunctionSubject
from blu.compiler.jit import Jitted, Traced, jit
from blu.errors import ArgumentError, BluError, suggestion
from blu.frontend.tracing.spec import Spec

EXAMPLE = "_example"


def trace_function(subject: FunctionSubject) -> Traced:
    """Trace the function, jitted by its author or not."""
    module = load_file(subject.path)
    function = getattr(module, subject.function, None)
    if not callable(function):
        names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        advice = suggestion(subject.function, names) or f"it has {', '.join(names) or 'no functions'}"
        raise UsageError(f"{subject.path} has no function {subject.function!r}", advice=advice)
    jitted = function if isinstance(function, Jitted) else jit(function)
    arguments, keywords = _example(module, subject, jitted.function)
    try:
        return jitted.trace(*arguments, **keywords)
    except BluError:
        raise
    except Exception as error:
        raise BluError(f"{subject.path}::{subject.function} fails: {type(error).__name__}: {error}") from error


def load_file(path: Path) -> ModuleType:
    """Run a Python file as a module, with its folder on the path, as `python FILE` does."""
    name = f"blu_user_{path.stem}"
    sys.path.insert(0, str(path.parent.resolve()))
    loader = importlib.machinery.SourceFileLoader(name, str(path.resolve()))
    spec = importlib.util.spec_from_loader(name, loader)
    assert spec is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BluError:
        raise
    except Exception as error:
        raise BluError(f"{path} fails on import: {type(error).__name__}: {error}") from error
    return module


def _example(
    module: ModuleType, subject: FunctionSubject, function: Callable[..., Any]
) -> tuple[tuple, dict[str, Any]]:
    """The arguments to trace with: what NAME_example() returns, else specs in annotations and defaults."""
    make = getattr(module, subject.function + EXAMPLE, None)
    if make is not None:
        found = make()
        return found if isinstance(found, tuple) else (found,), {}
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    given = {item.name: item.annotation for item in parameters if isinstance(item.annotation, Spec)}
    missing = [item.name for item in parameters if item.name not in given and item.default is item.empty]
    if missing:
        raise ArgumentError(
            f"{subject.path}::{subject.function}: nothing says what shape {', '.join(missing)} has",
            advice=(
                f'Annotate it, {missing[0]}: blu.spec((8, 16), "f32"), or write a function '
                f"{subject.function}{EXAMPLE}() that returns a tuple of arguments."
            ),
        )
    return (), given

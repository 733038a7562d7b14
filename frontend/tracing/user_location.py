"""Where in the user's program the op that is being traced was written."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

from blu.dialects.core.locations import user_location as make_location
from blu.dialects.core.mlir import ir
from blu.frontend.tracing.module_path import current_module_path


def _folder(package: str) -> str:
    """Where a package lies, found without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return os.path.abspath(spec.submodule_search_locations[0]) + os.sep


_HOUSE = tuple(map(_folder, ("blu", "blu.frontend", "blu.dialects", "blu.passes", "blu.compiler", "blu.runtime")))
_LIBRARY = _folder("blu.frontend.nn")
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
# Frames of this function end the search: what called it is Blu, not the user's model.
BOUNDARY = "run_traced_function"


@lru_cache(maxsize=4096)
def _kind(file: str) -> str:
    """ "library" for Blu's own models, "blu" for the rest of Blu, "python" for its library, "user" for all else."""
    path = os.path.abspath(file)
    if path.startswith(_LIBRARY):
        return "library"
    if path.startswith(_STANDARD) and "-packages" not in path:
        return "python"
    return "blu" if path.startswith(_HOUSE) else "user"


def user_frame() -> FrameType | None:
    """The innermost frame of the user's model; where there is none, the innermost of a model that Blu ships."""
    frame: FrameType | None = sys._getframe(1)
    library = None
    while frame is not None and frame.f_code.co_name != BOUNDARY:
        kind = _kind(frame.f_code.co_filename)
        if kind == "user":
            return frame
        if kind == "library" and library is None:
            library = frame
        frame = frame.f_back
    return library


def user_location() -> ir.Location:
    """The MLIR location of the user's line, with the path of the running module."""
    frame = user_frame()
    if frame is None:
        return ir.Location.unknown()
    return make_location(frame.f_code.co_filename, frame.f_lineno, current_module_path.get())


def definition_location(function: Callable[..., Any]) -> ir.Location:
    """Where a function of the user's is defined; unknown for Blu's own."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or _kind(code.co_filename) == "blu":
        return ir.Location.unknown()
    return make_location(code.co_filename, code.co_firstlineno)


def user_line() -> str | None:
    """The user's `file:line`, for errors."""
    frame = user_frame()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else None


def line_of_the_user(error: BaseException) -> str | None:
    """The user's `file:line`, innermost of those that an error went through; None where it was in Blu alone."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(error.__traceback__)]
    return next((f"{file}:{line}" for file, line in reversed(frames) if _kind(file) == "user"), None)


def user_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without Blu's own frames, which say nothing about a user's mistake."""
    entries = []
    while traceback is not None:
        if _kind(traceback.tb_frame.f_code.co_filename) in ("user", "library"):
            entries.append(traceback)
        traceback = traceback.tb_next
    shown = None
    for entry in reversed(entries):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown

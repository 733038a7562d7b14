"""Where in the user's program the op that is being traced was written."""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

from blu.dialects.core.locations import called_as
from blu.dialects.core.locations import user_location as make_location
from blu.dialects.core.mlir import ir
from blu.dialects.tensor.function import CALLS
from blu.frontend.tracing.module_path import current_module_path


def _folder(package: str) -> str:
    """Where a package lies, found without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations
    return os.path.abspath(spec.submodule_search_locations[0]) + os.sep


_HOUSE = tuple(map(_folder, ("blu", "blu.frontend", "blu.dialects", "blu.passes", "blu.compiler", "blu.runtime")))
_LIBRARY = _folder("blu.frontend.nn")
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep
_NUMPY = _folder("numpy")
# Frames of this function end the search: what called it is Blu, not the user's model.
BOUNDARY = "run_traced_function"


@lru_cache(maxsize=4096)
def _kind(file: str) -> str:
    """ "library" for Blu's models, "blu" for its other files, "python" for its library and NumPy, else "user"."""
    path = os.path.abspath(file)
    if path.startswith(_LIBRARY):
        return "library"
    if path.startswith(_NUMPY) or (path.startswith(_STANDARD) and "-packages" not in path):
        return "python"
    return "blu" if path.startswith(_HOUSE) else "user"


def user_frame() -> FrameType | None:
    """The innermost frame of the user's model; where there is none, the innermost of a model that Blu ships."""
    library = None
    for frame in _frames():
        kind = _kind(frame.f_code.co_filename)
        if kind == "user":
            return frame
        if kind == "library" and library is None:
            library = frame
    return library


def _frames() -> Iterator[FrameType]:
    """From our caller's caller out, up to what called the function that is traced."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name != BOUNDARY:
        yield frame
        frame = frame.f_back


def called_function() -> str | None:
    """The public function that the innermost frame of the user's calls, or one of a model that Blu ships."""
    called = _call(_frames())
    return called.f_locals["function"].__name__ if called else None


def _call(frames: Iterable[FrameType]) -> FrameType | None:
    """The frame of the public function that is called by the user's innermost among frames."""
    called = None
    for frame in frames:
        if _kind(frame.f_code.co_filename) in ("user", "library"):
            break
        called = frame if frame.f_code in CALLS else called
    return called


def is_told_by(error: BaseException, call: FrameType) -> bool:
    """Whether an error that Python raised in a call of a public function is the function's to tell: the user called it,
    and nothing that it called in turn is the user's."""
    inside = [_kind(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
    return "user" not in inside and _call(_frames()) is call


def user_location(checked: str = "") -> ir.Location:
    """The MLIR location of the user's line, with the path of the running module.

    That of an op whose values are `checked` when it runs tells the function that was called, if it has another name.
    """
    frame = user_frame()
    place = ir.Location.unknown()
    if frame is not None:
        place = make_location(frame.f_code.co_filename, frame.f_lineno, current_module_path.get())
    called = called_function() if checked else None
    return called_as(called, place) if called and called != checked else place


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

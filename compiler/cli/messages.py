"""How commands say what went wrong: `file:line:col: error: ...` with the line, advice, and a user's own traceback."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import blu.installed as installed
from blu.errors import BluError, ParseError

# The files of ours that call code of the user's: a traceback is shown from there on.
_ROOT = Path(__file__).parents[2]
_DRIVER = _ROOT / "compiler/driver/driver.py"
_CALLERS = (_DRIVER, _ROOT / "passes/framework/registry.py", _ROOT / "compiler/cli/subjects/example_function.py")

_OURS = tuple(_ROOT / folder for folder in ("compiler", "dialects", "frontend", "passes", "runtime"))


class UsageError(BluError):
    """The command line asks for something that does not exist or does not go together: exit code 2."""


def print_error(error: BluError, program: str, source: str = "", name: str = "") -> None:
    """Write an error to stderr. `source` is the text that was read and `name` its file, to show the line at fault."""
    location = _shown(error.location, name)
    sys.stderr.write(f"{location or program}: error: {error.message}\n{_excerpt(location, source, name)}")
    for line in filter(None, error.advice.splitlines()):
        sys.stderr.write(f"  {line.strip()}\n")
    for diagnostic in getattr(error, "diagnostics", ())[:20]:
        for note in diagnostic.notes:
            sys.stderr.write(_shortened(str(note)) + "\n")
    sys.stderr.write(_user_traceback(error.__cause__))


def _shown(location: str | None, name: str) -> str:
    """Text that MLIR parsed without knowing its file has the locations "-:line:col"."""
    location = location or ""
    return name + location[1:] if location.startswith("-:") and name else location


def _excerpt(location: str, source: str, name: str) -> str:
    """The source line and a caret, where the location is in the text that was read."""
    parts = location.removeprefix(f"{name}:").split(" ")[0].split(":")
    if not location.startswith(f"{name}:") or not source or not all(part.isdigit() for part in parts):
        return ""
    line, column = int(parts[0]), int(parts[1]) if len(parts) > 1 else 0
    lines = source.splitlines()
    if not 1 <= line <= len(lines) or len(lines[line - 1]) > 400:
        return ""
    caret = " " * (column - 1) + "^\n" if column else ""
    return f"{lines[line - 1]}\n{caret}"


def _shortened(text: str, limit: int = 12) -> str:
    lines = text.splitlines()
    return "\n".join(lines if len(lines) <= limit else [*lines[:limit], f"... ({len(lines) - limit} more lines)"])


def _user_traceback(cause: BaseException | None) -> str:
    """The traceback of a Python exception in code of the user's (a pass, a model), from there on; "" for ours."""
    if cause is None or isinstance(cause, BluError) or type(cause).__name__ == "MLIRError":
        return ""
    frames = traceback.extract_tb(cause.__traceback__)
    ours = [index for index, frame in enumerate(frames) if Path(frame.filename) in _CALLERS]
    if not ours:
        return ""
    shown = [frame for frame in frames[ours[-1] + 1 :] if not frame.filename.startswith("<frozen")]
    is_pass = Path(frames[ours[-1]].filename) == _DRIVER
    if is_pass and shown and any(Path(shown[0].filename).is_relative_to(folder) for folder in _OURS):
        return ""  # a pass of ours: the message says where
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(shown)]
    return "".join(lines + traceback.format_exception_only(cause))


def version_line(program: str) -> str:
    """What `--version` prints."""
    return f"{program} {installed.version_of('blu')}"


def as_usage(error: ParseError) -> UsageError:
    """A mistake in what was asked for, in place of one in a file."""
    usage = UsageError(error.message, location=error.location, advice=error.advice)
    usage.__cause__ = error.__cause__
    return usage

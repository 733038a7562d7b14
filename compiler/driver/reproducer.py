"""Reproducers: what a failing pass was given, with the pipeline that is left, as one file that `--replay` runs.

// Blu reproducer: blu-opt --replay THIS_FILE
// error: pass 'blu-fuse' failed at level 'linalg': ...
// versions: blu 0.1.0, torch-mlir 20261001, Python 3.11.9
// load-pass: /home/me/my_pass.py
// pipeline: blu-fuse{max-ops=4},canonicalize
module { ... }
"""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Iterable
from pathlib import Path

import blu.installed as installed
from blu.compiler.driver.file_names import file_name
from blu.dataclass import dataclass
from blu.errors import ParseError, PassError

_FIRST_LINE = "// Blu reproducer"


@dataclass(frozen=True)
class Reproducer:
    """The header of a reproducer file."""

    pipeline: str
    error: str = ""
    load_pass: tuple[str, ...] = ()
    versions: str = ""

    def header(self) -> str:
        """The comment lines that stand before the module."""
        plugins = "".join(f" --load-pass {path}" for path in self.load_pass)
        lines = [f"{_FIRST_LINE}: blu-opt --replay THIS_FILE{plugins}", f"// error: {_one_line(self.error)}"]
        lines += [f"// versions: {self.versions or versions()}"]
        lines += [f"// load-pass: {path}" for path in self.load_pass]
        return "\n".join([*lines, f"// pipeline: {_one_line(self.pipeline)}", ""])


def _one_line(text: str) -> str:
    return " ".join(text.split("\n"))


def versions() -> str:
    """The versions that matter when a failure is to be seen again."""
    names = ("blu", "torch-mlir", "llvmlite")
    found = [f"{name} {installed.version_of(name) or '(not installed as a package)'}" for name in names]
    return ", ".join([*found, f"Python {platform.python_version()}"])


def read_reproducer(text: str, name: str) -> Reproducer:
    """The header of a reproducer's text. ParseError where it is none."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith(_FIRST_LINE):
        raise ParseError(f"{name} is no reproducer", advice="a failing pass says where it has written one")
    header = [line[3:].partition(": ") for line in lines[1:20] if line.startswith("// ")]
    values = {key: value for key, _, value in header}
    if "pipeline" not in values:
        raise ParseError(f"the reproducer {name} has no line '// pipeline: ...'")
    plugins = tuple(value for key, _, value in header if key == "load-pass")
    return Reproducer(values["pipeline"], values.get("error", ""), plugins, values.get("versions", ""))


def attach_reproducer(
    error: PassError, text: str, stem: str, directory: Path | None, command: str = "blu-opt --replay"
) -> PassError:
    """Save a reproducer's text; the same error with the file, and the command that runs it, in its advice."""
    try:
        path = _folder(directory) / f"{file_name(stem)}.mlir"
        path.write_text(text)
    except OSError as problem:
        return _with_advice(error, None, f"no reproducer could be written: {problem}")
    return _with_advice(error, str(path), f"reproducer: {path} ({command} runs it)")


def _folder(directory: Path | None) -> Path:
    if directory is None:
        return Path(tempfile.mkdtemp(prefix=f"blu-reproducer-{_user()}-"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _user() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "user"


def _with_advice(error: PassError, reproducer: str | None, line: str) -> PassError:
    return PassError(
        error.message,
        location=error.location,
        advice="\n  ".join(_filled([error.advice, line])),
        pass_name=error.pass_name,
        level=error.level,
        operation=error.operation,
        reproducer=reproducer,
        diagnostics=error.diagnostics,
    )


def _filled(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if line]

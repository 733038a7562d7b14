"""The passes there are: ours, those of plugin files (`--load-pass`), and those that installed packages offer."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.machinery
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import blu.installed as installed
from blu.dataclass import dataclass, field
from blu.errors import ParseError
from blu.passes.framework.options import options_of

if TYPE_CHECKING:
    from blu.passes.framework.base import Pass

ENTRY_POINTS = "blu.passes"
_OURS = "all modules of blu.passes"
PassClass = TypeVar("PassClass", bound="type[Pass]")

_passes: dict[str, type[Pass]] = {}
_placements: dict[str, Placement] = {}
_files: dict[str, Path] = {}


@dataclass(frozen=True)
class Placement:
    """Where a plugin's pass goes in a pipeline: right after or right before each pass of a name.

    `location` is the `file:line` that says so.
    """

    pass_class: type[Pass]
    anchor: str
    is_after: bool
    location: str = field(default="", compare=False)


def register(cls: type[Pass]) -> None:
    """Called for each subclass of Pass. Two classes of one name are an error; reloading a file replaces its classes."""
    other = _passes.get(cls.name)
    if other is not None and _origin(other) != _origin(cls):
        raise TypeError(f"two passes are named '{cls.name}': {_place(other)} and {_place(cls)}")
    _passes[cls.name] = cls


def _origin(cls: type) -> tuple[str, str]:
    """The file and name of a class; a file may be loaded as a plugin and imported as well."""
    module = sys.modules.get(cls.__module__)
    return getattr(module, "__file__", None) or cls.__module__, cls.__qualname__


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def register_pass(*, after: str = "", before: str = "") -> Callable[[PassClass], PassClass]:
    """Class decorator for plugins: run the pass in every pipeline, after (or before) the pass of that name."""
    if bool(after) == bool(before) or not isinstance(after or before, str):
        raise TypeError("register_pass takes either after= or before=, the name of the pass to stand beside")

    caller = sys._getframe(1)
    location = f"{caller.f_code.co_filename}:{caller.f_lineno}"

    def place(cls: PassClass) -> PassClass:
        _placements[cls.name] = Placement(cls, after or before, bool(after), location)
        return cls

    return place


def placements() -> tuple[Placement, ...]:
    """What plugins want to have inserted, in the order they were loaded, installed ones first."""
    _import_entry_points()
    return tuple(_placements.values())


def lookup(name: str) -> type[Pass] | None:
    """The pass class of that name, or None."""
    return all_passes().get(name)


def all_passes() -> dict[str, type[Pass]]:
    """All pass classes by name, after importing ours and the installed plugins."""
    _import_ours()
    _import_entry_points()
    return dict(sorted(_passes.items()))


_imported: set[str] = set()


def _import_ours() -> None:
    """Import every module under `blu.passes`, once: defining a pass registers it."""
    if _OURS in _imported:
        return
    _imported.add(_OURS)
    package = importlib.import_module("blu.passes")
    for module in pkgutil.walk_packages(package.__path__, "blu.passes."):
        importlib.import_module(module.name)


def _import_entry_points() -> None:
    if ENTRY_POINTS in _imported:
        return
    _imported.add(ENTRY_POINTS)
    for entry in installed.entry_points(ENTRY_POINTS):
        try:
            entry.load()
        except Exception as error:
            package = entry.dist.name if entry.dist else "an installed package"
            raise ParseError(
                f"the pass plugin '{entry.name}' of {package} fails on import: {error}",
                advice=f"update or uninstall {package}",
            ) from error


def load_pass_file(path: str | Path) -> tuple[type[Pass], ...]:
    """Run a plugin file and return the passes it defines. ParseError says what is wrong with the file."""
    path = Path(path).resolve()
    if not path.is_file():
        raise ParseError(f"there is no pass file {path}", advice="--load-pass takes a Python file that defines a Pass")
    module_name = f"blu_plugin_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_loader(module_name, importlib.machinery.SourceFileLoader(module_name, str(path)))
    assert spec is not None and spec.loader is not None, "a loader was given"
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
        found = tuple(cls for cls in _passes.values() if cls.__module__ == module_name)
        for cls in found:
            options_of(cls)
    except Exception as error:
        _unload(module_name)
        raise ParseError(f"{type(error).__name__}: {error}", location=_line_in(path, error)) from error
    if not found:
        raise ParseError(f"{path} defines no pass", advice="derive a class from blu.passes.framework.base.Pass")
    _files[module_name] = path
    return found


def unload_pass_files() -> None:
    """Drop all passes that `load_pass_file` has brought."""
    for module_name in list(_files):
        _unload(module_name)


def _unload(module_name: str) -> None:
    sys.modules.pop(module_name, None)
    _files.pop(module_name, None)
    for name in [name for name, cls in _passes.items() if cls.__module__ == module_name]:
        del _passes[name]
        _placements.pop(name, None)


def _line_in(path: Path, error: Exception) -> str:
    """`file:line` where a plugin file raised; for a syntax error, where it is."""
    if isinstance(error, SyntaxError) and error.lineno:
        return f"{error.filename}:{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f"{path}:{lines[-1]}" if lines else str(path)


def loaded_files() -> tuple[Path, ...]:
    """The plugin files loaded so far: a child process that runs the same passes loads them as well."""
    return tuple(_files.values())


def is_ours(cls: type[Pass]) -> bool:
    """Whether the pass belongs to Blu itself rather than to a plugin or the user's script."""
    return cls.__module__.startswith("blu.")


def nearest(name: str, candidates: list[str]) -> str:
    """A sentence with the most similar names, or an empty one."""
    bare = {candidate.removeprefix("blu-"): candidate for candidate in candidates} | {item: item for item in candidates}
    close = dict.fromkeys(bare[item] for item in difflib.get_close_matches(name, bare, 4, 0.6))
    return "did you mean " + " or ".join(f"'{item}'" for item in list(close)[:3]) + "?" if close else ""

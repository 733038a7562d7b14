"""Installed packages: their versions, and what they offer others.

The names of folders say what importlib.metadata reads from files, and only packages that offer something to a group
name it. That package (with `email`, by which it reads) is imported where folders do not say it: a fortieth of the time
of a first program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from importlib.machinery import PathFinder
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_DESCRIPTION = ".dist-info"
# The ends of the names of folders that may hold a list of what is offered, also those of older installers.
_DESCRIPTIONS = (_DESCRIPTION, ".egg-info", "EGG-INFO")
_OFFERS = "entry_points.txt"


def version_of(package: str) -> str:
    """The version of an installed package, or "" where there is none."""
    for folder in _folders(tuple(sys.path)):
        if folder.endswith(_DESCRIPTION):
            name, _, version = os.path.basename(folder)[: -len(_DESCRIPTION)].partition("-")
            if version and _plain(name) == _plain(package):
                return version
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """What installed packages offer to a group."""
    if _all_are_in_folders() and not any(group in _offers(folder) for folder in _folders(tuple(sys.path))):
        return ()
    from importlib import metadata

    return tuple(metadata.entry_points(group=group))


def _plain(name: str) -> str:
    """The same for all spellings of a package's name."""
    return name.lower().replace("-", "_").replace(".", "_")


@functools.lru_cache(maxsize=1)
def _folders(path: tuple[str, ...]) -> tuple[str, ...]:
    """The folders that describe packages, in the order in which Python looks for these."""
    found = []
    for folder in path:
        with contextlib.suppress(OSError):
            names = os.listdir(folder or ".")
            found += [os.path.join(folder, name) for name in names if name.endswith(_DESCRIPTIONS)]
    return tuple(found)


def _all_are_in_folders() -> bool:
    """Whether packages come from folders alone: from no archive, and by no finder of an installer's own."""
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    return finders == [PathFinder] and not any(map(os.path.isfile, sys.path))


def _offers(folder: str) -> str:
    try:
        with open(os.path.join(folder, _OFFERS), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

"""Which checkpoint of a run is the one to go on from: the latest that is sound."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from blu.errors import CheckpointError
from blu.frontend.io.checkpoints import directory as layout
from blu.frontend.io.checkpoints.manifest import NewerFormatError, verify

Found = TypeVar("Found")


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over, or something failed without losing anything."""


def warn(message: str) -> None:
    """Tell the user of something that lost nothing."""
    warnings.warn(message, CheckpointWarning, stacklevel=3)


def latest(directory: str | Path) -> Path | None:
    """The path of the latest checkpoint in `directory` that has all of its files, None where there is none at all.

    Others are passed over with a CheckpointWarning; CheckpointError when no checkpoint is whole. Only sizes are
    compared here; `load` compares checksums.
    """
    return first_sound(Path(directory), _has_all_files)


def _has_all_files(path: Path) -> Path:
    verify(path, contents=False)
    return path


def first_sound(directory: Path, check: Callable[[Path], Found]) -> Found | None:
    """`check` of the most preferred checkpoint that passes it."""
    first, problems = None, []
    try:
        first = layout.read_latest(directory)
    except CheckpointError as error:
        problems.append(error.message)
    for path in layout.by_preference(directory, first):
        try:
            found = check(path)
        except NewerFormatError:
            raise
        except CheckpointError as error:
            problems.append(error.message)
            continue
        if problems:
            warn("\n    ".join((f"{path} is used instead of the latest checkpoint:", *problems)))
        return found
    if problems:
        raise CheckpointError("\n    ".join((f"{directory}: no sound checkpoint:", *problems)))
    return None

"""A directory of checkpoints: one directory for each step, and `latest`, a file that names the last durable one.

    runs/step-00000200/     runs/step-00000250/     runs/latest     ("step-00000250")

Whatever happens, and whenever, a `step-*` directory is complete or not there.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from blu.errors import CheckpointError
from blu.file_locks import holding_lock
from blu.frontend.io.atomic import replacing, sync
from blu.frontend.io.checkpoints.manifest import step_name, verify

LATEST = "latest"
LOCK = ".lock"
LOCK_SECONDS = 120.0
MAX_STEP = 10**12
STEP = re.compile(r"step-(\d{8,12})")
# Halves of a checkpoint, checkpoints on their way out, and a checkpoint that is just being replaced (old).
LEFTOVER = re.compile(r"\.(step-\d{8,12}|latest)\.[0-9a-f]{12}\.(tmp|old)")


def step_directory(directory: Path, step: int) -> Path:
    """Where the checkpoint of `step` lives."""
    if not 0 <= step < MAX_STEP:
        raise CheckpointError(f"step {step} is not in [0, {MAX_STEP})")
    return directory / step_name(step)


def step_of(path: Path) -> int | None:
    """The step of a step directory, None for another path."""
    match = STEP.fullmatch(path.name)
    return int(match[1]) if match else None


def checkpoints_in(directory: Path) -> list[Path]:
    """All step directories, by step."""
    try:
        found = [path for path in directory.iterdir() if step_of(path) is not None and path.is_dir()]
    except OSError:
        return []
    return sorted(found, key=lambda path: step_of(path) or 0)


def has_any(directory: Path) -> bool:
    """Whether anything in `directory` says that a checkpoint has been saved there."""
    return os.path.lexists(directory / LATEST) or bool(checkpoints_in(directory))


def read_latest(directory: Path) -> Path | None:
    """The step directory that `latest` names, None when there is no such file. Raises CheckpointError if damaged."""
    path = directory / LATEST
    try:
        with path.open("rb") as file:
            name = file.read(64).decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if not STEP.fullmatch(name):
        raise CheckpointError(f"{path}: {name!r} is no name of a checkpoint")
    return directory / name


def move_latest(directory: Path, step: int) -> None:
    """Make `latest` name the checkpoint of `step`, which is durable."""
    with replacing(directory / LATEST) as temporary:
        temporary.write_text(step_directory(directory, step).name + "\n")


def by_preference(directory: Path, first: Path | None) -> list[Path]:
    """`first` (or the last step), then the steps before it, the nearest first, then those after it.

    Steps after `first` are of a run that was abandoned, hence the last resort.
    """
    present = checkpoints_in(directory)
    if first is None:
        return present[::-1]
    step = step_of(first) or 0
    before = [path for path in present if (step_of(path) or 0) < step]
    after = [path for path in present if (step_of(path) or 0) > step]
    return [first, *before[::-1], *after[::-1]]


@contextlib.contextmanager
def publishing(directory: Path, step: int) -> Iterator[Path]:
    """Yield a temporary directory to fill with synced files; if the body succeeds it becomes the checkpoint of `step`.

    When the body raises, it is removed. On return the checkpoint is durable; one of the same step has been replaced.
    """
    final = step_directory(directory, step)
    temporary = _hidden(final, "tmp")
    try:
        temporary.mkdir()
        yield temporary
        sync(temporary)
        _move(temporary, final)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _move(temporary: Path, final: Path) -> None:
    if not os.path.lexists(final):
        os.rename(temporary, final)
        sync(final.parent)
        return
    # A directory cannot be replaced in one step. A kill between the renames leaves the .old, which `sweep` puts back.
    old = _hidden(final, "old")
    os.rename(final, old)
    try:
        os.rename(temporary, final)
    except BaseException:
        os.rename(old, final)
        raise
    sync(final.parent)
    _remove(old)


def sweep(directory: Path) -> list[str]:
    """Remove what killed processes left behind; the names of what was removed. Nothing while another process saves."""
    with locked(directory, 0.0) as is_free:
        if not is_free:
            return []
        # ".old" sorts before ".tmp".
        leftovers = sorted((path for path in directory.iterdir() if LEFTOVER.fullmatch(path.name)), key=_last_suffix)
        return [path.name for path in leftovers if _settle(path)]


def _last_suffix(path: Path) -> tuple[str, str]:
    return path.suffix, path.name


def _settle(leftover: Path) -> bool:
    """Remove a leftover, or put it back where it is the only whole one; whether it was removed."""
    match = LEFTOVER.fullmatch(leftover.name)
    assert match
    final = leftover.with_name(match[1])
    if match[2] == "old" and not os.path.lexists(final):
        os.rename(leftover, final)
        sync(final.parent)
        return False
    _remove(leftover)
    return True


def remove_older(directory: Path, step: int, keep: int) -> None:
    """Remove the checkpoints before `step`, except for the last `keep` - 1 that have all of their files.

    Those after `step` (of a run that was abandoned) and the one that `latest` names stay.
    """
    kept = 1
    latest = read_latest(directory)
    for path in reversed(checkpoints_in(directory)):
        if (step_of(path) or 0) >= step or path == latest:
            continue
        if kept < keep and _has_all_files(path):
            kept += 1
        elif kept >= keep:
            # Under its own name, a half of it would look like a damaged checkpoint.
            doomed = _hidden(path, "tmp")
            os.rename(path, doomed)
            _remove(doomed)


def _has_all_files(path: Path) -> bool:
    try:
        verify(path, contents=False)
    except CheckpointError:
        return False
    return True


@contextlib.contextmanager
def locked(directory: Path, seconds: float = LOCK_SECONDS) -> Iterator[bool]:
    """Hold the directory's lock against other processes that save there; on file systems without locks, just go on.

    Raises CheckpointError when another process has it for `seconds`; without waiting time, yields False then.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(holding_lock(directory / LOCK, seconds))
        except TimeoutError as error:
            if seconds:
                message = f"{directory}: another process has been saving here for {seconds:.0f} seconds"
                raise CheckpointError(message, advice="give each run a directory of its own") from error
            yield False
            return
        except OSError:
            pass
        yield True


def _hidden(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.{suffix}")


def _remove(path: Path) -> None:
    """Remove a file, link or directory; what cannot be removed stays for the next sweep."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        path.unlink()

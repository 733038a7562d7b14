"""The manifest of a checkpoint: which files belong to it, with sizes and checksums. Written last, verified first."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import blu.installed as installed
from blu.dataclass import dataclass
from blu.errors import CheckpointError, WeightsError
from blu.frontend.io.atomic import replacing
from blu.frontend.io.json_files import parse_json

# Raise it when a reader of today could not read what is written then.
FORMAT = 1
MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 1 << 20
MAX_FILES = 1024
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
SHA256 = re.compile(r"[0-9a-f]{64}")


class NewerFormatError(CheckpointError):
    """A checkpoint in a format that this Blu does not know yet."""


@dataclass(frozen=True)
class Manifest:
    """What a sound checkpoint consists of: size in bytes and SHA-256 of each file."""

    step: int
    blu: str
    files: dict[str, tuple[int, str]]


def step_name(step: int) -> str:
    """The name of the directory for the checkpoint of `step`."""
    return f"step-{step:08d}"


@cache
def blu_version() -> str:
    """The version of Blu that runs; "unknown" where it runs without being installed."""
    return installed.version_of("blu") or "unknown"


def write_manifest(directory: Path, step: int, known: Mapping[str, Mapping[str, Any]] | None = None) -> None:
    """Describe all files of `directory` in its manifest; `known` is what others have said of theirs."""
    files = dict(known or {})
    for path in sorted(directory.iterdir()):
        assert FILE_NAME.fullmatch(path.name), path.name
        if path.name not in files:
            files[path.name] = {"bytes": path.stat().st_size, "sha256": checksum(path)}
    content = {"format": FORMAT, "blu": blu_version(), "step": step, "files": files}
    with replacing(directory / MANIFEST) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n")


def verify(directory: Path, *, contents: bool = True) -> Manifest:
    """The manifest of the checkpoint in `directory`, when every file is there and is what was written.

    Without `contents`, sizes are compared but no checksums. Raises NewerFormatError, or one CheckpointError that lists
    everything that is wrong. Nothing outside of `directory` is read, and nothing larger than its manifest is allocated.
    """
    manifest = read_manifest(directory)
    if directory.name.startswith("step-") and directory.name != step_name(manifest.step):
        advice = "files of several checkpoints are mixed, or the directory was renamed"
        raise CheckpointError(f"{directory / MANIFEST} is of step {manifest.step}", advice=advice)
    try:
        problems = list(_problems(directory, manifest, contents))
    except OSError as error:
        problems = [f"{error.filename} cannot be read: {error.strerror}"]
    if problems:
        advice = "use another checkpoint: this one is damaged, or its files come from several"
        raise CheckpointError(f"{directory}: not a sound checkpoint:\n    " + "\n    ".join(problems), advice=advice)
    return manifest


def read_manifest(directory: Path) -> Manifest:
    """The manifest of `directory`, well-formed and of a known format. Raises CheckpointError otherwise."""
    path = directory / MANIFEST
    try:
        content = parse_json(_read(path), str(path))
    except WeightsError as error:
        raise CheckpointError(error.message) from error
    _check_format(path, content)
    step: Any = content.get("step")
    files: Any = content.get("files")
    if not _is_count(step) or not isinstance(files, dict) or len(files) > MAX_FILES:
        raise CheckpointError(f"{path}: a step and at most {MAX_FILES} files were expected")
    for name, entry in files.items():
        if not FILE_NAME.fullmatch(name) or name == MANIFEST:
            raise CheckpointError(f"{path}: {name!r} is no name of a file in a checkpoint; refused")
        if not _is_entry(entry):
            raise CheckpointError(f"{path}: {name!r}: bytes and sha256 were expected")
    entries = {name: (entry["bytes"], entry["sha256"]) for name, entry in files.items()}
    return Manifest(step, str(content.get("blu"))[:64], entries)


def is_regular(path: Path) -> bool:
    """Whether `path` is a file: no link that leads elsewhere, no pipe that never ends."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _read(path: Path) -> bytes:
    if not is_regular(path):
        found = "is not a regular file" if os.path.lexists(path) else "is missing: not a checkpoint, or half of one"
        raise CheckpointError(f"{path} {found}")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MAX_MANIFEST_BYTES:
        raise CheckpointError(f"{path}: larger than {MAX_MANIFEST_BYTES} bytes; refused")
    return content


def _check_format(path: Path, content: dict[str, Any]) -> None:
    number = content.get("format")
    if type(number) is not int or number < 1:
        raise CheckpointError(f"{path}: the format is {number!r}, expected a positive number")
    if number > FORMAT:
        writer = str(content.get("blu"))[:64]
        raise NewerFormatError(
            f"{path}: written by Blu {ascii(writer)[1:-1]} in format {number}; this is Blu {blu_version()}, which "
            f"reads formats up to {FORMAT}",
            advice="update Blu",
        )


def _problems(directory: Path, manifest: Manifest, contents: bool) -> Iterator[str]:
    for name, (size, expected) in manifest.files.items():
        path = directory / name
        if not is_regular(path):
            yield f"{name} is missing" if not os.path.lexists(path) else f"{name} is not a regular file"
        elif (found := path.stat().st_size) != size:
            yield f"{name} has {found} bytes instead of {size}"
        elif contents and checksum(path) != expected:
            yield f"{name} is not what was written: its SHA-256 differs"


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_entry(entry: Any) -> bool:
    if not isinstance(entry, dict) or set(entry) != {"bytes", "sha256"} or not _is_count(entry["bytes"]):
        return False
    return isinstance(entry["sha256"], str) and bool(SHA256.fullmatch(entry["sha256"]))


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 62

"""The `.blu` file: an uncompressed zip of `manifest.json` and the members whose size and SHA-256 it states."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from blu.errors import CacheError

FORMAT = 2
"""The version of the format that this Blu writes and reads."""
MANIFEST = "manifest.json"
WEIGHTS = "weights"
"""The folder of members that are the bytes of inputs, by their names."""
_MAX_MANIFEST = 16 << 20
_MAX_MEMBERS = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*(/[A-Za-z0-9_][A-Za-z0-9_.+-]*)*")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ENCRYPTED = 1
_CHUNK = 4 << 20
_DAMAGED = "compile the program again, or copy the file again"


def _damaged(where: str, message: str) -> CacheError:
    return CacheError(f"{where}: {message}", advice=_DAMAGED)


def _is_name(name: str) -> bool:
    """Whether a member may be called this: a relative path of plain names, without dots in front."""
    return len(name) <= 255 and _NAME.fullmatch(name) is not None


def write_artifact(
    path: str | os.PathLike[str], members: Mapping[str, bytes], details: Mapping[str, Any], is_durable: bool = True
) -> None:
    """Write a `.blu` file; the same members and details give the same bytes.

    `details` (JSON values: versions, target, ...) go into the manifest beside the hashes. The file appears under its
    name only when it is whole; where it `is_durable`, only when it is on the disk too, so that a loss of power leaves
    what was there or what is new. CacheError where it cannot be written.
    """
    for name in members:
        assert _is_name(name) and name != MANIFEST, f"a member cannot be called {name!r}"
    manifest = json.dumps(make_manifest(members, details), indent=1, sort_keys=True).encode()
    path = Path(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise CacheError(f"{path}: cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            _write_zip(file, {MANIFEST: manifest, **members})
            file.flush()
            if is_durable:
                os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        if is_durable:
            _sync_directory(path.parent)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise CacheError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def weight_members(arrays: Mapping[str, Any]) -> dict[str, bytes]:
    """The members that hold inputs of a program, by the inputs' names."""
    return {f"{WEIGHTS}/{name}": np.ascontiguousarray(array).tobytes() for name, array in arrays.items()}


def make_manifest(members: Mapping[str, bytes], details: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of these members."""
    entries = {
        name: {"bytes": memoryview(data).nbytes, "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(members.items())
    }
    return {**details, "format": FORMAT, "members": entries}


def described(members: Mapping[str, bytes], details: Mapping[str, Any]) -> dict[str, bytes]:
    """Members with a manifest, so that they load as from a file: for what machine they are is checked there."""
    if MANIFEST in members:
        return dict(members)
    return {MANIFEST: json.dumps(make_manifest(members, details)).encode(), **members}


def _write_zip(file: Any, members: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in (MANIFEST, *sorted(set(members) - {MANIFEST})):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.create_system, entry.external_attr = 3, 0o644 << 16
            archive.writestr(entry, members[name])


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Artifact:
    """The members of an executable, from a file (`open`) or from memory (`of`). Reading verifies sizes and hashes."""

    def __init__(
        self, where: str, manifest: dict[str, Any], ranges: Mapping[str, tuple[int, int]], members: Mapping[str, bytes]
    ):
        self.where = where
        self.manifest = manifest
        self._ranges = ranges
        self._members = members

    @classmethod
    def of(cls, members: Mapping[str, bytes]) -> Artifact:
        """Members in memory; where a manifest is among them, it is obeyed, and otherwise nothing is hashed."""
        if MANIFEST not in members:
            entries = {name: {"bytes": memoryview(data).nbytes, "sha256": None} for name, data in members.items()}
            return cls("executable", {"format": FORMAT, "members": entries}, {}, members)
        manifest = _parse_manifest("executable", bytes(members[MANIFEST]))
        _compare("executable", manifest, {name: len(data) for name, data in members.items()})
        return cls("executable", manifest, {}, members)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Artifact:
        """Read a file's directory and manifest; CacheError where it is missing, damaged or of another version."""
        where = os.fspath(path)
        try:
            with zipfile.ZipFile(path) as archive:
                ranges = _ranges(where, archive.infolist(), os.path.getsize(path))
        except OSError as error:
            raise _damaged(where, f"cannot be read: {error.strerror or error}") from error
        except (zipfile.BadZipFile, struct.error, NotImplementedError, ValueError, OverflowError, EOFError) as error:
            raise _damaged(where, f"not a .blu file: {error}") from error
        if MANIFEST not in ranges:
            raise _damaged(where, f"not a .blu file: it holds no {MANIFEST}")
        found = cls(where, {}, ranges, {})
        found.manifest = _parse_manifest(where, found._bytes(MANIFEST))
        _compare(where, found.manifest, {name: size for name, (_, size) in ranges.items()})
        return found

    def names(self) -> list[str]:
        """The members' names, without the manifest."""
        return sorted(self.manifest["members"])

    def size(self, name: str) -> int:
        """The member's size in bytes; 0 where there is none."""
        return self.manifest["members"].get(name, {"bytes": 0})["bytes"]

    def read(self, name: str) -> bytes:
        """A member's bytes, verified."""
        buffer = np.empty(self.size(name), np.uint8)
        self.read_into(name, buffer)
        return buffer.tobytes()

    def read_into(self, name: str, buffer: np.ndarray) -> None:
        """Read a member into `buffer` (uint8, of the member's size), and verify it."""
        if name not in self.manifest["members"]:
            raise _damaged(self.where, f"the member {name!r} is missing")
        if name in self._ranges:
            self._fill(name, buffer.data)
        else:
            buffer[...] = np.frombuffer(self._members[name], np.uint8)
        stated = self.manifest["members"][name]["sha256"]
        if stated is not None and hashlib.sha256(buffer.data).hexdigest() != stated:
            raise _damaged(self.where, f"the member {name!r} does not have the hash that the manifest states")

    def part(self, folder: str) -> Artifact:
        """The members in a folder, by their names there."""
        prefix = f"{folder}/"
        inside = {name: name.removeprefix(prefix) for name in self.manifest["members"] if name.startswith(prefix)}
        entries = {short: self.manifest["members"][name] for name, short in inside.items()}
        ranges = {short: self._ranges[name] for name, short in inside.items() if name in self._ranges}
        members = {short: self._members[name] for name, short in inside.items() if name in self._members}
        return Artifact(self.where, {**self.manifest, "members": entries}, ranges, members)

    def verify(self) -> None:
        """Read every member; CacheError for the first that is damaged."""
        for name in self.names():
            self.read(name)

    def __repr__(self) -> str:
        return f"Artifact({self.where}, {len(self.names())} members)"

    def _bytes(self, name: str) -> bytes:
        buffer = bytearray(self._ranges[name][1])
        self._fill(name, memoryview(buffer))
        return bytes(buffer)

    def _fill(self, name: str, buffer: memoryview) -> None:
        """Read a stored member straight from the file, after its local header."""
        header_at, size = self._ranges[name]
        try:
            with open(self.where, "rb", buffering=0) as file:
                file.seek(header_at)
                header = file.read(_LOCAL_HEADER.size)
                if len(header) != _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
                    raise _damaged(self.where, f"the member {name!r} has no header")
                _, name_size, extra_size = _LOCAL_HEADER.unpack(header)
                file.seek(name_size + extra_size, os.SEEK_CUR)
                done = 0
                while done < size and (count := file.readinto(buffer[done : done + _CHUNK])):
                    done += count
        except OSError as error:
            raise _damaged(self.where, f"cannot be read: {error.strerror}") from error
        if done != size:
            raise _damaged(self.where, f"the file ends within the member {name!r}")


def _ranges(where: str, entries: list[zipfile.ZipInfo], file_size: int) -> dict[str, tuple[int, int]]:
    """The place of each member's local header, and its size."""
    if len(entries) > _MAX_MEMBERS:
        raise _damaged(where, f"it has {len(entries)} members")
    ranges: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if not _is_name(entry.filename) or entry.filename in ranges:
            raise _damaged(where, f"the member name {entry.filename[:80]!r} is not allowed, or occurs twice")
        stored = entry.compress_type == zipfile.ZIP_STORED and entry.file_size == entry.compress_size
        if not stored or entry.flag_bits & _ENCRYPTED:
            raise _damaged(where, f"the member {entry.filename!r} is compressed or encrypted")
        ranges[entry.filename] = (entry.header_offset, entry.file_size)
    if sum(size for _, size in ranges.values()) > file_size or any(at < 0 for at, _ in ranges.values()):
        raise _damaged(where, "its members are larger than the file")
    return ranges


def _parse_manifest(where: str, text: bytes) -> dict[str, Any]:
    if len(text) > _MAX_MANIFEST:
        raise _damaged(where, f"{MANIFEST} of {len(text)} bytes")
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(where, f"{MANIFEST} is damaged: {error}") from error
    if not isinstance(manifest, dict) or "format" not in manifest:
        raise _damaged(where, f"{MANIFEST} states no format version")
    if manifest["format"] != FORMAT:
        raise CacheError(
            f"{where}: format version {manifest['format']!r}, this Blu reads version {FORMAT}",
            advice="compile the program again with this Blu, or run it with the Blu that compiled it",
        )
    if not _members_are_sound(manifest.get("members")):
        raise _damaged(where, f"{MANIFEST} does not state the size and hash of each member")
    return manifest


def _members_are_sound(members: Any) -> bool:
    return isinstance(members, dict) and all(
        isinstance(entry, dict)
        and type(entry.get("bytes")) is int
        and entry["bytes"] >= 0
        and isinstance(entry.get("sha256"), str)
        for entry in members.values()
    )


def _compare(where: str, manifest: dict[str, Any], sizes: Mapping[str, int]) -> None:
    """The file holds exactly the members of the manifest, with their sizes."""
    stated = {name: entry["bytes"] for name, entry in manifest["members"].items()}
    found = {name: size for name, size in sizes.items() if name != MANIFEST}
    if stated == found:
        return
    names = sorted(name for name in stated.keys() | found.keys() if stated.get(name) != found.get(name))
    raise _damaged(where, f"members missing, added or of another size than {MANIFEST} states: {', '.join(names)[:200]}")

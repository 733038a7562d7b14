"""The compile cache on disk: executables by the hash of what was asked for. Nothing in it is ever unpickled or trusted.

    <directory>/entries/<key>.blu       an executable, in the artifact format; every member is verified when it is read
    <directory>/requests/<request>      the entry's key for a request, so that a hit needs no tracing
    <directory>/locks/<key>.lock        held by the process that compiles it
    <directory>/kernels/<key>.kernel    machine code of one kernel, for all programs that have it (see kernel_cache.py)
    <directory>/looked                  made when a process last looked at how much there is

The directory is `BLU_CACHE_DIR`, else the platform's user cache directory; `BLU_CACHE_LIMIT` is its size in bytes, 0
turns it off. Whatever goes wrong with it (read-only, full, deleted, damaged, someone else's) costs one warning and a
compilation.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from blu import settings
from blu.compiler.fingerprint import is_extended
from blu.dataclass import dataclass
from blu.errors import CacheError
from blu.file_locks import holding_lock
from blu.runtime.artifact import MANIFEST, Artifact, write_artifact

LOCK_SECONDS = 600.0
STALE_SECONDS = 24 * 3600.0
ENTRIES, KERNELS = "entries", "kernels"
# The end of the names of files that are whole, by folder.
SUFFIXES = {ENTRIES: ".blu", KERNELS: ".kernel"}
# The part of the limit that a process writes before it looks again at what all have written, and the time for which one
# that has written nothing yet relies on another's look: at tens of thousands of files, it takes as long as to compile.
_SHARE, _LOOK_SECONDS = 64, 60.0
_KEY = re.compile(r"[0-9a-f]{64}")

Members = Mapping[str, bytes]


class CacheWarning(UserWarning):
    """The compile cache cannot be used, or an entry was damaged; the program is compiled instead."""


@dataclass(frozen=True)
class CacheEntry:
    """One executable in the cache: its name, target, size and when it was last used (seconds since the epoch)."""

    key: str
    path: Path
    name: str
    target: str
    nbytes: int
    used: float

    def __repr__(self) -> str:
        return f"CacheEntry({self.key[:12]}, {self.name}, {self.nbytes} bytes)"


class Cache:
    """Executables in a directory. A `directory` of None keeps nothing."""

    def __init__(self, directory: Path | None, limit: int = settings.CACHE_BYTES):
        self.directory = directory if limit > 0 else None
        self.limit = limit
        self._warned: set[str] = set()
        self._written: int | None = None  # bytes since this process made room

    def get(self, key: str) -> dict[str, bytes] | None:
        """The members of an entry, manifest included, all verified; None where there is no sound one."""
        path = self._entry_path(key)
        if path is None or not _is_there(path):
            return None
        try:
            members = self._read(key, path)
        except (CacheError, OSError) as error:
            if _is_there(path):  # else another process evicted it
                self.warn_damaged(key, error)
            return None
        with contextlib.suppress(OSError):  # a read-only cache still serves
            os.utime(path)
        return members

    def put(self, key: str, members: Members, details: Mapping[str, Any]) -> None:
        """Keep an executable, replacing what is there. `details` go into its manifest."""
        path = self._entry_path(key)
        if path is None:
            return
        parts = {name: data for name, data in members.items() if name != MANIFEST}
        try:
            self.prepare(path.parent)
            if path.is_dir():  # which no file can be renamed to
                shutil.rmtree(path)
            # The disk may take its time: an entry that a loss of power cut off is damaged, and compiled again.
            write_artifact(path, parts, {**details, "key": key}, is_durable=False)
            self.make_room(sum(map(len, parts.values())), keep=path)
        except (OSError, CacheError) as error:
            self.warn_unwritable(error)

    def get_or_compile(
        self, key: str, compile: Callable[[], Members], details: Mapping[str, Any]
    ) -> tuple[Members, bool]:
        """The entry's members and True, or what `compile` gives and False; processes that ask at once compile once."""
        found = self.get(key)
        if found is not None:
            return found, True
        with self._lock(key):
            found = self.get(key)
            if found is not None:
                return found, True
            members = compile()
            self.put(key, members, details)
        return members, False

    def remember(self, request: str, key: str) -> None:
        """Note which entry answers a request."""
        if self.directory is None or not self._is_trusted(self.directory):
            return
        path = self.directory / "requests" / request
        temporary = path.with_name(f".{request}.{os.getpid()}.tmp")
        try:
            self.prepare(path.parent)
            temporary.write_text(key)
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            self.warn_unwritable(error)

    def recall(self, request: str) -> dict[str, bytes] | None:
        """The members of the entry that answers a request, or None."""
        if self.directory is None or not self._is_trusted(self.directory):
            return None
        path = self.directory / "requests" / request
        try:
            key = path.read_text() if _is_own(path) and path.is_file() else ""
        except (OSError, UnicodeDecodeError):
            return None
        return self.get(key) if _KEY.fullmatch(key) else None

    def entries(self) -> list[CacheEntry]:
        """All entries, the one used last first; damaged ones are listed as such."""
        paths = [] if self.directory is None else (self.directory / ENTRIES).glob("*.blu")
        found = [entry for path in paths if (entry := _describe(path)) is not None]
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def kernels(self) -> tuple[int, int]:
        """How many kernels are kept, and their bytes."""
        paths = [] if self.directory is None else (self.directory / KERNELS).glob("*.kernel")
        sizes = [status.st_size for path in paths if (status := _status(path)) is not None]
        return len(sizes), sum(sizes)

    def clear(self) -> int:
        """Delete everything; gives the number of entries there were. Raises CacheError where that is not possible."""
        count = len(self.entries())
        for name in (ENTRIES, KERNELS, "requests", "locks"):
            try:
                if self.directory is not None and (self.directory / name).exists():
                    shutil.rmtree(self.directory / name)
            except OSError as error:
                raise CacheError(f"{self.directory}: cannot be cleared: {_reason(error)}") from error
        return count

    def __repr__(self) -> str:
        return f"Cache({self.directory or 'off'})"

    def _entry_path(self, key: str) -> Path | None:
        assert _KEY.fullmatch(key), f"a cache key is a SHA-256, not {key!r}"
        folder = self.usable_folder(ENTRIES)
        return None if folder is None else folder / f"{key}.blu"

    def usable_folder(self, name: str) -> Path | None:
        """A folder of the cache, which need not exist; None where nothing is kept, or others could write there."""
        if self.directory is None or not self._is_trusted(self.directory):
            return None
        return self.directory / name

    def warn_damaged(self, key: str, error: OSError | CacheError) -> None:
        """Say once that what was found is not what was written."""
        self._warn(key, f"the compile cache is damaged: {_reason(error)}; compiling again")

    def warn_unwritable(self, error: OSError | CacheError) -> None:
        """Say once that nothing can be kept."""
        self._warn("write", f"cannot write the compile cache in {self.directory}: {_reason(error)}")

    def _is_trusted(self, directory: Path) -> bool:
        """Whether nobody else can put code there that we would run."""
        try:
            status = directory.stat()
        except FileNotFoundError:
            return True
        except OSError as error:
            self._warn("read", f"cannot read the compile cache in {directory}: {_reason(error)}")
            return False
        if status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o002:
            return True
        self._warn("trust", f"the compile cache in {directory} can be written by others; not used")
        return False

    def _read(self, key: str, path: Path) -> dict[str, bytes]:
        _check_is_file(path)
        if not _is_own(path):
            raise CacheError(f"{path}: belongs to another user")
        artifact = Artifact.open(path)
        if artifact.manifest.get("key") != key:
            raise CacheError(f"{path}: holds another program than its name says")
        members = {name: artifact.read(name) for name in artifact.names()}
        return {MANIFEST: json.dumps(artifact.manifest).encode(), **members}

    def prepare(self, folder: Path) -> None:
        """Make a folder that only this user can read."""
        assert self.directory is not None
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        """Hold the key's lock; where locks do not work, or its owner takes too long, go on without."""
        with contextlib.ExitStack() as held:
            if self.directory is not None and self._is_trusted(self.directory):
                with contextlib.suppress(OSError, CacheError):
                    self.prepare(self.directory / "locks")
                    held.enter_context(holding_lock(self.directory / "locks" / f"{key}.lock", LOCK_SECONDS))
            yield

    def make_room(self, nbytes: int, keep: Path) -> None:
        """After so many bytes were written: from time to time, delete what was used longest ago.

        A process looks at its first write, if none has within a minute, and whenever it has written a share of the
        limit since.
        """
        written = (self._written or 0) + nbytes
        if written < self.limit // _SHARE and (self._written is not None or self._was_looked_at()):
            self._written = written
            return
        self._written = 0
        self._evict(keep)

    def _was_looked_at(self) -> bool:
        """Whether a process has looked a short time ago; else this one is going to."""
        assert self.directory is not None
        mark = self.directory / "looked"
        status = _status(mark)
        if status is not None and 0 <= time.time() - status.st_mtime < _LOOK_SECONDS:
            return True
        with contextlib.suppress(OSError):
            mark.touch(mode=0o600)
        return False

    def _evict(self, keep: Path) -> None:
        """Delete what was used longest ago until nine tenths of the limit are left, and what killed processes left."""
        files = [(path, status) for path, status in self._files() if stat.S_ISREG(status.st_mode)]
        now = time.time()
        for path, status in files:
            if path.suffix not in SUFFIXES.values() and now - status.st_mtime > STALE_SECONDS:
                path.unlink(missing_ok=True)
        total = sum(status.st_size for _, status in files)
        if total <= self.limit:
            return
        for path, status in sorted(files, key=lambda item: item[1].st_mtime):
            if path == keep or total <= self.limit * 0.9:
                continue
            path.unlink(missing_ok=True)
            total -= status.st_size

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        """All that takes room."""
        for name in SUFFIXES:
            folder = self.usable_folder(name)
            for path in folder.iterdir() if folder is not None and folder.is_dir() else ():
                if (status := _status(path)) is not None:
                    yield path, status

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(message, CacheWarning, stacklevel=3)


def default_cache() -> Cache:
    """The cache that the environment asks for; the same object as long as the environment stays.

    A cache that keeps nothing where passes or ops of the user's take part, since no key covers what they do.
    """
    return Cache(None) if is_extended() else cache_of_kernels()


def cache_of_kernels() -> Cache:
    """The same cache where passes or ops of the user's take part as well: what they did is in the kernels' text."""
    asked = settings.current()
    return _cache_of(asked.cache_dir, asked.cache_limit, os.environ.get("HOME"))


@functools.lru_cache(maxsize=8)
def _cache_of(directory: Path | None, limit: int, home: str | None) -> Cache:
    if directory:
        return Cache(directory.absolute(), limit)
    path = _user_directory()
    if path is None:
        warnings.warn("there is no home directory for the compile cache; set BLU_CACHE_DIR", CacheWarning, stacklevel=3)
    return Cache(path, limit)


def _user_directory() -> Path | None:
    """The platform's cache directory of this user; None where HOME is unset and the user unknown to the system."""
    import platformdirs

    try:
        path = Path(platformdirs.user_cache_dir("blu", appauthor=False))
    except RuntimeError:
        return None
    return path if path.is_absolute() else None


def _describe(path: Path) -> CacheEntry | None:
    status = _status(path)
    if status is None:
        return None
    try:
        _check_is_file(path)
        manifest = Artifact.open(path).manifest
    except CacheError:
        manifest = {"name": "damaged"}
    target = manifest.get("target")
    target = target.get("name", "?") if isinstance(target, dict) else "?"
    return CacheEntry(path.stem, path, str(manifest.get("name", "?")), str(target), status.st_size, status.st_mtime)


def _is_there(path: Path) -> bool:
    return _status(path) is not None


def _check_is_file(path: Path) -> None:
    """CacheError for a directory, a pipe (which nobody may ever write to) or a device in place of an entry."""
    if not path.is_file():
        raise CacheError(f"{path}: no regular file")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _is_own(path: Path) -> bool:
    return path.stat().st_uid == os.getuid()


def _reason(error: OSError | CacheError) -> str:
    return error.message if isinstance(error, CacheError) else error.strerror or str(error)

"""Machine code of single kernels on disk, shared by all programs: a program's new kernels are all that is compiled.

    <directory>/kernels/<key>.kernel    a check sum, and the bytes: an object, PTX, or machine code of a GPU

The key is the hash of the kernel's text (see kernel_texts.py), the target, and what turns one into the other: code
generation and the LLVM below it, and nothing of Blu above. The directory, its limit and who is trusted are those of the
compile cache. Code is verified when it is read; what is damaged is compiled again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

from blu.compiler.cache import KERNELS, SUFFIXES, Cache
from blu.errors import CacheError

_MAGIC = b"blu kernel 1\n"
_DIGEST = 32


class KernelCache:
    """Code by key, in the directory of a compile cache; nothing is kept where that keeps nothing."""

    def __init__(self, cache: Cache):
        self.cache = cache

    def get(self, key: str) -> bytes | None:
        """The code, verified; None where there is none that is sound."""
        path = self._path(key)
        if path is None:
            return None
        try:
            data = _read(path)
        except FileNotFoundError:
            return None
        except (OSError, CacheError) as error:
            self.cache.warn_damaged(key, error)
            return None
        if len(data) < len(_MAGIC) + _DIGEST or not data.startswith(_MAGIC):
            self.cache.warn_damaged(key, CacheError(f"{path}: not the code of a kernel"))
            return None
        stated, code = data[len(_MAGIC) :][:_DIGEST], data[len(_MAGIC) + _DIGEST :]
        if _digest(key, code) != stated:
            self.cache.warn_damaged(key, CacheError(f"{path}: does not have the hash that it states"))
            return None
        with contextlib.suppress(OSError):  # a read-only cache still serves
            os.utime(path)
        return code

    def put(self, key: str, code: bytes) -> None:
        """Keep code. It appears under its name when it is whole; one that a crash cuts short fails its check sum."""
        path = self._path(key)
        if path is None:
            return
        try:
            self.cache.prepare(path.parent)
            if path.is_dir():  # which no file can be renamed to
                shutil.rmtree(path)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".kernel.")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + _digest(key, code) + code)
                os.replace(temporary, path)
            except BaseException:
                Path(temporary).unlink(missing_ok=True)
                raise
            self.cache.make_room(len(code), keep=path)
        except OSError as error:
            self.cache.warn_unwritable(error)

    def _path(self, key: str) -> Path | None:
        folder = self.cache.usable_folder(KERNELS)
        return None if folder is None else folder / f"{key}{SUFFIXES[KERNELS]}"


def _read(path: Path) -> bytes:
    """The bytes of a file of ours; a pipe that nobody writes to is not waited for."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CacheError(f"{path}: no regular file")
        if status.st_uid != os.getuid():
            raise CacheError(f"{path}: belongs to another user")
        return file.read()


def _digest(key: str, code: bytes) -> bytes:
    """Of the key as well, so that a file is the code of what its name says."""
    return hashlib.sha256(key.encode() + code).digest()

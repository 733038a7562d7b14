"""Files that are either the previous or the new version, whatever happens while they are written."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the body succeeds, make it durable and rename it to `path`.

    When the body raises, the temporary file is removed and `path` is what it was before.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        sync(temporary)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    # The rename itself lives in the directory, which has to reach the disk as well.
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until the file or directory `path` is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Gives processes that mpiexec starts this one's stdout and stderr: it may be killed before it has passed all on."""

from __future__ import annotations

import contextlib
import socket
from pathlib import Path

from blu.runtime.ranks.child import STREAMS, short_path

_QUEUED = 4096


class StreamGiver:
    """Whoever connects to the socket STREAMS in a folder is given both streams, when `give` is called next."""

    def __init__(self, folder: Path):
        self._listener = socket.socket(socket.AF_UNIX)
        with short_path(str(folder), STREAMS) as path:
            self._listener.bind(path)
        self._listener.listen(_QUEUED)
        self._listener.setblocking(False)

    def give(self) -> None:
        """Give them to all who have connected."""
        with contextlib.suppress(BlockingIOError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):  # of one that is gone
                    socket.send_fds(connection, [b"12"], [1, 2])

    def close(self) -> None:
        """Give no more."""
        self._listener.close()

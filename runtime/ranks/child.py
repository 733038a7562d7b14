"""Runs one rank for `launch`, and writes down how it ends. Imports nothing of Blu's, so that it starts at once.

    python child.py FOLDER LAUNCHER COMMAND...

What ranks other than 0 write to stdout is dropped, and lines of their stderr are preceded by their rank. The rank ends
with this process, however that ends, and this one with the process LAUNCHER. In FOLDER, `1.pid` has the process of
rank 1, this one, and the one that started this; `1.end` its exit code and when it ended; `1.said` is there once its
stderr was passed on. At the socket `streams`, if it is there, LAUNCHER gives its own stdout and stderr.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

_RANKS = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1
STREAMS = "streams"
PATIENCE = 60.0
"""Seconds that it stays when its rank has failed; `launch` ends it before."""
_LIBC = ctypes.CDLL(None)


def end_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies, which may have happened already."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def is_alive(process: int) -> bool:
    """Whether a process is still there, other than as an exit code that nobody has asked for."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _become_a_rank(parent: int) -> None:
    end_with_parent(parent)
    for number in _FORWARDED:
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def write(folder: str, name: str, text: str) -> None:
    """Write a file that is whole as soon as it is there."""
    path = os.path.join(folder, name)
    with open(f"{path}.part", "w") as file:
        file.write(text)
    os.replace(f"{path}.part", path)


def _relay(process: subprocess.Popen[bytes], rank: int) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        os.write(2, f"[rank {rank}] ".encode() + line.rstrip(b"\n") + b"\n")


@contextlib.contextmanager
def short_path(folder: str, name: str) -> Iterator[str]:
    """A path of what is in a folder that is no longer than those of sockets may be."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


def _take_streams(folder: str) -> None:
    """Write where the launcher does, rather than to whoever has started this process."""
    if not os.path.exists(os.path.join(folder, STREAMS)):
        return
    with socket.socket(socket.AF_UNIX) as connection:
        with short_path(folder, STREAMS) as path:
            connection.connect(path)
        _, given, _, _ = socket.recv_fds(connection, 2, 2)
    for number, descriptor in zip((1, 2), given, strict=False):
        os.dup2(descriptor, number)
        os.close(descriptor)


def main() -> int:
    """Run the command; 0 however it ends, which stands in the folder, so that mpiexec leaves the other ranks alone."""
    folder, launcher, *command = sys.argv[1:]
    rank = next(int(os.environ[name]) for name in _RANKS if name in os.environ)
    end_with_parent(os.getppid())
    if not is_alive(int(launcher)):  # it was killed, and all that it had started, before this one was told
        return 1
    _take_streams(folder)
    quiet: dict[str, Any] = {}
    if rank:
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    try:
        process = subprocess.Popen(command, close_fds=False, preexec_fn=partial(_become_a_rank, os.getpid()), **quiet)
    except OSError as error:
        os.write(2, f"blu: cannot start {command[0]}: {error.strerror}\n".encode())
        write(folder, f"{rank}.end", f"127 {time.monotonic_ns()}")
        write(folder, f"{rank}.said", "")
        return 0

    def forward(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    for number in _FORWARDED:
        signal.signal(number, forward)
    write(folder, f"{rank}.pid", f"{process.pid} {os.getpid()} {os.getppid()}")
    relay = threading.Thread(target=_relay, args=(process, rank), daemon=True)
    if rank:
        relay.start()
    code = process.wait()
    ended = time.monotonic_ns()
    write(folder, f"{rank}.end", f"{code} {ended}")
    if rank:
        relay.join(5)
    write(folder, f"{rank}.said", "")
    if code:  # mpiexec would kill the others, which have something to say, if this process ended now
        time.sleep(PATIENCE)
    return 0


if __name__ == "__main__":
    sys.exit(main())

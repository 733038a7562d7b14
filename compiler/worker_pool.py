"""Worker processes for code generation: a crash or hang there is an error here."""

from __future__ import annotations

import atexit
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO, Any

from blu.compiler.worker import read_message, write_message
from blu.errors import PassError

TIMEOUT_SECONDS = 300.0


@dataclass
class Worker:
    """One worker process and what it has written to its log."""

    log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    process: subprocess.Popen = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "blu.compiler.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    def ask(self, header: dict[str, Any], payload: bytes) -> bytes:
        """The answer's payload. PassError where the worker refuses, dies or takes too long."""
        assert self.process.stdin and self.process.stdout
        timer = threading.Timer(TIMEOUT_SECONDS, self.process.kill)
        timer.start()
        try:
            write_message(self.process.stdin, header, payload)
            message = read_message(self.process.stdout)
        except (OSError, ValueError):
            message = None
        finally:
            is_late = not timer.is_alive()
            timer.cancel()
        if message is None:
            raise PassError(self._obituary(is_late))
        if not message[0]["ok"]:
            raise PassError(f"generating machine code failed: {message[0]['error']}")
        return message[1]

    def _obituary(self, is_late: bool) -> str:
        if is_late:
            return f"generating machine code took longer than {TIMEOUT_SECONDS:.0f} s and was stopped"
        code = self.process.wait()
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self.log.seek(0)
        lines = self.log.read()[-2000:].decode(errors="replace").strip().splitlines()
        said = f"; it said: {lines[-1]}" if lines else ""
        return f"the code generator died ({cause}){said}"

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.close()


class WorkerPool:
    """Workers that are started when first needed and kept for the next compilation."""

    def __init__(self, size: int):
        self.size = size
        self._idle: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
        for _ in range(size):
            self._idle.put(None)

    def start(self) -> None:
        """Start all workers now, so that they are ready when the first request comes."""
        for _ in range(self.size):
            self._idle.put(self._idle.get() or Worker())

    def ask(self, kind: str, target: dict[str, Any], text: str) -> bytes:
        worker = self._idle.get()
        try:
            worker = worker or Worker()
            return worker.ask({"kind": kind, "target": target}, text.encode())
        except PassError:
            if worker and worker.process.poll() is not None:
                worker.close()
                worker = None
            raise
        finally:
            self._idle.put(worker)

    def ask_all(self, requests: list[tuple[str, dict[str, Any], str]]) -> list[bytes]:
        """Answers to several requests, computed side by side."""
        with ThreadPoolExecutor(self.size) as executor:
            return list(executor.map(lambda request: self.ask(*request), requests))

    def close(self) -> None:
        for _ in range(self.size):
            worker = self._idle.get()
            if worker:
                worker.close()
            self._idle.put(None)


_pools: dict[int, WorkerPool] = {}


def worker_pool() -> WorkerPool:
    """The pool of this process (a forked child gets its own)."""
    pid = os.getpid()
    if pid not in _pools:
        pool = WorkerPool(min(8, len(os.sched_getaffinity(0))))
        _pools[pid] = pool
        atexit.register(pool.close)
    return _pools[pid]

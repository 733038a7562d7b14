"""Worker processes for code generation: a crash or hang there is an error here."""

from __future__ import annotations

import atexit
import contextlib
import heapq
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any, Generic, NamedTuple, TypeVar

from blu import settings
from blu.compiler.codegen.worker import KERNEL, read_message, write_message
from blu.dataclass import dataclass, field
from blu.errors import PassError

PASS_NAME = "generate-code"
GENERATOR = "blu.compiler.codegen.worker"
# -P: a file in the current directory must not take the place of a module.
COMMAND = (sys.executable, "-P", "-m")

Message = tuple[dict[str, Any], bytes]
Made = TypeVar("Made")


def timeout_seconds() -> float:
    """How long one request may take: `BLU_CODEGEN_TIMEOUT`."""
    return min(settings.current().codegen_timeout, threading.TIMEOUT_MAX)


class Task(NamedTuple, Generic[Made]):
    """Something to do, and how long that may take, in any unit."""

    do: Callable[[], Made]
    length: int = 0


class WaitingTasks(Generic[Made]):
    """Tasks that no thread has begun: the longest is begun first, so that none is left to wait for at the end."""

    def __init__(self) -> None:
        self._tasks: list[tuple[int, int, Callable[[], Made]]] = []
        self._lock = threading.Lock()

    def put(self, number: int, task: Task[Made]) -> None:
        """Let a task wait."""
        with self._lock:
            heapq.heappush(self._tasks, (-task.length, number, task.do))

    def do_longest(self) -> tuple[int, Made]:
        """Do one of those that wait; its number, and what it gives."""
        with self._lock:
            _, number, do = heapq.heappop(self._tasks)
        return number, do()


@dataclass(eq=False)
class Worker:
    """One worker process, which runs a module, and what it has written to its log."""

    module: str = GENERATOR
    log: IO[bytes] = field(default_factory=tempfile.TemporaryFile)
    process: subprocess.Popen = field(init=False)

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            (*COMMAND, self.module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )

    @property
    def is_alive(self) -> bool:
        """Whether the process can be asked."""
        return self.process.poll() is None

    def ask(self, header: dict[str, Any], payload: bytes) -> Message | None:
        """The answer, or None where the process died or was stopped after `timeout_seconds`."""
        assert self.process.stdin and self.process.stdout
        self.seconds = timeout_seconds()
        self.log.seek(0)
        self.log.truncate()
        timer = threading.Timer(self.seconds, self.process.kill)
        timer.start()
        try:
            write_message(self.process.stdin, header, payload)
            return read_message(self.process.stdout)
        except (OSError, ValueError):
            return None
        finally:
            self.is_late = not timer.is_alive()
            timer.cancel()

    def obituary(self) -> PassError:
        """Why there was no answer, and at which kernel."""
        self.process.kill()  # one that closed its output and lives is of no use either
        code = self.process.wait()
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        kernels = [line.removeprefix(KERNEL) for line in lines if line.startswith(KERNEL)]
        said = [line for line in lines if line.strip() and not line.startswith(KERNEL)]
        at = f" at kernel '{kernels[-1]}'" if kernels else ""
        kernel = kernels[-1] if kernels else ""
        if self.is_late:
            message = f"generating machine code took longer than {self.seconds:g} s and was stopped{at}"
            advice = "If the program is only large, set BLU_CODEGEN_TIMEOUT to more seconds."
            return PassError(message, advice=advice, pass_name=PASS_NAME, level="llvm", operation=kernel)
        cause = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        last = f"; it said: {said[-1][-500:]}" if said else ""
        return PassError(
            f"the code generator died ({cause}){at}{last}", pass_name=PASS_NAME, level="llvm", operation=kernel
        )

    def close(self) -> None:
        """End the process and close what it was spoken to by."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            assert stream is not None
            with contextlib.suppress(OSError):  # what is still buffered for a dead process
                stream.close()


class WorkerPool:
    """Workers that are started when first needed and kept for the next compilation. Threads may share a pool.

    `module` is what they run, which answers by `serve` (worker.py).
    """

    def __init__(self, size: int, module: str = GENERATOR):
        self.size, self.module = size, module
        self._pid = os.getpid()
        self._all: set[Worker] = set()
        self._busy: set[Worker] = set()
        self._idle: queue.SimpleQueue[Worker | None] = queue.SimpleQueue()
        for _ in range(size):
            self._idle.put(None)

    def start(self) -> None:
        """Start all workers now, so that they are ready when the first request comes."""
        for _ in range(self.size):
            try:
                worker = self._idle.get_nowait()
            except queue.Empty:
                return
            self._idle.put(self._alive(worker))

    def ask(self, kind: str, target: dict[str, Any], text: str | bytes) -> bytes:
        """What a worker makes of a text or bytecode. PassError where it refuses, dies or takes too long."""
        worker = self._alive(self._idle.get())
        self._busy.add(worker)
        message = None
        try:
            message = worker.ask({"kind": kind, "target": target}, text.encode() if isinstance(text, str) else text)
            if message is None:
                raise worker.obituary()
            header, payload = message
        finally:
            self._busy.discard(worker)
            self._put_back(worker, has_answered=message is not None)
        if not header["ok"]:
            kernel = header.get("kernel", "")
            at = f" at kernel '{kernel}'" if kernel else ""
            raise PassError(
                f"generating machine code failed{at}: {header['error']}",
                pass_name=PASS_NAME,
                level="llvm",
                operation=kernel,
            )
        return payload

    def side_by_side(self, tasks: Iterable[Task[Made]]) -> list[Made]:
        """What tasks that ask workers, and may do more than that, give; the first begin while others are to come."""
        waiting = WaitingTasks[Made]()
        with ThreadPoolExecutor(max(self.size, _processors())) as executor:
            try:
                futures = []
                for number, task in enumerate(tasks):
                    waiting.put(number, task)
                    futures.append(executor.submit(waiting.do_longest))
                found = dict(future.result() for future in futures)
                return [found[number] for number in range(len(found))]
            except PassError:
                executor.shutdown(wait=False, cancel_futures=True)
                raise
            except BaseException:  # interrupted: nobody waits for the answers
                executor.shutdown(wait=False, cancel_futures=True)
                for worker in list(self._busy):
                    worker.process.kill()
                raise

    def close(self) -> None:
        """End all workers. A fork's copy of the pool leaves them to their owner."""
        if os.getpid() != self._pid:
            return
        for worker in list(self._all):
            worker.close()
        self._all.clear()

    def _alive(self, worker: Worker | None) -> Worker:
        """The worker taken from the queue, or a new one where there was none, or it has died in the meantime."""
        if worker is not None and worker.is_alive:
            return worker
        if worker is not None:
            self._forget(worker)
        try:
            worker = Worker(self.module)
        except BaseException as error:
            self._idle.put(None)
            if isinstance(error, OSError):
                raise PassError(f"the code generator cannot be started: {error}", pass_name=PASS_NAME) from error
            raise
        self._all.add(worker)
        return worker

    def _put_back(self, worker: Worker, *, has_answered: bool) -> None:
        """A worker that owes an answer is ended: the next request would be given that one."""
        if not has_answered:
            self._forget(worker)
        self._idle.put(worker if has_answered else None)

    def _forget(self, worker: Worker) -> None:
        self._all.discard(worker)
        worker.close()


def _processors() -> int:
    return len(os.sched_getaffinity(0))


_pools: dict[int, WorkerPool] = {}


def worker_pool() -> WorkerPool:
    """The pool of this process (a forked child gets its own)."""
    pid = os.getpid()
    if pid not in _pools:
        pool = WorkerPool(min(8, _processors()))
        _pools[pid] = pool
        atexit.register(pool.close)
    return _pools[pid]

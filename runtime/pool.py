"""The native thread pool: starts its threads, and runs launches and launch tables on them (see `pool.ll`)."""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from blu import settings
from blu.errors import BluError, CacheError
from blu.plan.schema import MAX_BLOCKS
from blu.runtime.memory import DATA_FIELD, address_of, allocate_array

VERSION = 2
"""Of the structures shared with `pool.ll` (`blu_pool_version`)."""
_SLICE_NANOSECONDS = 50_000_000
_SPIN = 10_000
_FUTEX = {"x86_64": 202, "aarch64": 98}
_STACK_BYTES = 8 << 20
_CONTROL_WORDS = 24
_CANCEL, _WORKERS, _SPIN_WORD, _FUTEX_WORD = 34, 35, 18, 19

_worker = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_launch = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)
_run = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
)
_place = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 2, ctypes.c_int64, ctypes.c_void_p
)
_begin = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
_version = ctypes.CFUNCTYPE(ctypes.c_int32)


class CodeObject(Protocol):
    """Loaded machine code that owns its memory."""

    def address(self, name: str) -> int:
        """The address of a function; CacheError where there is none of that name."""
        ...


def pool_path() -> Path:
    """The file of the pool's LLVM IR, as written for x86-64."""
    return Path(__file__).with_name("pool.ll")


def pool_text(triple: str = "x86_64-unknown-linux-gnu") -> str:
    """The pool's LLVM IR for a target triple, ready to be compiled into an executable's member `pool.o`."""
    text = pool_path().read_text()
    if triple.startswith("x86_64"):
        return text
    text = text.replace("declare void @llvm.x86.sse2.pause()", "declare void @llvm.aarch64.hint(i32)")
    return text.replace("@llvm.x86.sse2.pause()", "@llvm.aarch64.hint(i32 1)")  # 1 is `yield`


def default_threads() -> int:
    """`BLU_NUM_THREADS`, or one thread for each CPU that this process may use."""
    if asked := settings.current().num_threads:
        return asked
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ThreadPool:
    """`threads` threads (the caller is one of them) that run one launch at a time.

    `code` is the loaded `pool.o`. Workers are daemon threads that stay in native code and hold no interpreter lock.
    `run` and `launch` are for one Python thread at a time: `host.run_exclusively` sees to that.
    """

    def __init__(self, code: CodeObject, threads: int):
        version = _version(code.address("blu_pool_version"))()
        if version != VERSION:
            raise CacheError(
                f"the executable's thread pool has version {version}, this Blu runs version {VERSION}",
                advice="compile the program again",
            )
        self.code = code
        self.threads = threads if platform.system() == "Linux" and platform.machine() in _FUTEX else 1
        self._pid = os.getpid()
        self._control = allocate_array((_CONTROL_WORDS,), np.dtype(np.int64), "the thread pool")
        self._cursor = np.zeros(2, np.int64)
        self._control_at, self._cursor_at = address_of(self._control), address_of(self._cursor)
        self._launch = _launch(code.address("blu_launch"))
        self._run = _run(code.address("blu_run"))
        self._place = _place(code.address("blu_place"))
        self._begin = _begin(code.address("blu_begin"))
        self._start()

    def __repr__(self) -> str:
        return f"ThreadPool(threads={self.threads})"

    def _start(self) -> None:
        self._control.fill(0)
        self._control[_SPIN_WORD] = _SPIN
        self._control[_FUTEX_WORD] = _FUTEX.get(platform.machine(), -1)
        self._flags = self._control.view(np.int32)
        self._flags[_WORKERS] = self.threads - 1
        enter = _worker(self.code.address("blu_worker"))
        # Kernels may put 256 KB arrays on the stack, whatever `ulimit -s` says.
        previous = threading.stack_size(_STACK_BYTES)
        try:
            self._workers = [self._start_worker(enter, number) for number in range(1, self.threads)]
        finally:
            threading.stack_size(previous)

    def _start_worker(self, enter: Callable[[int], None], number: int) -> threading.Thread:
        worker = threading.Thread(target=enter, args=(self._control_at,), name=f"blu-{number}", daemon=True)
        worker.start()
        return worker

    def place(self, objects: int, number: int, addresses: int, moves: int, count: int, args: int) -> None:
        """Write the addresses of as many arrays as `number`, of which `objects` has the `id`s, to `addresses`, and for
        each of `count` moves (slot, source, offset), three int64 each, addresses[source] + offset to args[slot]; the
        pointers are addresses of int64 arrays."""
        self._place(objects, number, DATA_FIELD, addresses, moves, count, args)

    def run(self, table: int, count: int) -> None:
        """Run the `count` launches of the table at address `table`, in order.

        Native code returns every 50 ms, or after the block that is then running, so that signal handlers run:
        KeyboardInterrupt leaves no block behind that is still running.
        """
        self._cursor.fill(0)
        self._flags[_CANCEL] = 0
        self._go_on(table, count)

    def _go_on(self, table: int, count: int, reached: int = -1) -> None:
        """Run what is left of a table, of which native code has come to launch `reached`."""
        while reached < count:
            if self._flags[_CANCEL]:
                raise BluError(f"the run was cancelled at launch {self._cursor[0]} of {count}")
            reached = self._run(self._control_at, table, count, self._cursor_at, _SLICE_NANOSECONDS)

    def request(self, table: int, launches: int, *placing: int) -> np.ndarray:
        """What `begin` takes to run a table after placing arrays, of which `placing` is what `place` is told.

        It is good as long as all of these pointers are, and this pool.
        """
        objects, number, *others = placing
        own = [self._control_at, table, launches, self._cursor_at, _SLICE_NANOSECONDS]
        return np.array([*own, objects, number, DATA_FIELD, *others], np.int64)

    def begin(self, request: int, table: int, launches: int) -> None:
        """`place` and `run`, for the request at an address: half as long as two calls, for small programs."""
        self._go_on(table, launches, self._begin(request))

    def launch(self, function: int, args: int, blocks: int, chunk: int) -> int:
        """Run one launch. Returns how many blocks were run (fewer after `cancel`)."""
        if not 0 <= blocks <= MAX_BLOCKS or chunk < 1:
            raise BluError(f"{blocks=} must be from 0 to {MAX_BLOCKS} and {chunk=} at least 1")
        self._flags[_CANCEL] = 0
        return self._launch(self._control_at, function, args, blocks, chunk)

    def cancel(self) -> None:
        """Make the run in progress stop after the blocks that are running now; its caller gets a BluError."""
        self._flags[_CANCEL] = 1

    def close(self) -> None:
        """End the worker threads. The pool cannot be used afterwards."""
        if self._pid != os.getpid() or not self._workers:
            return
        _worker(self.code.address("blu_stop"))(self._control_at)
        for worker in self._workers:
            worker.join(timeout=1.0)
        self._workers = []
        self._flags[_WORKERS] = 0
        self.threads = 1

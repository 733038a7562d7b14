"""A GPU of Python: a `Driver` whose device memory is the host's, and whose kernels are functions of numpy arrays.

Work is queued as on a real stream and done only when somebody waits: what the host changes or reads too early shows.
So does what one stream takes too early from another: a second stream runs no further than the first waits for, or, if
told so, as far as it can before the first moves. It can be told to fail any call.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.driver.failures import DriverError
from blu.runtime.cuda.driver.launches import BoundLaunch, Graph

Function = Callable[..., None]
Work = Callable[[], None]
MAIN, SECOND = 7, 8
"""Handles of streams."""


def view(address: int, count: int, dtype: Any) -> np.ndarray:
    """`count` elements of "device" memory."""
    dtype = np.dtype(dtype)
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


class FakeDriver(Driver):
    """`kernels` are functions by name: f(threads in all, address of each argument ...).

    `failures[method]` is the error's name with which the next call of a primitive fails, once. `log` lists the
    primitives that were called, kernels by their names. While it `hangs`, no work is ever done. As with PyCUDA, what
    allocates, copies or launches must be in a thread that has entered the device.
    """

    name = "Fake GPU"
    has_graphs = True
    stream = MAIN

    def __init__(self, kernels: dict[str, Function], capability: tuple[int, int] = (9, 0), total_bytes: int = 1 << 24):
        super().__init__()
        self.kernels = kernels
        self.capability = capability
        self.total_bytes = total_bytes
        self.failures: dict[str, str] = {}
        self.log: list[str] = []
        self.modules: list[bytes] = []
        self.hangs = False
        self.is_second_eager = False
        self.shared_bytes: dict[str, int] = {}
        self._device: dict[int, np.ndarray] = {}
        self._pinned: list[np.ndarray] = []
        self._queues: dict[int, list[Work | _Wait]] = {MAIN: [], SECOND: []}
        self._capture: FakeGraph | None = None
        self._entered = threading.local()

    def make_current(self) -> None:
        self._entered.times = getattr(self._entered, "times", 0) + 1

    def leave_current(self) -> None:
        self._entered.times -= 1

    @property
    def allocated_bytes(self) -> int:
        """Bytes of device memory that are allocated."""
        return sum(block.nbytes for block in self._device.values())

    def count(self, name: str) -> int:
        """How often a primitive was called, or a kernel launched."""
        return self.log.count(name)

    def _step(self, name: str) -> None:
        if not getattr(self._entered, "times", 0):
            raise DriverError("CUDA_ERROR_INVALID_CONTEXT", "invalid device context")
        self.log.append(name)
        if name in self.failures:
            raise DriverError(self.failures.pop(name), "as told")

    def enqueue_on(self, stream: int, work: Work) -> None:
        """Enqueue what another library does, on the second stream or the first."""
        self._enqueue(work, stream)

    def _enqueue(self, work: Work, stream: int = MAIN) -> None:
        self._do(lambda: self._queues[stream].append(work), stream)

    def _do(self, call: Work, stream: int) -> None:
        """Make a call that enqueues something, or capture it."""
        if self._capture is not None:
            self._capture.calls.append(call)
            self._capture.open_streams |= {stream}
        else:
            call()

    def _check(self, address: int, nbytes: int) -> None:
        """Only allocated memory may be used."""
        inside = any(start <= address and address + nbytes <= start + b.nbytes for start, b in self._device.items())
        assert inside, f"{nbytes} bytes at {address:#x} are not the device's"

    def load_module(self, image: bytes) -> Any:
        self._step("load_module")
        self.modules.append(image)
        return image

    def unload_module(self, module: Any) -> None:
        self._step("unload_module")
        self.modules.remove(module)

    def function(self, module: Any, name: str, shared_bytes: int) -> Any:
        self._step("function")
        self.shared_bytes[name] = shared_bytes
        return self.kernels[name]

    def pinned(self, nbytes: int) -> np.ndarray:
        self._step("pinned")
        self._pinned.append(np.empty(nbytes, np.uint8))
        return self._pinned[-1]

    def copy_in(self, address: int, source: int, nbytes: int) -> None:
        self._step("copy_in")
        self._check(address, nbytes)
        places = [(block.ctypes.data, block.nbytes) for block in self._pinned]
        is_pinned = any(start <= source < start + size for start, size in places)
        # As the real one: ordinary memory is read before the call returns, page-locked memory later.
        data = view(source, nbytes, np.uint8) if is_pinned else view(source, nbytes, np.uint8).copy()
        self._enqueue(lambda: np.copyto(view(address, nbytes, np.uint8), data))

    def copy_out(self, target: int, address: int, nbytes: int) -> None:
        self._step("copy_out")
        self._check(address, nbytes)
        self._enqueue(lambda: np.copyto(view(target, nbytes, np.uint8), view(address, nbytes, np.uint8)))

    def copy(self, target: int, address: int, nbytes: int) -> None:
        self._step("copy")
        self._check(target, nbytes)
        self._enqueue(lambda: np.copyto(view(target, nbytes, np.uint8), view(address, nbytes, np.uint8)))

    def event(self, is_timed: bool = True) -> Any:
        return {"reached": 0, "recorded": 0}

    def open_stream(self) -> int:
        self._step("open_stream")
        return SECOND

    def record_on(self, stream: int, event: Any) -> None:
        self._step(f"record_on {stream}")

        def record() -> None:
            event["recorded"] += 1
            self._queues[stream].append(lambda: event.update(reached=event["reached"] + 1))

        self._do(record, stream)

    def record(self, event: Any) -> None:
        event["recorded"] += 1
        self._enqueue(lambda: event.update(reached=event["reached"] + 1))

    def wait(self, event: Any) -> None:
        self._step("wait")
        while event["reached"] < event["recorded"] and self._advance(MAIN):
            pass

    def is_reached(self, event: Any) -> bool:
        return event["reached"] == event["recorded"]

    def let_wait(self, stream: int, event: Any) -> None:
        self._step(f"let_wait {stream}")
        if stream in self._queues:
            self._do(lambda: self._queues[stream].append(_Wait(event, event["recorded"])), stream)
            if self._capture is not None and stream == MAIN:
                self._capture.open_streams -= {SECOND}

    def microseconds(self, start: Any, end: Any) -> float:
        assert start["reached"] and end["reached"], "events that the GPU has not reached"
        return 1.5

    @contextmanager
    def capturing(self) -> Iterator[list[Graph]]:
        self._step("capture")
        graphs: list[Graph] = []
        self._capture = graph = FakeGraph(self)
        try:
            yield graphs
        finally:
            self._capture = None
        if SECOND in graph.open_streams:
            raise DriverError("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "a stream was not joined")
        graphs.append(graph)

    def _raw_allocate(self, nbytes: int) -> int:
        self._step("allocate")
        if self.allocated_bytes + nbytes > self.total_bytes:
            raise DriverError("CUDA_ERROR_OUT_OF_MEMORY", "out of memory")
        raw = np.empty(nbytes + 256, np.uint8)
        start = -raw.ctypes.data % 256
        block = raw[start : start + nbytes]
        block.fill(0xAA)
        self._device[block.ctypes.data] = block
        return block.ctypes.data

    def _raw_free(self, address: int) -> None:
        self._run_queue()
        del self._device[address]

    def _memory(self) -> tuple[int, int]:
        return self.total_bytes - self.allocated_bytes, self.total_bytes

    def _launch(self, kernel: BoundLaunch) -> None:
        self._step(kernel.name)
        if self._capture is not None:
            self._capture.add(kernel)
        else:
            self._enqueue(_call(kernel, kernel.values.tolist()))

    def _count_kernel(self) -> None:
        self._capture.count_kernel()

    def _is_done(self) -> bool:
        if self.hangs:
            return False
        self._step("synchronize")
        self._run_queue()
        return True

    def _run_queue(self) -> None:
        while self._advance(MAIN):
            pass

    def _advance(self, stream: int) -> bool:
        """Do the next work of a stream; False where there is none, or it waits for what cannot come."""
        if stream == MAIN and self.is_second_eager:
            while self._advance(SECOND):
                pass
        queue = self._queues[stream]
        if queue and isinstance(queue[0], _Wait):
            while not queue[0].is_over():
                if stream == SECOND:
                    return False
                assert self._advance(SECOND), "the streams wait for each other"
            queue.pop(0)
        elif queue:
            queue.pop(0)()
        else:
            return False
        return True


@dataclass(frozen=True)
class _Wait:
    """A stream waits until an event was reached so often."""

    event: dict[str, int]
    count: int

    def is_over(self) -> bool:
        return self.event["reached"] >= self.count


class FakeGraph(Graph):
    """What was captured, as calls that are made again: kernels keep the arguments that they had then."""

    def __init__(self, driver: FakeDriver):
        self._driver = driver
        self._places: list[int] = []
        self.calls: list[Work] = []
        self.open_streams: set[int] = set()

    def add(self, kernel: BoundLaunch) -> None:
        """Capture a launch."""
        self.calls.append(self._launch_of(kernel))

    def count_kernel(self) -> None:
        """What was captured last is the next kernel."""
        self._places.append(len(self.calls) - 1)

    def update(self, index: int, kernel: BoundLaunch) -> None:
        self._driver._step("update")
        self.calls[self._places[index]] = self._launch_of(kernel)

    def launch(self) -> None:
        self._driver._step("replay")
        for call in self.calls:
            call()

    def _launch_of(self, kernel: BoundLaunch) -> Work:
        work = _call(kernel, kernel.values.tolist())
        return lambda: self._driver._queues[MAIN].append(work)


def _call(kernel: BoundLaunch, values: list[int]) -> Work:
    threads = kernel.threads * kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    return lambda: kernel.function(threads, *values)

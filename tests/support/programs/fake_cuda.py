"""A GPU of Python: a `Driver` whose device memory is the host's, and whose kernels are functions of numpy arrays.

Work is queued as on a real stream and done only when somebody waits: what the host changes or reads too early shows.
It can be told to fail any call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from blu.runtime.cuda.driver.driver import BoundLaunch, Driver, Graph
from blu.runtime.cuda.driver.failures import DriverError

Function = Callable[..., None]
Work = Callable[[], None]


def view(address: int, count: int, dtype: Any) -> np.ndarray:
    """`count` elements of "device" memory."""
    dtype = np.dtype(dtype)
    raw = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, dtype)


class FakeDriver(Driver):
    """`kernels` are functions by name: f(threads in all, address of each argument ...).

    `failures[method]` is the error's name with which the next call of a primitive fails, once. `log` lists the
    primitives that were called, kernels by their names. While it `hangs`, no work is ever done.
    """

    name = "Fake GPU"
    has_graphs = True
    stream = 7

    def __init__(self, kernels: dict[str, Function], capability: tuple[int, int] = (9, 0), total_bytes: int = 1 << 24):
        super().__init__()
        self.kernels = kernels
        self.capability = capability
        self.total_bytes = total_bytes
        self.failures: dict[str, str] = {}
        self.log: list[str] = []
        self.modules: list[bytes] = []
        self.hangs = False
        self.shared_bytes: dict[str, int] = {}
        self._device: dict[int, np.ndarray] = {}
        self._pinned: list[np.ndarray] = []
        self._queue: list[Work] = []
        self._capture: FakeGraph | None = None

    @property
    def allocated_bytes(self) -> int:
        """Bytes of device memory that are allocated."""
        return sum(block.nbytes for block in self._device.values())

    def count(self, name: str) -> int:
        """How often a primitive was called, or a kernel launched."""
        return self.log.count(name)

    def _step(self, name: str) -> None:
        self.log.append(name)
        if name in self.failures:
            raise DriverError(self.failures.pop(name), "as told")

    def _enqueue(self, work: Work) -> None:
        if self._capture is not None:
            self._capture.work.append(work)
        else:
            self._queue.append(work)

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

    def event(self) -> Any:
        return {"reached": 0, "recorded": 0}

    def record(self, event: Any) -> None:
        event["recorded"] += 1
        self._enqueue(lambda: event.update(reached=event["reached"] + 1))

    def wait(self, event: Any) -> None:
        self._step("wait")
        while self._queue and event["reached"] < event["recorded"]:
            self._queue.pop(0)()

    def is_reached(self, event: Any) -> bool:
        return event["reached"] == event["recorded"]

    def let_wait(self, stream: int, event: Any) -> None:
        self._step(f"let_wait {stream}")

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
            self._queue.append(_call(kernel, kernel.values.tolist()))

    def _is_done(self) -> bool:
        if self.hangs:
            return False
        self._step("synchronize")
        self._run_queue()
        return True

    def _run_queue(self) -> None:
        while self._queue:
            self._queue.pop(0)()


class FakeGraph(Graph):
    """What was captured: kernels keep the arguments that they had then."""

    def __init__(self, driver: FakeDriver):
        self._driver = driver
        self._places: list[int] = []
        self.work: list[Work] = []

    def add(self, kernel: BoundLaunch) -> None:
        """Capture a launch."""
        self._places.append(len(self.work))
        self.work.append(_call(kernel, kernel.values.tolist()))

    def update(self, index: int, kernel: BoundLaunch) -> None:
        self._driver._step("update")
        self.work[self._places[index]] = _call(kernel, kernel.values.tolist())

    def launch(self) -> None:
        self._driver._step("replay")
        self._driver._queue += self.work


def _call(kernel: BoundLaunch, values: list[int]) -> Work:
    threads = kernel.threads * kernel.grid[0] * kernel.grid[1] * kernel.grid[2]
    return lambda: kernel.function(threads, *values)

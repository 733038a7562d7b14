"""What Blu needs of the CUDA driver, whichever library reaches it: `bindings.py`, `pycuda.py`, or a test's own.

One device (the first that is visible, or the one of this rank's number), its primary context (which torch and others in
the process share), one stream on which all of Blu's work runs in order. The stream waits for the legacy default stream
and it for ours, so arrays can be handed to and from torch's default stream as they are. What ranks exchange runs on a
second stream, which begins and ends within a program's run (`second_stream.py`).
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from blu import settings
from blu.errors import BluError, OutOfRangeError
from blu.plan.schema import TensorMap
from blu.runtime.cuda.driver.failures import DriverError, Named, explain, no_library, out_of_memory
from blu.runtime.cuda.driver.guards import Exclusive, Explained
from blu.runtime.cuda.driver.launches import BoundCall, BoundLaunch, Graph, Step
from blu.runtime.cuda.driver.second_stream import SecondStream
from blu.runtime.cuda.findings import Findings
from blu.runtime.cuda.pool import DeviceMemoryPool
from blu.runtime.cuda.staging import Staging

ALIGNMENT = 256
"""Bytes: what every address that the driver allocates is a multiple of."""
_REMEMBERED_RUNS = 64
_SPIN_SECONDS, _LONGEST_BREAK = 0.002, 0.01
PATIENCE = 60.0
"""Seconds after which the log says that the GPU is still at work."""
LAST_SECONDS = 2.0
"""How long the end of the process waits for what runs have found."""

logger = logging.getLogger("blu")


class Driver:
    """The device, its memory, its one stream. The methods above `# primitives` are for Blu, those below are each
    library's; they raise DriverError, which Blu's turn into errors for the user. Addresses are ints.
    """

    name = "GPU"
    capability = (0, 0)
    number = 0
    """Of the device, among those that the process sees."""
    has_graphs = False
    hands_over = False
    """Whether kernels may write to page-locked memory, and the driver assembles PTX."""
    hand_over: Any = None
    """The kernel that hands over what checks have found (hand_over.py), once it is loaded."""
    stream = 0

    def __init__(self) -> None:
        self._exclusive = Exclusive(self)
        self._recent: deque[Sequence[Named]] = deque(maxlen=_REMEMBERED_RUNS)
        self.pool = DeviceMemoryPool(self._raw_allocate, self._raw_free)
        self.staging = Staging(self)
        self.findings = Findings(self)
        self._discarded: deque[Callable[[], None]] = deque()
        self._events: list[Any] = []
        self.second = SecondStream(self)
        # Entered while the host waits for the GPU, and so maybe for other ranks.
        self.waiting: Callable[[], AbstractContextManager[None]] = nullcontext

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}, compute capability {self.capability[0]}.{self.capability[1]})"

    def exclusively(self) -> Exclusive:
        """Let the calling thread, and no other, use the device. Raises what lost the context, if it is lost."""
        return self._exclusive

    def discard(self, release: Callable[[], None]) -> None:
        """Have something given back when the GPU is used next: objects die in any thread, in the middle of anything."""
        self._discarded.append(release)

    def release_discarded(self) -> None:
        """Give back what was discarded, if anything was, once the GPU is done with it."""
        if not self._discarded:
            return
        self.synchronize()
        while self._discarded:
            self._discarded.popleft()()

    def explained(self, doing: str, launch: Named | None = None) -> Explained:
        """Turn a failure inside into an error that says what was being done."""
        return Explained(self, doing, launch)

    def allocate(self, nbytes: int, purpose: str) -> int:
        """The address of `nbytes` bytes; OutOfMemoryError where there is no room."""
        try:
            return self.pool.allocate(nbytes)
        except DriverError as failure:
            if failure.name != "CUDA_ERROR_OUT_OF_MEMORY":
                raise self.explanation(failure, f"allocate {purpose}", None) from None
            raise out_of_memory(nbytes, purpose, *self._memory()) from None

    def free(self, address: int, nbytes: int) -> None:
        """Give memory back. Work that was enqueued before may still use it: what uses it next is enqueued later."""
        self.pool.free(address, nbytes)

    def encode_map(self, map_: TensorMap, address: int) -> bytes:
        """The 128 bytes of a tensor map of elements at `address`, tiles swizzled by the bytes of their rows."""
        from blu.runtime.cuda.driver.bindings import encode_map

        return encode_map(map_, address)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device's memory."""
        with self.explained("ask for the free memory"):
            return self._memory()

    def run(self, steps: Sequence[Step]) -> None:
        """Enqueue kernels, and what is between them, one by one."""
        for step in steps:
            self._recent.append((step,))
            try:
                self._start(step)
            except DriverError as failure:
                doing = f"{'enqueue' if isinstance(step, BoundCall) else 'launch the kernel'} {step.name!r}"
                raise self.explanation(failure, doing, step) from None

    def replay(self, graph: Graph, steps: Sequence[Step]) -> None:
        """Enqueue a graph, which was captured from these steps."""
        self._recent.append(steps)
        with self.explained("launch a graph"):
            graph.launch()

    def capture(self, steps: Sequence[Step], before: Callable[[], None]) -> Graph:
        """A graph of what `before` enqueues, and the steps, of which it counts the kernels."""

        def enqueue() -> None:
            before()
            for step in steps:
                self._start(step)
                if isinstance(step, BoundLaunch):
                    self._count_kernel()

        with self.explained("capture a graph"):
            return self._captured(enqueue)

    def timed(self, kernels: Sequence[BoundLaunch], graph: bool) -> Callable[[], list[float]]:
        """A function that runs kernels and returns the microseconds of each.

        In a graph no kernel waits for the host, whose time would otherwise count where kernels are short.
        """
        events = self._first_events(len(kernels) + 1)

        def enqueue() -> None:
            for kernel, event in zip(kernels, events, strict=False):
                self.record(event)
                self._launch(replace(kernel, early=False))
            self.record(events[-1])

        enqueue()  # the driver may load code only now
        self._wait_until(self._is_done)
        captured = self._captured(enqueue) if graph else None

        def run() -> list[float]:
            self._recent.append(kernels)
            captured.launch() if captured else enqueue()
            self._wait_until(self._is_done)
            return [self.microseconds(start, end) for start, end in pairwise(events)]

        return run

    def let_stream_wait(self, stream: int) -> None:
        """Let another library's stream wait for what is enqueued on ours."""
        with self.explained("order two streams"):
            [event] = self._first_events(1)
            self.record(event)
            self.let_wait(stream, event)

    def wait_for(self, stream: int) -> None:
        """Let our stream wait for what is enqueued on another library's."""
        with self.explained("order two streams"):
            [event] = self._first_events(1)
            self.record_on(stream, event)
            self.let_wait(self.stream, event)

    def _start(self, step: Step) -> None:
        if isinstance(step, BoundCall):
            step.enqueue()
        elif isinstance(step, BoundLaunch):
            self._launch(step)
        else:
            raise AssertionError(f"{step.name} is for who goes through the steps")

    def _first_events(self, count: int) -> list[Any]:
        """Events that are kept for the next use."""
        self._events += [self.event() for _ in range(count - len(self._events))]
        return self._events[:count]

    def _captured(self, enqueue: Callable[[], None]) -> Graph:
        with self.capturing() as graphs:
            enqueue()
        return graphs[0]

    def synchronize(self) -> None:
        """Wait until all enqueued work is done. Ctrl-C ends the waiting (not the work)."""
        with self.explained("wait for the GPU"):
            self._wait_until(self._is_done)
        self._recent.clear()

    def finish(self) -> None:
        """Wait until all enqueued work is done, and raise what the checks of runs have found."""
        self.synchronize()
        self.findings.read(keep=0)

    def wait(self, event: Any) -> None:
        """Wait until the GPU has reached the event (or return at once, if it was never recorded)."""
        self._wait_until(lambda: self.is_reached(event))

    def _wait_until(self, is_done: Callable[[], bool]) -> None:
        """Ask again and again: a driver's own waiting would not let signal handlers run. The breaks grow to a
        thousandth of the time waited so far."""
        start = time.perf_counter()
        warned = False
        with self.waiting():
            while not is_done():
                if (waited := time.perf_counter() - start) > _SPIN_SECONDS:
                    time.sleep(min(waited / 1000, _LONGEST_BREAK))
                if waited > PATIENCE and not warned:
                    warned = True
                    logger.warning("the GPU has been at work for %.0f s%s", waited, self._at_work())

    def _at_work(self) -> str:
        names = sorted({launch.name for group in self._recent for launch in group})
        return f", with {', '.join(names[:8])}{' and others' if len(names) > 8 else ''}" if names else ""

    def explanation(self, failure: DriverError, doing: str, launch: Named | None) -> BluError:
        since = [item for group in self._recent for item in group] if failure.is_fatal else ()
        error = explain(failure, doing, launch, since)
        if failure.is_fatal:
            self._exclusive.lost = error
        return error

    # primitives

    def make_current(self) -> None:
        """Make the context the calling thread's."""

    def leave_current(self) -> None:
        """The calling thread does not use the context any more."""

    def load_module(self, image: bytes) -> Any:
        """Load a cubin, or PTX (which the driver compiles)."""
        raise NotImplementedError

    def unload_module(self, module: Any) -> None:
        """Forget a module; its functions are not used any more."""
        raise NotImplementedError

    def function(self, module: Any, name: str, shared_bytes: int) -> Any:
        """A kernel of a module, allowed this much shared memory."""
        raise NotImplementedError

    def pinned(self, nbytes: int) -> np.ndarray:
        """Bytes of page-locked host memory, which copies on the stream read and write while the host goes on."""
        raise NotImplementedError

    def copy_in(self, address: int, source: int, nbytes: int) -> None:
        """Enqueue a copy from host address `source`."""
        raise NotImplementedError

    def copy_out(self, target: int, address: int, nbytes: int) -> None:
        """Enqueue a copy to host address `target`."""
        raise NotImplementedError

    def copy(self, target: int, address: int, nbytes: int) -> None:
        """Enqueue a copy within the device's memory."""
        raise NotImplementedError

    def event(self, is_timed: bool = True) -> Any:
        """An event, which can measure time or only keep streams in order."""
        raise NotImplementedError

    def record(self, event: Any) -> None:
        """Enqueue the event; in a capture, as a part of the graph that measures time."""
        raise NotImplementedError

    def let_wait(self, stream: int, event: Any) -> None:
        """Make a stream wait for an event."""
        raise NotImplementedError

    def open_stream(self) -> int:
        """The handle of another stream, which waits for no other by itself."""
        raise NotImplementedError

    def record_on(self, stream: int, event: Any) -> None:
        """Enqueue an event on a stream, for others to wait for: a stream that waits for one of a capture joins it."""
        raise NotImplementedError

    @property
    def working_stream(self) -> int:
        """The handle of the stream that calls enqueue on now: ours, or that of a capture."""
        return self.stream

    def microseconds(self, start: Any, end: Any) -> float:
        """The time between two events that the GPU has reached."""
        raise NotImplementedError

    @contextmanager
    def capturing(self) -> Iterator[list[Graph]]:
        """Capture what is enqueued inside, instead of running it; the list holds the graph afterwards."""
        raise NotImplementedError
        yield

    def _count_kernel(self) -> None:
        """In a capture: what was just enqueued is the next kernel of `Graph.update`."""

    def _raw_allocate(self, nbytes: int) -> int:
        raise NotImplementedError

    def _raw_free(self, address: int) -> None:
        raise NotImplementedError

    def _memory(self) -> tuple[int, int]:
        raise NotImplementedError

    def _launch(self, kernel: BoundLaunch) -> None:
        raise NotImplementedError

    def _is_done(self) -> bool:
        """Whether all enqueued work is done."""
        raise NotImplementedError

    def is_reached(self, event: Any) -> bool:
        """Whether the GPU has reached an event; true of one that was never recorded."""
        raise NotImplementedError


_driver: Driver | None = None
_opening = threading.Lock()


def default_driver() -> Driver:
    """The process's driver, opened at the first call. UnsupportedError where there is no library, driver or GPU."""
    global _driver
    with _opening:
        if _driver is None:
            try:
                _driver = _open()
            except DriverError as failure:
                raise explain(failure, "open the GPU") from None
            atexit.register(report_unread, _driver)
        return _driver


def report_unread(driver: Driver) -> None:
    """Log what runs have found that nobody has read, at the process's end; a GPU that hangs does not hold it up."""
    end = time.monotonic() + LAST_SECONDS
    while len(driver.findings) and time.monotonic() < end:
        try:
            with driver.exclusively():
                driver.findings.read()
        except OutOfRangeError as error:
            logger.error("found when the process ended: %s", error)
        except BluError:
            return
        time.sleep(_SPIN_SECONDS)


def use_driver(driver: Driver | None) -> None:
    """Let programs that are loaded from now on use this driver (tests); None opens one when it is needed."""
    global _driver
    _driver = driver


def _open() -> Driver:
    """PyCUDA with cuda-bindings for graphs, or cuda-bindings for all; BLU_CUDA_DRIVER=pycuda|bindings chooses."""
    asked = settings.current().cuda_driver
    reasons = []
    for library in (asked,) if asked else ("pycuda", "bindings"):
        try:
            return _open_library(library)
        except (ImportError, RuntimeError, OSError) as error:
            reasons.append(f"{library}: {error}")
    raise no_library("; ".join(reasons))


def _open_library(library: str) -> Driver:
    if library == "pycuda":
        from blu.runtime.cuda.driver.pycuda import PycudaDriver

        return PycudaDriver()
    from blu.runtime.cuda.driver.bindings import BindingsDriver

    return BindingsDriver()

"""The CUDA driver by PyCUDA: context, memory, streams. Graphs and kernels are left to cuda-bindings.

Both libraries work on the same primary context and stream. So do events, but PyCUDA tells no handle of its own, which
graphs and other libraries' streams need, and cannot launch a kernel that begins early: events and kernels are
cuda-bindings' too, where it is installed.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from blu.errors import UnsupportedError
from blu.runtime.cuda.driver.bindings import BindingsDriver, load_bindings
from blu.runtime.cuda.driver.choice import device_of_rank
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.driver.failures import DriverError
from blu.runtime.cuda.driver.launches import BoundLaunch, Graph

# What cuGetErrorString says, which is all that PyCUDA tells.
_NAMES = {
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "an illegal memory access was encountered": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "misaligned address": "CUDA_ERROR_MISALIGNED_ADDRESS",
    "an illegal instruction was encountered": "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    "operation not supported on global/shared address space": "CUDA_ERROR_INVALID_ADDRESS_SPACE",
    "invalid program counter": "CUDA_ERROR_INVALID_PC",
    "hardware stack error": "CUDA_ERROR_HARDWARE_STACK_ERROR",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "the launch timed out and was terminated": "CUDA_ERROR_LAUNCH_TIMEOUT",
    "device-side assert triggered": "CUDA_ERROR_ASSERT",
    "uncorrectable ECC error encountered": "CUDA_ERROR_ECC_UNCORRECTABLE",
    "context is destroyed": "CUDA_ERROR_CONTEXT_IS_DESTROYED",
    "driver shutting down": "CUDA_ERROR_DEINITIALIZED",
    "no CUDA-capable device is detected": "CUDA_ERROR_NO_DEVICE",
    "CUDA driver version is insufficient for CUDA runtime version": "CUDA_ERROR_INSUFFICIENT_DRIVER",
    "CUDA driver is a stub library": "CUDA_ERROR_STUB_LIBRARY",
    "no kernel image is available for execution on the device": "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "device kernel image is invalid": "CUDA_ERROR_INVALID_IMAGE",
    "a PTX JIT compilation failed": "CUDA_ERROR_INVALID_PTX",
    "the provided PTX was compiled with an unsupported toolchain.": "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    "PTX JIT compiler library not found": "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    "too many resources requested for launch": "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
}


class PycudaDriver(BindingsDriver):
    """A device and its primary context, through PyCUDA; without cuda-bindings, programs run without graphs."""

    def __init__(self) -> None:
        Driver.__init__(self)
        import pycuda.driver as cuda  # type: ignore[import-not-found]

        self._pycuda = cuda
        self._allocations: dict[int, Any] = {}
        self._try(cuda.init)
        self.number = device_of_rank(self._try(cuda.Device.count))
        device = self._try(cuda.Device, self.number)
        self._context = self._try(device.retain_primary_context)
        self.name = device.name()
        self.capability = device.compute_capability()
        # Context, stream and events live to the end of the process.
        atexit.register(self._close)
        with self._current():
            self._py_stream: Any = self._try(cuda.Stream)
            self.stream = self._py_stream.handle
            self._py_capture_stream: Any = self._try(cuda.Stream, 1)
        self._open_graphs()

    def _open_graphs(self) -> None:
        try:
            self.cuda = load_bindings()
        except (ImportError, RuntimeError):
            self.has_graphs = self.hands_over = False
            return
        self._call(self.cuda.cuInit, 0)
        self._stream = self.cuda.CUstream(self.stream)
        self._capture_stream = self.cuda.CUstream(self._py_capture_stream.handle)

    def _close(self) -> None:
        """PyCUDA ends the process with an error where streams outlive it or a context is still pushed."""
        self._context.push()
        self._py_stream = self._py_capture_stream = None
        self._context.pop()
        self._context.detach()

    def _try(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except self._pycuda.Error as error:
            text = str(error).split(" failed: ", 1)[-1].split(" - ", 1)[0].strip()
            raise DriverError(_NAMES.get(text, "CUDA error"), str(error)) from None

    def make_current(self) -> None:
        """PyCUDA keeps a stack of contexts for each thread, which must be empty when the thread ends."""
        self._context.push()

    def leave_current(self) -> None:
        self._context.pop()

    @contextmanager
    def _current(self) -> Iterator[None]:
        self.make_current()
        try:
            yield
        finally:
            self.leave_current()

    def load_module(self, image: bytes) -> Any:
        if self.has_graphs:
            return super().load_module(image)
        return self._try(self._pycuda.module_from_buffer, image if image.startswith(b"\x7fELF") else image + b"\0")

    def unload_module(self, module: Any) -> None:
        """PyCUDA unloads a module that nothing refers to any more; here the context is there in which it can."""
        if self.has_graphs:
            super().unload_module(module)

    def function(self, module: Any, name: str, shared_bytes: int) -> Any:
        if self.has_graphs:
            return super().function(module, name, shared_bytes)
        function = self._try(module.get_function, name)
        if shared_bytes > 48 << 10:
            attribute = self._pycuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._try(function.set_attribute, attribute, shared_bytes)
        return function

    def pinned(self, nbytes: int) -> np.ndarray:
        return super().pinned(nbytes) if self.has_graphs else self._try(self._pycuda.pagelocked_empty, nbytes, np.uint8)

    def event(self, is_timed: bool = True) -> Any:
        return super().event(is_timed) if self.has_graphs else self._try(self._pycuda.Event)

    def record(self, event: Any) -> None:
        if self.has_graphs:
            super().record(event)
        else:
            self._try(event.record, self._py_stream)

    def copy_in(self, address: int, source: int, nbytes: int) -> None:
        self._try(self._pycuda.memcpy_htod_async, address, _bytes_at(source, nbytes), self._py_stream)

    def copy_out(self, target: int, address: int, nbytes: int) -> None:
        self._try(self._pycuda.memcpy_dtoh_async, _bytes_at(target, nbytes), address, self._py_stream)

    def copy(self, target: int, address: int, nbytes: int) -> None:
        self._try(self._pycuda.memcpy_dtod_async, target, address, nbytes, self._py_stream)

    def let_wait(self, stream: int, event: Any) -> None:
        if self.has_graphs:
            super().let_wait(stream, event)
        else:
            self.wait(event)

    def open_stream(self) -> int:
        if not self.has_graphs:
            raise UnsupportedError("programs of several ranks need cuda-bindings", advice="pip install 'blu[cuda]'")
        return super().open_stream()

    def microseconds(self, start: Any, end: Any) -> float:
        return super().microseconds(start, end) if self.has_graphs else 1e3 * self._try(end.time_since, start)

    @contextmanager
    def capturing(self) -> Iterator[list[Graph]]:
        stream, self._py_stream = self._py_stream, self._py_capture_stream
        try:
            with super().capturing() as graphs:
                yield graphs
        finally:
            self._py_stream = stream

    def _raw_allocate(self, nbytes: int) -> int:
        allocation = self._try(self._pycuda.mem_alloc, nbytes)
        self._allocations[int(allocation)] = allocation
        return int(allocation)

    def _raw_free(self, address: int) -> None:
        with self._current():
            self._try(self._allocations.pop(address).free)

    def _memory(self) -> tuple[int, int]:
        free, total = self._try(self._pycuda.mem_get_info)
        return free, total

    def _launch(self, kernel: BoundLaunch) -> None:
        if self.has_graphs:
            super()._launch(kernel)
            return
        block, stream, data = (kernel.threads, 1, 1), self._py_stream, kernel.values.tobytes()
        self._try(kernel.function._launch_kernel, kernel.grid, block, data, kernel.shared_bytes, stream)

    def _is_done(self) -> bool:
        return self._try(self._py_stream.is_done)

    def is_reached(self, event: Any) -> bool:
        return super().is_reached(event) if self.has_graphs else self._try(event.query)


def _bytes_at(address: int, nbytes: int) -> Any:
    """Host memory as an object with Python's buffer interface."""
    return (ctypes.c_uint8 * nbytes).from_address(address)

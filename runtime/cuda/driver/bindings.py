"""The CUDA driver by NVIDIA's cuda-bindings alone."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np

from blu.plan.schema import MAP_BYTES, MAP_DTYPES, TensorMap
from blu.runtime.cuda.driver.choice import device_of_rank
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.driver.failures import DriverError
from blu.runtime.cuda.driver.launches import BoundLaunch, Graph


class BindingsDriver(Driver):
    """A device and its primary context, through `cuda.bindings.driver`."""

    has_graphs = True
    hands_over = True
    _is_capturing = False
    _captured_kernels: list[Any]

    def __init__(self) -> None:
        super().__init__()
        self.cuda = load_bindings()
        self._call(self.cuda.cuInit, 0)
        self.number = device_of_rank(self._call(self.cuda.cuDeviceGetCount))
        device = self._call(self.cuda.cuDeviceGet, self.number)
        self._context = self._call(self.cuda.cuDevicePrimaryCtxRetain, device)
        self._call(self.cuda.cuCtxSetCurrent, self._context)
        self.name = self._call(self.cuda.cuDeviceGetName, 128, device).split(b"\0")[0].decode()
        attribute = self.cuda.CUdevice_attribute
        self.capability = (
            self._call(self.cuda.cuDeviceGetAttribute, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
            self._call(self.cuda.cuDeviceGetAttribute, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        )
        self._open_streams()

    def _open_streams(self) -> None:
        """The stream; and another one to capture on, since capturing on a blocking one fails the default stream's."""
        self._stream = self._call(self.cuda.cuStreamCreate, 0)
        self.stream = int(self._stream)
        self._capture_stream = self._call(self.cuda.cuStreamCreate, 1)

    def _call(self, function: Any, *arguments: Any) -> Any:
        """What a function of the driver returns beside its status."""
        status, *results = function(*arguments)
        if status:
            raise self._failure(status)
        return results[0] if len(results) == 1 else results

    def _failure(self, status: Any) -> DriverError:
        known, text = self.cuda.cuGetErrorString(status)
        name = getattr(status, "name", str(status))
        return DriverError(name, "" if known or text is None else text.decode(errors="replace"))

    def make_current(self) -> None:
        with self.explained("use the GPU"):
            self._call(self.cuda.cuCtxSetCurrent, self._context)

    def load_module(self, image: bytes) -> Any:
        # PTX is text that ends with a zero byte.
        return self._call(self.cuda.cuModuleLoadData, image if image.startswith(b"\x7fELF") else image + b"\0")

    def unload_module(self, module: Any) -> None:
        self._call(self.cuda.cuModuleUnload, module)

    def function(self, module: Any, name: str, shared_bytes: int) -> Any:
        function = self._call(self.cuda.cuModuleGetFunction, module, name.encode())
        if shared_bytes > 48 << 10:
            attribute = self.cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call(self.cuda.cuFuncSetAttribute, function, attribute, shared_bytes)
        return function

    def pinned(self, nbytes: int) -> np.ndarray:
        address = int(self._call(self.cuda.cuMemHostAlloc, nbytes, 0))
        memory = (ctypes.c_uint8 * nbytes).from_address(address)
        release = partial(self._call, self.cuda.cuMemFreeHost, address)
        weakref.finalize(memory, self.discard, release).atexit = False
        return np.ctypeslib.as_array(memory)

    def copy_in(self, address: int, source: int, nbytes: int) -> None:
        self._call(self.cuda.cuMemcpyHtoDAsync, address, source, nbytes, self._stream)

    def copy_out(self, target: int, address: int, nbytes: int) -> None:
        self._call(self.cuda.cuMemcpyDtoHAsync, target, address, nbytes, self._stream)

    def copy(self, target: int, address: int, nbytes: int) -> None:
        self._call(self.cuda.cuMemcpyDtoDAsync, target, address, nbytes, self._stream)

    def event(self, is_timed: bool = True) -> Any:
        # 2 is CU_EVENT_DISABLE_TIMING.
        return self._call(self.cuda.cuEventCreate, 0 if is_timed else 2)

    def record(self, event: Any) -> None:
        # 1 is CU_EVENT_RECORD_EXTERNAL: a node of the graph.
        self._call(self.cuda.cuEventRecordWithFlags, event, self._stream, int(self._is_capturing))

    def let_wait(self, stream: int, event: Any) -> None:
        self._call(self.cuda.cuStreamWaitEvent, stream, event, 0)

    def open_stream(self) -> int:
        # As the stream of captures, of which it becomes a branch. Ranks wait for what they exchange: it goes first.
        _, first = self._call(self.cuda.cuCtxGetStreamPriorityRange)
        return int(self._call(self.cuda.cuStreamCreateWithPriority, 1, first))

    def record_on(self, stream: int, event: Any) -> None:
        self._call(self.cuda.cuEventRecord, event, stream)

    @property
    def working_stream(self) -> int:
        return int(self._stream)

    def microseconds(self, start: Any, end: Any) -> float:
        return 1e3 * self._call(self.cuda.cuEventElapsedTime, start, end)

    @contextmanager
    def capturing(self) -> Iterator[list[Graph]]:
        """Let the capture stream be the stream for a while."""
        stream, self._stream, self._is_capturing = self._stream, self._capture_stream, True
        self._captured_kernels = []
        relaxed = self.cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        graphs: list[Graph] = []
        try:
            self._call(self.cuda.cuStreamBeginCapture, self._capture_stream, relaxed)
            try:
                yield graphs
            finally:
                captured = self._call(self.cuda.cuStreamEndCapture, self._capture_stream)
        finally:
            self._stream, self._is_capturing = stream, False
        graphs.append(_CapturedGraph(self, captured, self._captured_kernels))

    def _count_kernel(self) -> None:
        # What is captured next on this stream depends on what was captured last.
        dependencies = self._call(self.cuda.cuStreamGetCaptureInfo, self._stream)[3]
        [node] = dependencies
        self._captured_kernels.append(node)

    def _raw_allocate(self, nbytes: int) -> int:
        return int(self._call(self.cuda.cuMemAlloc, nbytes))

    def _raw_free(self, address: int) -> None:
        self.cuda.cuCtxSetCurrent(self._context)
        self.cuda.cuMemFree(address)  # after a lost context this fails, and there is nothing left to free

    def _memory(self) -> tuple[int, int]:
        free, total = self._call(self.cuda.cuMemGetInfo)
        return free, total

    def _launch(self, kernel: BoundLaunch) -> None:
        (x, y, z), stream = kernel.grid, self._stream
        if kernel.early and self._has_early_launches:
            self._call(self.cuda.cuLaunchKernelEx, self._early(kernel), kernel.function, kernel.pointers, 0)
            return
        (status,) = self.cuda.cuLaunchKernel(
            kernel.function, x, y, z, kernel.threads, 1, 1, kernel.shared_bytes, stream, kernel.pointers, 0
        )
        if status:
            raise self._failure(status)

    @cached_property
    def _has_early_launches(self) -> bool:
        # Graphs have edges that let them begin from CUDA 12.3 on.
        return self._call(self.cuda.cuDriverGetVersion) >= 12030

    def _early(self, kernel: BoundLaunch) -> Any:
        """How a kernel is launched that waits for the one before it by itself."""
        if kernel.prepared is None or kernel.prepared[0] != self._stream:
            kernel.prepared = self._stream, self._early_config(kernel)
        return kernel.prepared[1]

    def _early_config(self, kernel: BoundLaunch) -> Any:
        config, attribute = self.cuda.CUlaunchConfig(), self.cuda.CUlaunchAttribute()
        attribute.id = self.cuda.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        config.gridDimX, config.gridDimY, config.gridDimZ = kernel.grid
        config.blockDimX, config.blockDimY, config.blockDimZ = kernel.threads, 1, 1
        config.sharedMemBytes, config.hStream = kernel.shared_bytes, self._stream
        config.attrs, config.numAttrs = [attribute], 1
        return config

    def _is_done(self) -> bool:
        return self._ask(self.cuda.cuStreamQuery, self._stream)

    def is_reached(self, event: Any) -> bool:
        return self._ask(self.cuda.cuEventQuery, event)

    def _ask(self, query: Any, handle: Any) -> bool:
        (status,) = query(handle)
        if status and status != self.cuda.CUresult.CUDA_ERROR_NOT_READY:
            raise self._failure(status)
        return not status


class _CapturedGraph(Graph):
    """A graph with the nodes of those of its kernels that are Blu's; other libraries' are beside them."""

    def __init__(self, driver: BindingsDriver, graph: Any, kernels: list[Any]):
        self._driver = driver
        self._nodes = kernels
        self._parameters = [driver._call(driver.cuda.cuGraphKernelNodeGetParams, node) for node in kernels]
        self._ready = driver._call(driver.cuda.cuGraphInstantiate, graph, 0)
        destroyed = (driver.cuda.cuGraphExecDestroy, self._ready), (driver.cuda.cuGraphDestroy, graph)
        self._releases = [partial(driver._call, destroy, handle) for destroy, handle in destroyed]

    def update(self, index: int, kernel: BoundLaunch) -> None:
        cuda, parameters = self._driver.cuda, self._parameters[index]
        parameters.kernelParams, parameters.extra = kernel.pointers, 0
        with self._driver.explained("update a graph", kernel):
            self._driver._call(cuda.cuGraphExecKernelNodeSetParams, self._ready, self._nodes[index], parameters)

    def launch(self) -> None:
        (status,) = self._driver.cuda.cuGraphLaunch(self._ready, self._driver._stream)
        if status:
            raise self._driver._failure(status)

    def __del__(self) -> None:
        # Only what a finished __init__ has made is there to be given back; at the process's end no function is.
        for release in getattr(self, "_releases", ()):
            self._driver.discard(release)


def load_bindings() -> Any:
    """The module `cuda.bindings.driver`; ImportError or RuntimeError where it, or the driver's library, is missing."""
    from cuda.bindings import driver  # type: ignore[attr-defined]

    return driver


def encode_map(map_: TensorMap, address: int) -> bytes:
    """The 128 bytes that the driver makes of a tensor map: rows swizzled by their bytes, zeros outside of it."""
    cuda = load_bindings()
    kinds = cuda.CUtensorMapDataType
    kind = {
        "bf16": kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        "f16": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        "f32": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        "tf32": kinds.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
        "f8e4m3": kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        "f8e5m2": kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8,
        "i8": kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8,
    }[map_.dtype]
    modes = cuda.CUtensorMapSwizzle
    # Rows of other bytes than i8 are 128 bytes.
    swizzle = modes.CU_TENSOR_MAP_SWIZZLE_64B if map_.dtype == "i8" else modes.CU_TENSOR_MAP_SWIZZLE_128B
    rank, size = len(map_.shape), MAP_DTYPES[map_.dtype]
    status, encoded = cuda.cuTensorMapEncodeTiled(
        kind,
        rank,
        address,
        [cuda.cuuint64_t(item) for item in map_.shape],
        [cuda.cuuint64_t(item * size) for item in map_.strides[1:]],
        [cuda.cuuint32_t(item) for item in map_.box],
        [cuda.cuuint32_t(1)] * rank,
        cuda.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        swizzle,
        cuda.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        cuda.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if status:
        raise DriverError(getattr(status, "name", str(status)), f"no tensor map of {map_} at {address:#x}")
    return ctypes.string_at(int(encoded.getPtr()), MAP_BYTES)

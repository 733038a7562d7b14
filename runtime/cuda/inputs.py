"""Makes what a user passes fit for a kernel on the GPU: there, of the right dtype and shape, contiguous, aligned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from blu.errors import ArgumentError
from blu.plan.tensors import TensorSpec
from blu.runtime.arguments import accept, check_type
from blu.runtime.array import Array, is_on_device
from blu.runtime.cuda.array import ALIGNMENT, DeviceArray, from_device, kind_of
from blu.runtime.cuda.driver.driver import Driver
from blu.runtime.cuda.torch_tensors import TorchTensors

_HOST = (np.ndarray, np.generic, bool, int, float)


class Inputs:
    """The arguments of a program. Those that come from host memory are copied into buffers that are kept for them."""

    def __init__(self, driver: Driver, specs: Sequence[TensorSpec]):
        self._driver = driver
        self._specs = specs
        self._kinds = [kind_of(spec.shape, spec.numpy_dtype) for spec in specs]
        self._buffers: dict[int, DeviceArray] = {}
        self._tensors = TorchTensors(driver, self._kinds)

    def place(self, values: Sequence[Any]) -> list[DeviceArray]:
        """The arguments on the device; enqueues the copies."""
        placed = [
            value if type(value) is DeviceArray and value.kind is kind else None
            for value, kind in zip(values, self._kinds, strict=True)
        ]
        self._tensors.read(values, placed)
        placed = [self._bring(values[index], index) if item is None else item for index, item in enumerate(placed)]
        self._driver.staging.finish()
        return placed

    def copy_of(self, index: int, array: DeviceArray) -> DeviceArray:
        """A copy on the device that nothing else refers to."""
        copy = self._empty(index)
        self._driver.copy(copy.address, array.address, array.nbytes)
        return copy

    def _bring(self, value: Any, index: int) -> DeviceArray:
        spec, array = self._specs[index], on_device(value)
        if array is None:
            return self._copy_in(spec, accept(spec, value, index, overwrite=True), index)
        check_type(spec, array, index)
        return self.copy_of(index, array) if array.address % ALIGNMENT else array

    def _copy_in(self, spec: TensorSpec, array: np.ndarray, index: int) -> DeviceArray:
        """A donated argument becomes a result, so it gets memory of its own."""
        target = self._empty(index) if spec.donated else self._buffers.get(index)
        if target is None:
            target = self._buffers[index] = self._empty(index)
        self._driver.staging.copy_in(target.address, array)
        return target

    def _empty(self, index: int) -> DeviceArray:
        spec = self._specs[index]
        return DeviceArray.empty(self._driver, spec.shape, spec.numpy_dtype, f"the argument {spec.name or index!r}")


def on_device(value: Any) -> DeviceArray | None:
    """A value that is an array in GPU memory; None for others."""
    if isinstance(value, DeviceArray):
        return value
    if isinstance(value, (*_HOST, Array)) or not is_on_device(value):
        return None
    return from_device(value)


def accept_result(spec: TensorSpec, value: Any, index: int) -> DeviceArray:
    """An array on the device that the caller wants a result in; it must fit exactly."""
    array = on_device(value)
    if array is None:
        raise ArgumentError(
            f"the array for result {index} is a {type(value).__name__} in host memory",
            advice="pass an array on the GPU (blu.runtime.cuda.to_device), or none",
        )
    check_type(spec, array, index, f"the array for result {index}")
    if array.address % ALIGNMENT:
        raise ArgumentError(f"the array for result {index} does not lie at a multiple of {ALIGNMENT} bytes")
    return array

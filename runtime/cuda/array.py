"""`DeviceArray`: an `Array` in a GPU's memory. torch, CuPy and others read it without a copy; `numpy()` copies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from blu.errors import ArgumentError
from blu.plan.tensors import NAMES
from blu.runtime.array import Array, is_on_device
from blu.runtime.cuda import exchange
from blu.runtime.cuda.block import DeviceBlock
from blu.runtime.cuda.driver.driver import Driver, default_driver
from blu.runtime.memory import address_of, allocate_array

ALIGNMENT = 16
"""Bytes: kernels read and write vectors of this size."""

Kind = tuple[tuple[int, ...], np.dtype]
_kinds: dict[Kind, Kind] = {}


def kind_of(shape: tuple[int, ...], dtype: np.dtype) -> Kind:
    """The one object that stands for a shape and dtype, so that many arguments are compared in no time."""
    return _kinds.setdefault((shape, dtype), (shape, dtype))


class DeviceArray(Array):
    """An array in the memory of this process's GPU, contiguous. As an argument of a program there it is not copied.

    `address` is where it lies, `owner` what keeps that memory, `kind` its shape and dtype if kernels can take it as it
    lies. Work on Blu's stream may still be writing it: reading it by `numpy()` waits, and the legacy default stream
    (torch's) waits for Blu's by itself. As a donated argument it is given away: the result has its memory.
    """

    __slots__ = ("address", "dtype", "kind", "owner", "shape")

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype, owner: Any):
        self.address = address
        self.shape = shape
        self.dtype = dtype
        self.owner = owner
        self.kind = None if address % ALIGNMENT else kind_of(shape, dtype)

    @classmethod
    def empty(cls, driver: Driver, shape: tuple[int, ...], dtype: np.dtype, purpose: str = "an array") -> DeviceArray:
        """Memory of undefined contents."""
        block = DeviceBlock(driver, math.prod(shape) * dtype.itemsize, purpose)
        return cls(block.address, shape, dtype, block)

    @classmethod
    def of_kind(cls, address: int, kind: Kind, owner: Any) -> DeviceArray:
        """One that kernels can take as it lies: `address` is a multiple of 16 bytes. Without a look at its kind."""
        found = object.__new__(cls)
        found.address, found.kind, found.owner = address, kind, owner
        found.shape, found.dtype = kind
        return found

    is_shared = False

    def moved(self) -> DeviceArray:
        """Another array with the same memory, for when this one is given away."""
        other = object.__new__(DeviceArray)
        other.address, other.shape, other.dtype, other.owner = self.address, self.shape, self.dtype, self.owner
        other.kind = self.kind
        return other

    def give_away(self, taker: str) -> None:
        """Forget the memory; `taker` says who has it now."""
        self._taken, self.kind = taker, None
        del self.address, self.owner

    def in_host_memory(self) -> np.ndarray:
        """A copy there."""
        return self.numpy()

    @property
    def device(self) -> str:
        """Which GPU has the elements: "cuda:0" is the first."""
        return f"cuda:{default_driver().number}"

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def numpy(self) -> np.ndarray:
        """A copy in host memory. Waits for the GPU; raises what runs before have found (OutOfRangeError), and
        DeviceError where a kernel has failed."""
        driver = default_driver()
        copy = allocate_array(self.shape, self.dtype, "a copy of an array on the GPU")
        with driver.exclusively():
            if copy.nbytes:
                driver.synchronize()  # the copy would wait itself, deaf to signals and unseen by who watches ranks
                with driver.explained("copy an array from the GPU"):
                    driver.copy_out(address_of(copy), self.address, copy.nbytes)
            driver.finish()
        return copy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("an array on the GPU cannot be read without a copy")
        return self.numpy().astype(dtype or self.dtype, copy=False)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        _read_findings()
        return exchange.interface_of(self.address if self.size else 0, self.shape, self.dtype)

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None
    ) -> Any:
        """A DLPack capsule that shares the memory; `stream` is the reader's, which waits for Blu's."""
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise exchange.ExchangeError("an array on the GPU is handed over without a copy", advice="use .numpy()")
        _read_findings()
        # The legacy default stream (none or 1) waits for ours by itself; -1 means that nothing is to wait.
        if stream not in (None, -1, 0, 1):
            driver = default_driver()
            with driver.exclusively():
                driver.let_stream_wait(stream)
        return exchange.capsule_of(self, default_driver().number)

    def __dlpack_device__(self) -> tuple[int, int]:
        return exchange.CUDA, default_driver().number

    def __getitem__(self, key: Any) -> Any:
        """Numbers of leading dimensions read that part only; all else is numpy's, on a copy of the whole."""
        where = key if isinstance(key, tuple) else (key,)
        if len(where) > self.ndim or not all(type(item) is int for item in where):
            return Array(self.numpy())[key]
        shape, place = self.shape[len(where) :], 0
        for item, size in zip(where, self.shape, strict=False):
            if not -size <= item < size:
                raise IndexError(f"index {item} is out of bounds for a dimension of size {size}")
            place = place * size + item % size
        part = math.prod(shape) * self.dtype.itemsize
        return Array(DeviceArray(self.address + place * part, shape, self.dtype, self).numpy())

    def __repr__(self) -> str:
        return super().__repr__()[:-1] + ("" if self.is_donated else f", device=cuda:{default_driver().number}") + ")"

    __hash__ = object.__hash__


def _read_findings() -> None:
    """Before an array is handed over: raise what the checks of runs before have found. Waits where there are any."""
    driver = default_driver()
    if len(driver.findings):
        with driver.exclusively():
            driver.findings.read(keep=0)


def to_device(value: Any) -> DeviceArray:
    """An array (numpy's or any that numpy reads) in the GPU's memory; one that is there already is itself."""
    if isinstance(value, DeviceArray):
        return value
    if is_on_device(value):
        return from_device(value)
    array = np.require(value, requirements="C")
    dtype = array.dtype.newbyteorder("=")
    if dtype not in NAMES and dtype not in exchange.COMPLEX:
        raise ArgumentError(f"Blu has no arrays of {array.dtype.name}", advice=f"it has {', '.join(NAMES.values())}")
    driver = default_driver()
    with driver.exclusively():
        found = DeviceArray.empty(driver, array.shape, dtype)
        if array.nbytes:
            array = array.astype(dtype, copy=False)
            with driver.explained("copy an array to the GPU"):
                driver.copy_in(found.address, address_of(array), array.nbytes)
            driver.synchronize()
    return found


def repeated(values: np.ndarray, shape: tuple[int, ...]) -> DeviceArray:
    """An array in the GPU's memory that holds these values (of one dimension) over and over."""
    driver = default_driver()
    first = to_device(values[: math.prod(shape)])
    with driver.exclusively():
        found = DeviceArray.empty(driver, shape, values.dtype)
        with driver.explained("fill an array on the GPU"):
            if found.nbytes:
                driver.copy(found.address, first.address, first.nbytes)
            done = first.nbytes
            while done < found.nbytes:  # what there is, once more
                more = min(done, found.nbytes - done)
                driver.copy(found.address + done, found.address, more)
                done += more
        driver.synchronize()
    return found


def from_device(value: Any) -> DeviceArray:
    """Another library's array in the GPU's memory, without a copy. ArgumentError where it is not contiguous."""
    driver = default_driver()
    address, shape, dtype = exchange.read(value, driver.stream, driver.number)
    return DeviceArray(address, shape, dtype, value)


def from_dlpack(value: Any) -> Array:
    """Any library's array, by DLPack and without a copy, where it is: in host memory or on this process's GPU."""
    return from_device(value) if is_on_device(value) else Array(np.from_dlpack(value))

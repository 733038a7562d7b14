"""`Array`: the value that compiled functions return."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blu.errors import ArgumentError, UnsupportedError

# Attributes that a donated array has lost.
_MEMORY = ("_value", "address", "owner")


class ExchangeError(UnsupportedError, BufferError):
    """An array that DLPack cannot describe."""


class Array:
    """An array as a compiled function returns it, in host memory. It cannot be changed, only read and passed on.

    (In a GPU's memory it is a `blu.runtime.cuda.DeviceArray`.)

    `shape`, `dtype`, `ndim`, `size` and `nbytes` are numpy's. numpy, torch and others read it without a copy, by
    `__array__` and DLPack. Computing is for compiled functions (or numpy): arithmetic and comparisons raise TypeError.

    An Array that was given to a program as a donated argument is gone: reading it raises ArgumentError, which names
    the program and the line that took it. While `is_shared`, somebody else may read the memory (a view, another
    library): as a donated argument it is copied, as numpy's arrays are.
    """

    __slots__ = ("__weakref__", "_taken", "_value", "is_shared")

    def __init__(self, value: np.ndarray, *, is_shared: bool = True):
        assert isinstance(value, np.ndarray), f"Array wraps numpy arrays, not {type(value).__name__}"
        self._value = value
        self.is_shared = is_shared

    def __getattr__(self, name: str) -> Any:
        """Only what is missing gets here: the memory of an array that was donated."""
        if name not in _MEMORY:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise ArgumentError(
            f"the array was donated to {self._taken}, which may have overwritten it",
            advice="use the result that took its place, or donate a copy",
        )

    def give_away(self, taker: str) -> None:
        """Forget the memory; `taker` says who has it now."""
        self._taken = taker
        del self._value

    @property
    def is_donated(self) -> bool:
        """Whether the array was given to a program, so that it cannot be read any more."""
        return hasattr(self, "_taken")

    shape = property(lambda self: self._value.shape, doc="The sizes of the dimensions.")
    dtype = property(lambda self: self._value.dtype, doc="numpy's dtype (ml_dtypes' for bfloat16).")
    ndim = property(lambda self: self._value.ndim, doc="The number of dimensions.")
    size = property(lambda self: self._value.size, doc="The number of elements.")
    nbytes = property(lambda self: self._value.nbytes, doc="The bytes of all elements.")

    def numpy(self) -> np.ndarray:
        """The same memory as a numpy array that cannot be written; `.numpy().copy()` can."""
        view = self._value.view()
        view.flags.writeable = False
        self.is_shared = True
        return view

    def in_host_memory(self) -> np.ndarray:
        """The elements for somebody who reads them at once and keeps no view."""
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.in_host_memory() if copy else self.numpy(), dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule that shares the memory. numpy cannot export bfloat16: go through float32 or uint16."""
        if self._value.dtype.kind not in "biufc":
            raise ExchangeError(
                f"numpy cannot hand over {self._value.dtype.name} by DLPack",
                advice="pass .numpy().view('uint16') and view it as bfloat16 there, or .numpy().astype('float32')",
            )
        self.is_shared = True
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value.__dlpack_device__()

    def item(self) -> bool | int | float:
        """The only element as a Python number; ValueError where there are more or none."""
        value = self.in_host_memory().item()
        return value if isinstance(value, bool | int | float) else float(value)

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number where there are no dimensions)."""
        value = self.in_host_memory()
        return value.tolist() if value.dtype.kind in "biuf" else value.astype(np.float64).tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.in_host_memory())

    def __index__(self) -> int:
        return operator.index(self.in_host_memory())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an Array without dimensions")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        return Array(np.asarray(self.numpy()[key.in_host_memory() if isinstance(key, Array) else key]))

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("cannot iterate over an Array without dimensions")
        value = self.numpy()
        return (Array(np.asarray(value[index])) for index in range(len(value)))

    def __repr__(self) -> str:
        if self.is_donated:
            return f"Array(donated to {self._taken})"
        with np.printoptions(threshold=20, edgeitems=2, precision=5):
            text = np.array2string(self.in_host_memory(), prefix="Array(", separator=", ")
        return f"Array({text}, shape={self.shape}, dtype={self.dtype.name})"

    __hash__ = object.__hash__


def _refuse(name: str) -> Callable[..., Any]:
    def method(self: Array, *operands: Any) -> Any:
        # As in NumPy, an operand of higher priority (a traced tensor) has its own operator tried.
        if operands and getattr(operands[0], "__array_priority__", 0) > 0:
            return NotImplemented
        raise TypeError(f"Array has no {name}: compute in a function under blu.jit, or on .numpy()")

    return method


_REFUSED = "add sub mul truediv floordiv mod pow matmul and or xor neg abs invert eq ne lt le gt ge"
for _name in _REFUSED.split():
    setattr(Array, f"__{_name}__", _refuse(f"__{_name}__"))

"""`Array`: the value that compiled functions return."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blu.errors import UnsupportedError


class ExchangeError(UnsupportedError, BufferError):
    """An array that DLPack cannot describe."""


class Array:
    """An array as a compiled function returns it, in host memory. It cannot be changed, only read and passed on.

    (In a GPU's memory it is a `blu.runtime.cuda.DeviceArray`.)

    `shape`, `dtype`, `ndim`, `size` and `nbytes` are numpy's. numpy, torch and others read it without a copy, by
    `__array__` and DLPack; `numpy()` is the array itself. Computing is for compiled functions (or numpy): arithmetic
    and comparisons raise TypeError.
    """

    __slots__ = ("__weakref__", "_value")

    def __init__(self, value: np.ndarray):
        assert isinstance(value, np.ndarray), f"Array wraps numpy arrays, not {type(value).__name__}"
        self._value = value

    shape = property(lambda self: self._value.shape, doc="The sizes of the dimensions.")
    dtype = property(lambda self: self._value.dtype, doc="numpy's dtype (ml_dtypes' for bfloat16).")
    ndim = property(lambda self: self._value.ndim, doc="The number of dimensions.")
    size = property(lambda self: self._value.size, doc="The number of elements.")
    nbytes = property(lambda self: self._value.nbytes, doc="The bytes of all elements.")

    def numpy(self) -> np.ndarray:
        """The numpy array itself, without a copy."""
        return self._value

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._value, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """A DLPack capsule that shares the memory. numpy cannot export bfloat16: go through float32 or uint16."""
        if self._value.dtype.kind not in "biufc":
            raise ExchangeError(
                f"numpy cannot hand over {self._value.dtype.name} by DLPack",
                advice="pass .numpy().view('uint16') and view it as bfloat16 there, or .numpy().astype('float32')",
            )
        return self._value.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value.__dlpack_device__()

    def item(self) -> bool | int | float:
        """The only element as a Python number; ValueError where there are more or none."""
        value = self.numpy().item()
        return value if isinstance(value, bool | int | float) else float(value)

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number where there are no dimensions)."""
        value = self.numpy()
        return value.tolist() if value.dtype.kind in "biuf" else value.astype(np.float64).tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __index__(self) -> int:
        return operator.index(self.numpy())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an Array without dimensions")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Array:
        return Array(np.asarray(self.numpy()[key.numpy() if isinstance(key, Array) else key]))

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("cannot iterate over an Array without dimensions")
        value = self.numpy()
        return (Array(np.asarray(value[index])) for index in range(len(value)))

    def __repr__(self) -> str:
        with np.printoptions(threshold=20, edgeitems=2, precision=5):
            text = np.array2string(self.numpy(), prefix="Array(", separator=", ")
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

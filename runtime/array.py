"""`Array`: the value that compiled functions return."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from types import MethodType
from typing import Any, NoReturn

import numpy as np

from blu.errors import ArgumentError, UnsupportedError, no_attribute

# Attributes that a donated array has lost.
_MEMORY = ("_value", "address", "owner")
# What arrays compute with: functions on arrays, by the names of methods. There are none where programs only run.
_functions: Mapping[str, Callable[..., Any]] = {}


CUDA = 2
"""What DLPack calls the memory of a GPU of NVIDIA's."""


def is_on_device(value: Any) -> bool:
    """Whether a value is an array in GPU memory, of any library."""
    if isinstance(value, np.ndarray):
        return False
    device = getattr(value, "__dlpack_device__", None)
    return device()[0] == CUDA if device is not None else hasattr(value, "__cuda_array_interface__")


class ExchangeError(UnsupportedError, BufferError):
    """An array that DLPack cannot describe."""


class Array:
    """An array as a compiled function returns it, in host memory. It cannot be changed, only read and passed on.

    (In a GPU's memory it is a `blu.runtime.cuda.DeviceArray`.)

    `shape`, `dtype`, `ndim`, `size` and `nbytes` are numpy's. numpy, torch and others read it without a copy, by
    `__array__` and DLPack. Operators and methods (`x.sum(axis=0)`) are Blu's functions, each of which compiles itself;
    where only the runtime is loaded, they raise TypeError. Indexing is numpy's, and gives views.

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
        """Methods, and what is missing: the memory of an array that was donated."""
        if name in _functions:
            return MethodType(_functions[name], self)
        if name not in _MEMORY:
            raise no_attribute(f"{type(self).__name__!r} object", name, self.__dir__)
        raise ArgumentError(
            f"the array was donated to {self._taken}, which may have overwritten it",
            advice="use the result that took its place, or donate a copy",
        )

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *(name for name in _functions if not name.startswith("__"))})

    def give_away(self, taker: str) -> None:
        """Forget the memory; `taker` says who has it now."""
        self._taken = taker
        del self._value

    @property
    def taker(self) -> str:
        """The program that the array was given to, and the line that did it; "" if it was not."""
        return getattr(self, "_taken", "")

    @property
    def is_donated(self) -> bool:
        """Whether the array was given to a program, so that it cannot be read any more."""
        return hasattr(self, "_taken")

    shape = property(operator.attrgetter("_value.shape"), doc="The sizes of the dimensions.")
    dtype = property(operator.attrgetter("_value.dtype"), doc="numpy's dtype (ml_dtypes' for bfloat16).")
    ndim = property(lambda self: self._value.ndim, doc="The number of dimensions.")
    size = property(lambda self: self._value.size, doc="The number of elements.")
    nbytes = property(lambda self: self._value.nbytes, doc="The bytes of all elements.")

    @property
    def device(self) -> str:
        """Where the elements are: "cpu", or "cuda:0" in the memory of the first GPU."""
        return "cpu"

    @property
    def T(self) -> Array:
        """The array with its dimensions in reverse order."""
        return self._computed("transpose")

    @property
    def mT(self) -> Array:
        """The matrices of the last two dimensions transposed."""
        return self._computed("matrix_transpose")

    @property
    def real(self) -> Array:
        """The real part: of real numbers the array itself."""
        return self._computed("real")

    @property
    def imag(self) -> Array:
        """The imaginary part: of real numbers zeros."""
        return self._computed("imag")

    @property
    def at(self) -> Any:
        """`x.at[key].set(values)`, and add, multiply, divide, min, max: an array with other elements there."""
        return self._computed("at")

    def _computed(self, name: str, *operands: Any) -> Any:
        """What the function of that name gives for the array."""
        if name not in _functions:
            raise TypeError(f"Array has no {name} here: compute in a function under blu.jit, or on .numpy()")
        return _functions[name](self, *operands)

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

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, keywords: Any) -> Any:
        """NumPy's functions read numpy's arrays, and do not look for methods of their names."""
        if not all(issubclass(kind, Array | np.ndarray) for kind in types):
            return NotImplemented
        return function(*_as_numpys(arguments), **_as_numpys(keywords))

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A DLPack capsule that shares the memory. numpy cannot export bfloat16: go through float32 or uint16."""
        if self._value.dtype.kind not in "biufc":
            raise ExchangeError(
                f"numpy cannot hand over {self._value.dtype.name} by DLPack",
                advice="pass .numpy().view('uint16') and view it as bfloat16 there, or .numpy().astype('float32')",
            )
        self.is_shared = True
        return self._value.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._value.__dlpack_device__()

    def item(self) -> Any:
        """The only element as a Python number; ValueError where there are more or none."""
        value = self.in_host_memory().item()
        return value if isinstance(value, bool | int | float | complex) else float(value)

    def tolist(self) -> Any:
        """Nested lists of Python numbers (a number where there are no dimensions)."""
        value = self.in_host_memory()
        return value.tolist() if value.dtype.kind in "biufc" else value.astype(np.float64).tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        return bool(self.in_host_memory())

    def __index__(self) -> int:
        return operator.index(self.in_host_memory())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an Array without dimensions")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if any(map(_is_traced, key if isinstance(key, tuple) else (key,))):
            return self.at[key].get()
        return Array(np.asarray(self.numpy()[key.in_host_memory() if isinstance(key, Array) else key]))

    def __setitem__(self, key: Any, value: Any, /) -> NoReturn:
        raise ArgumentError(
            f"{type(self).__name__} cannot be changed in place: arrays are values, which programs share",
            advice="Make another one: x.at[key].set(values), or change x.numpy().copy().",
        )

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


def _as_numpys(value: Any) -> Any:
    """A value, or what is nested in it, with numpy's arrays in place of Blu's."""
    if isinstance(value, dict):
        return {name: _as_numpys(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(_as_numpys, value))
    return value.numpy() if isinstance(value, Array) else value


def _is_traced(value: Any) -> bool:
    """Whether it stands for numbers of a compiled function, which Blu's functions know what to do with."""
    return getattr(value, "__array_priority__", 0) > getattr(Array, "__array_priority__", 0)


def compute_with(functions: Mapping[str, Callable[..., Any]]) -> None:
    """Let operators and methods of arrays be these functions, in which an array is the first argument.

    Of an array of numpy's and one of Blu's, operators give one of Blu's from then on.
    """
    global _functions
    _functions = functions
    Array.__array_priority__ = 100  # type: ignore[attr-defined]


# Operators know nothing of these. (A union of types would be made anew in each call.)
_NO_OPERANDS = (str, bytes, list, tuple, dict, set)


def _unary(name: str) -> Callable[[Array], Any]:
    return lambda self: self._computed(name)


def _binary(name: str, reflected: bool = False) -> Callable[[Array, Any], Any]:
    def method(self: Array, other: Any) -> Any:
        # As in NumPy, an operand of higher priority (a traced tensor) has its own operator tried.
        if getattr(other, "__array_priority__", 0) > getattr(self, "__array_priority__", 0):
            return NotImplemented
        if other is None or isinstance(other, _NO_OPERANDS):
            return NotImplemented
        if not reflected or name not in _functions:
            return self._computed(name, other)
        return _functions[name](other, self)

    return method


_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}
_BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "left_shift",
    "rshift": "right_shift",
}
_COMPARISONS = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
for _name, _function in _UNARY.items():
    setattr(Array, f"__{_name}__", _unary(_function))
for _name, _function in (*_BINARY.items(), *_COMPARISONS.items()):
    setattr(Array, f"__{_name}__", _binary(_function))
for _name, _function in _BINARY.items():
    setattr(Array, f"__r{_name}__", _binary(_function, reflected=True))

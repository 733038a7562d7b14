"""Constants, dtypes, and functions of dtypes. The dtypes are NumPy's objects, to which those of tensors are equal."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.arithmetic import astype as converted
from blu.dialects.tensor.function import is_tracing, told
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError
from blu.frontend.functional.interchange import to_device

__all__ = [
    "astype",
    "bfloat16",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "e",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

bool = np.dtype(np.bool_)
int8, int16, int32, int64 = map(np.dtype, (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64))
float16, bfloat16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
float32, float64 = np.dtype(np.float32), np.dtype(np.float64)
complex64, complex128 = np.dtype(np.complex64), np.dtype(np.complex128)

KINDS: dict[str, tuple[np.dtype, ...]] = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16, uint32, uint64),
    "real floating": (float32, float64, float16, bfloat16),
    "complex floating": (complex64, complex128),
}
KINDS["integral"] = KINDS["signed integer"] + KINDS["unsigned integer"]
KINDS["numeric"] = KINDS["integral"] + KINDS["real floating"] + KINDS["complex floating"]
ON_HOST = frozenset((complex64, complex128))  # no kernel has them


def dtype_of(value: Any) -> np.dtype:
    """NumPy's dtype for a dtype of NumPy's or Blu's, or for that of an array or tensor. DTypeError for others."""
    found = value if isinstance(value, np.dtype | DType | type) else getattr(value, "dtype", value)
    if isinstance(found, DType):
        return found.numpy
    try:
        return np.dtype(found)
    except TypeError:
        raise DTypeError(f"{value!r} is no dtype, and no array that has one") from None


@told
def astype(x: Any, dtype: Any, /, *, copy: builtins.bool = True, device: str | None = None) -> Any:
    """x in another dtype; itself where it has that one and `copy` is false. Complex numbers do not become real ones.

    DTypeError for that, and for what is no dtype.
    """
    target = dtype_of(dtype)
    if not isinstance(x, Tensor) and not is_tracing():
        if x.dtype.kind == "c" and target.kind not in "cb":
            raise DTypeError(f"complex numbers do not become {target.name}", advice="Take real(x) first.")
        if x.dtype == target and not copy:
            return to_device(x, device)
        if {x.dtype, target} & ON_HOST or x.dtype == target:
            return to_device(HOOKS.compiler.run_on_host(_cast, (x, target), {}), device)
    return to_device(converted(x, target), device)


def is_summed_on_host(x: Any, dtype: Any) -> builtins.bool:
    """Whether no kernel has an array's dtype or that of its sum, which are complex."""
    if isinstance(x, Tensor) or is_tracing():
        return False
    total = dtype_of(dtype) if dtype is not None else x.dtype
    return not ON_HOST.isdisjoint((x.dtype, total))


def summed_on_host(function: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """NumPy's function that adds or multiplies, in the `dtype` that is asked for: a real one takes real parts."""

    def run(x: np.ndarray, dtype: np.dtype | None, **options: Any) -> np.ndarray:
        is_cast = np.iscomplexobj(x) and dtype is not None and dtype.kind != "c"
        return function(np.real(x) if is_cast else x, dtype=dtype, **options)

    return run


def _cast(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return x.astype(dtype)


@told
def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether promotion with `to` (a dtype) gives `to` for a dtype or array. DTypeError for what is neither."""
    source, target = dtype_of(from_), dtype_of(to)
    try:
        return result_type(source, target) == target
    except TypeError:
        return False


@told
def result_type(*arrays_and_dtypes: Any) -> np.dtype:
    """The dtype that arrays, dtypes and Python numbers give together, as in NumPy. At least one is no number.

    DTypeError for what is none of them.
    """
    numbers = (builtins.bool, int, float, complex)
    items = [item if type(item) in numbers else dtype_of(item) for item in arrays_and_dtypes]
    if not items or all(type(item) in numbers for item in items):
        raise ValueError("result_type needs at least one array or dtype")
    return np.result_type(*items)


@told
def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a dtype is another, or of a kind ("integral", "real floating" ...), or of one of several.

    DTypeError for what is none.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, item) for item in kind)
    if isinstance(kind, str):
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r} of dtypes: there are {', '.join(KINDS)}")
        return dtype_of(dtype) in KINDS[kind]
    return dtype_of(dtype) == dtype_of(kind)


@dataclass(frozen=True)
class FloatInfo:
    """What a float dtype can say. Of complex numbers, it is that of their parts."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype


@dataclass(frozen=True)
class IntegerInfo:
    """What an integer dtype can say."""

    bits: int
    max: int
    min: int
    dtype: np.dtype


@told
def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or of an array's. DTypeError for integers."""
    dtype = dtype_of(type)
    if not isdtype(dtype, ("real floating", "complex floating")):
        raise DTypeError(f"{dtype.name} has no finfo: it is no float", advice="Take iinfo.")
    part = np.finfo(dtype).dtype if dtype.kind == "c" else dtype
    found = ml_dtypes.finfo(part)
    numbers = (float(item) for item in (found.eps, found.max, found.min, found.smallest_normal))
    return FloatInfo(found.bits, *numbers, dtype=part)


@told
def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of an array's. DTypeError for others."""
    dtype = dtype_of(type)
    if not isdtype(dtype, "integral"):
        raise DTypeError(f"{dtype.name} has no iinfo: it is no integer", advice="Take finfo.")
    found = np.iinfo(dtype)
    return IntegerInfo(found.bits, int(found.max), int(found.min), dtype)

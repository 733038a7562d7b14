"""`Spec`: the shape and dtype of an array that a function is traced with, without the array."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import (
    DType,
    TensorType,
    as_dtype,
    check_size,
    complex128,
    complex_dtype,
    f64,
    i64,
)
from blu.errors import ArgumentError, DTypeError
from blu.frontend.tracing.complex_leaves import pairs_type
from blu.frontend.tracing.tree import Static, register_leaf

INT64 = np.iinfo(np.int64)
_DLPACK_CUDA = 2

register_leaf(DType)  # a dataclass, but a value: see is_static


@dataclass(frozen=True)
class Spec:
    """Stands for an array of a shape and dtype where only tracing is wanted."""

    shape: tuple[int, ...]
    dtype: DType

    def to_type(self) -> TensorType:
        known = complex_dtype(self.dtype)
        return TensorType(self.shape, self.dtype) if known is None else pairs_type(self.shape, known)


def spec(shape: Sequence[int], dtype: object = "f32") -> Spec:
    """`blu.spec((2, 3), "f32")`: an argument for `trace` that has no numbers.

    ArgumentError for sizes that are no integers from 0 up.
    """
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise ArgumentError(f"a shape consists of integers, got {shape!r}") from None
    if any(size < 0 for size in sizes):
        raise ArgumentError(f"sizes must not be negative, got {list(sizes)}")
    found = Spec(sizes, complex_dtype(dtype) or as_dtype(dtype))
    check_size(found.to_type())
    return found


@dataclass(frozen=True)
class NumberType(TensorType):
    """The type of an argument that is a Python number: a scalar that is weak in promotions."""

    def __str__(self) -> str:
        return "a Python float" if self.dtype.is_float else "a Python integer"

    __repr__ = __str__


_INTEGER, _FLOAT = NumberType((), i64), NumberType((), f64)


def check_numbers(arrays: Mapping[str, object]) -> None:
    """Refuse to run with arrays that have no numbers yet. ArgumentError names the first."""
    missing = [name for name, array in arrays.items() if isinstance(array, Spec)]
    if not missing:
        return
    more = f" (nor have {len(missing) - 1} more)" if len(missing) > 1 else ""
    advice = "Pass arrays. Parameters of a module get numbers from initialize() or load_state_dict(state) on it."
    found = arrays[missing[0]]
    raise ArgumentError(f"{missing[0]} is a {type(found).__name__} and has no numbers{more}", advice=advice)


def is_static(leaf: object) -> bool:
    """Whether an argument is part of the program (bool, str, None, or named so) rather than a value it is run with."""
    return leaf is None or isinstance(leaf, (bool, str, DType, Static))


def type_of_leaf(leaf: object, name: str) -> TensorType:
    """The tensor type that an argument is traced as: Python ints are i64 scalars, floats f64 scalars, both weak.

    Raises ArgumentError for what is no array and no number, DTypeError for an int that does not fit or a dtype Blu
    does not have.
    """
    if isinstance(leaf, Spec):
        return leaf.to_type()
    if isinstance(leaf, complex) and not isinstance(leaf, np.generic):
        return pairs_type((), complex128, is_number=True)
    if isinstance(leaf, (int, float)) and not isinstance(leaf, np.generic):
        return _type_of_number(leaf, name)
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None:
        raise ArgumentError(
            f"argument {name} is a {type(leaf).__name__}, which Blu does not know",
            advice="Pass arrays, numbers, strings, or dicts, lists, dataclasses and modules of them.",
        )
    try:
        if isinstance(dtype, np.dtype):
            return _array_type(tuple(shape), dtype)
        named = str(dtype).rpartition(".")[2] if _is_on_gpu(leaf) else dtype
        known = complex_dtype(named)
        return TensorType(tuple(shape), as_dtype(named)) if known is None else pairs_type(tuple(shape), known)
    except DTypeError as error:
        kind = type(leaf).__module__.partition(".")[0]
        advice = error.advice if kind == "numpy" else f"Pass a NumPy array in place of a {kind} {type(leaf).__name__}."
        raise DTypeError(f"argument {name}: {error.message}", advice=advice) from None


def _type_of_number(number: float, name: str) -> NumberType:
    if isinstance(number, int) and not INT64.min <= number <= INT64.max:
        advice = "Pass it as a float, or as an array of a dtype that holds it."
        raise DTypeError(f"argument {name} is {number}, which does not fit i64", advice=advice)
    return _INTEGER if isinstance(number, int) else _FLOAT


@lru_cache(maxsize=1024)
def _array_type(shape: tuple[int, ...], dtype: np.dtype) -> TensorType:
    """The one type for arrays of this kind, so that many are compared in no time."""
    known = complex_dtype(dtype)
    return TensorType(shape, as_dtype(dtype)) if known is None else pairs_type(shape, known)


def _is_on_gpu(leaf: object) -> bool:
    """Whether a leaf is an array of another library in a GPU's memory, which programs read where it is. Its dtype may
    be the library's own, which says its name: torch.float32."""
    device = None if isinstance(leaf, np.ndarray | np.generic) else getattr(leaf, "__dlpack_device__", None)
    return device is not None and device()[0] == _DLPACK_CUDA

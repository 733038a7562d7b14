"""Makes what a user passes fit for a kernel: right dtype, shape, byte order, contiguous, aligned, not overlapping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from blu.errors import ArgumentError
from blu.plan.tensors import NAMES, TensorSpec
from blu.runtime.array import Array
from blu.runtime.memory import allocate_array


def accept(spec: TensorSpec, value: Any, index: int, overwrite: bool = False) -> np.ndarray:
    """The argument as an array that a kernel can read (if donated, write): `value` itself where that will do.

    Where it is donated, memory that somebody else may read is copied, but for `overwrite`.
    """
    is_ours = overwrite or not spec.donated
    if isinstance(value, Array):
        is_ours = is_ours or not value.is_shared
        value = value.in_host_memory()
    if is_ours and type(value) is np.ndarray and value.dtype == spec.numpy_dtype and value.shape == spec.shape:
        flags = value.flags
        if flags.carray or (flags.c_contiguous and flags.aligned and not spec.donated):  # carray: writeable, too
            return value
    return _copy(spec, _as_array(spec, value, index), index)


def accept_output(spec: TensorSpec, value: Any, index: int) -> np.ndarray:
    """An array that the caller wants a result in; it must fit exactly, for a copy would not reach the caller."""
    if isinstance(value, Array):
        value = value.in_host_memory()
    if type(value) is not np.ndarray or value.dtype != spec.numpy_dtype or value.shape != spec.shape:
        raise ArgumentError(f"the array for result {index} is {_describe(value)}, the result is {_type_of(spec)}")
    if not value.flags.carray:
        raise ArgumentError(
            f"the array for result {index} is read-only, misaligned or not contiguous",
            advice="pass an array made by numpy.empty, or none",
        )
    return value


def count_error(inputs: Sequence[TensorSpec], given: int) -> ArgumentError:
    """The error for a wrong number of arguments."""
    names = ", ".join(spec.name or f"argument {index}" for index, spec in enumerate(inputs))
    return ArgumentError(f"the program takes {len(inputs)} arguments ({names}), {given} were given")


def overlapping(written: Sequence[int], starts: np.ndarray, sizes: np.ndarray) -> list[int]:
    """Those of the indices `written` whose range shares memory with another; int64 addresses and sizes in bytes."""
    ends = starts + sizes
    order = np.argsort(starts, kind="stable")
    if not (np.maximum.accumulate(ends[order])[:-1] > starts[order][1:]).any():
        return []
    meets = [(starts < ends[index]) & (ends > starts[index]) & (ends > starts) for index in written]
    return [index for index, others in zip(written, meets, strict=True) if others.sum() > 1]


def copy_of(spec: TensorSpec, array: np.ndarray) -> np.ndarray:
    """A contiguous, aligned copy in the machine's byte order."""
    copy = allocate_array(spec.shape, spec.numpy_dtype, f"a copy of the argument {spec.name!r}")
    copy[...] = array
    return copy


def _as_array(spec: TensorSpec, value: Any, index: int) -> np.ndarray:
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(f"{_name(spec, index)} is a masked array", advice="pass value.filled(...) instead")
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, bool | int | float):
        return _from_scalar(spec, value, index)
    if not hasattr(value, "__array__"):
        raise ArgumentError(f"{_name(spec, index)} is {_describe(value)}, the program takes {_type_of(spec)}")
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{_name(spec, index)} cannot be read as an array: {error}") from error


def _from_scalar(spec: TensorSpec, value: bool | int | float, index: int) -> np.ndarray:
    """A Python number for a 0-d argument of its own kind, if it fits."""
    kinds = {bool: "b", int: "iufV", float: "fV"}[type(value) if type(value) in (bool, int) else float]
    if spec.shape or spec.numpy_dtype.kind not in kinds:
        raise ArgumentError(f"{_name(spec, index)} is {_describe(value)}, the program takes {_type_of(spec)}")
    try:
        return np.asarray(value, spec.numpy_dtype)
    except OverflowError as error:
        raise ArgumentError(f"{_name(spec, index)} is {value}, which does not fit {spec.dtype}") from error


def check_type(spec: TensorSpec, array: np.ndarray | Array, index: int, what: str = "") -> None:
    """ArgumentError unless an array is of the dtype (in any byte order) and shape that the program takes."""
    what = what or _name(spec, index)
    if array.dtype.newbyteorder("=") != spec.numpy_dtype:
        raise ArgumentError(
            f"{what} is {_describe(array)}, the program takes {_type_of(spec)}",
            advice=f"convert it with .astype({spec.numpy_dtype.name!r}), or compile the function for this dtype",
        )
    if array.shape != spec.shape:
        raise ArgumentError(
            f"{what} is {_describe(array)}, the program takes {_type_of(spec)}",
            advice="compile the function for this shape",
        )


def _copy(spec: TensorSpec, array: np.ndarray, index: int) -> np.ndarray:
    check_type(spec, array, index)
    return copy_of(spec, array)


def _name(spec: TensorSpec, index: int) -> str:
    return f"argument {spec.name!r}" if spec.name else f"argument {index}"


def _type_of(spec: TensorSpec) -> str:
    return f"{spec.dtype}[{', '.join(map(str, spec.shape))}]"


def _describe(value: Any) -> str:
    if not isinstance(value, np.ndarray | Array):
        return f"a {type(value).__name__}"
    name = NAMES.get(value.dtype.newbyteorder("="), value.dtype.name)
    return f"{name}[{', '.join(map(str, value.shape))}]"

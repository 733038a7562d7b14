"""From operands as users write them (tensors, arrays, numbers) to tensors of the dtype that NumPy would compute in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, TypeGuard

import numpy as np

from blu.dialects.core.dtypes import (
    DType,
    TensorType,
    as_dtype,
    bool_,
    f16,
    f32,
    f64,
    i8,
    i16,
    i64,
    promote,
    raise_kind,
    u8,
    u16,
)
from blu.dialects.core.dtypes import promote_scalar as scalar_dtype
from blu.dialects.hooks import HOOKS
from blu.dialects.ops.creation import Constant
from blu.dialects.tensor.complex_tensor import is_complex
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, DTypeError

# Larger arrays are not written into the IR: the tracer passes them in as arguments of the program.
LARGEST_CONSTANT_BYTES = 16 * 1024

PythonScalar = bool | int | float

# NumPy's float dtype for functions of integers such as exp.
_FLOAT_OF = {bool_: f16, i8: f16, u8: f16, i16: f32, u16: f32}


def is_python_scalar(value: Any) -> TypeGuard[PythonScalar]:
    """Whether the value is a Python number, which only lends its kind to a promotion (NumPy's scalars are arrays)."""
    return isinstance(value, (bool, int, float)) and not isinstance(value, np.generic)


def is_weak(value: Any) -> bool:
    """Whether a value only lends its kind to a promotion: a Python number, or a tensor that stands for one."""
    return value.is_weak if isinstance(value, Tensor) else is_python_scalar(value)


def strong(tensor: Tensor) -> Tensor:
    """The tensor as one that promotes others to its dtype."""
    return Tensor(tensor.value) if tensor.is_weak else tensor


def _weak(tensor: Tensor) -> Tensor:
    return Tensor(tensor.value, is_weak=True)


def constant(value: np.ndarray) -> Tensor:
    """An array as a tensor: written into the program when small, handed to the tracer when large."""
    native = np.asarray(value, as_dtype(value.dtype).numpy)
    return HOOKS.tracer.capture(native) if native.nbytes > LARGEST_CONSTANT_BYTES else Constant(value=native)


def scalar_constant(value: PythonScalar, dtype: DType) -> Tensor:
    """A Python number as a 0-d tensor. Floats too large for the dtype become infinite, as in NumPy."""
    if dtype.is_integer and not np.iinfo(dtype.numpy).min <= value <= np.iinfo(dtype.numpy).max:
        scalar_dtype(dtype, int(value))
    with np.errstate(over="ignore"):
        return Constant(value=np.asarray(value).astype(dtype.numpy))


def as_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """A tensor of what the user gave, converted to `dtype` if one is asked for.

    Python numbers alone become bool, i64 and f64; arrays keep their dtype. Raises DTypeError for anything else.
    """
    if isinstance(value, Tensor):
        return converted(value, dtype or value.dtype)
    if is_python_scalar(value):
        return scalar_constant(value, dtype or python_dtype(value))
    if isinstance(value, TensorType):
        raise ArgumentError(
            f"{value!r} has no numbers yet",
            advice="Load or initialise the module's parameters, or pass the module as an argument.",
        )
    if is_complex(value):
        raise DTypeError("does not take complex numbers", advice="Take blu.real, blu.imag or blu.absolute of them.")
    if value is None or isinstance(value, str | bytes):
        raise DTypeError(f"{value!r} is neither a tensor nor a number")
    tensor = constant(_as_array(value))
    return converted(tensor, dtype or tensor.dtype)


def _as_array(value: Any) -> np.ndarray:
    """A NumPy array of anything array-like. A list with tensors in it is refused with advice."""
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
        raise DTypeError("a list of tensors is not a tensor", advice="Join them with blu.stack or blu.concatenate.")
    if isinstance(value, np.ndarray) and isinstance(value, np.ma.MaskedArray):
        raise DTypeError("a masked array is not a tensor", advice="Pass value.filled(...) instead.")
    try:
        return np.asarray(value)
    except ValueError as error:
        raise DTypeError(f"{type(value).__name__} cannot be read as an array: {error}") from None


def python_dtype(value: PythonScalar) -> DType:
    """The dtype of a Python number on its own."""
    return bool_ if isinstance(value, bool) else i64 if isinstance(value, int) else f64


def converted(tensor: Tensor, dtype: DType) -> Tensor:
    """The tensor in another dtype; itself where it has that dtype already."""
    from blu.dialects.ops.pointwise import Convert

    return tensor if tensor.dtype == dtype else Convert(tensor, dtype=dtype)


def common_dtype(*values: Any) -> DType:
    """The dtype of NumPy's result for operands: tensors promote each other, Python numbers only raise the kind."""
    dtypes = [value.dtype for value in values if not is_weak(value)]
    numbers = [value for value in values if is_weak(value)]
    if not dtypes:
        return max(map(_number_dtype, numbers), key=(bool_, i64, f64).index)
    return reduce(_raised_by, numbers, reduce(promote, dtypes))


def _number_dtype(number: Tensor | PythonScalar) -> DType:
    return number.dtype if isinstance(number, Tensor) else python_dtype(number)


def _raised_by(dtype: DType, number: Tensor | PythonScalar) -> DType:
    return raise_kind(dtype, number.dtype) if isinstance(number, Tensor) else scalar_dtype(dtype, number)


def strengthened(*values: Any) -> list[Any]:
    """The values with everything but Python numbers made tensors."""
    return [value if is_python_scalar(value) else as_tensor(value) for value in values]


def promoted(*values: Any) -> list[Tensor]:
    """The values as tensors of their common dtype (shapes are left to the op's broadcasting)."""
    mixed = strengthened(*values)
    return as_tensors(mixed, common_dtype(*mixed))


def as_tensors(values: Sequence[Any], dtype: DType) -> list[Tensor]:
    """The values as tensors of one dtype; Python numbers among themselves stay such."""
    tensors = [as_tensor(value, dtype) for value in values]
    return [_weak(tensor) for tensor in tensors] if all(map(is_weak, values)) else tensors


def float_dtype(dtype: DType) -> DType:
    """The dtype in which NumPy computes functions such as exp: floats stay, i8 gives f16, i16 f32, others f64."""
    return dtype if dtype.is_float else _FLOAT_OF.get(dtype, f64)


def promoted_floats(*values: Any) -> list[Tensor]:
    """The values as tensors of the float dtype that NumPy computes in.

    Where no value is a float, the dtype is the one that each integer dtype alone would be computed in.
    """
    mixed = strengthened(*values)
    dtype = common_dtype(*mixed)
    if not dtype.is_float:
        dtypes = [value.dtype for value in mixed if not is_weak(value)] or [dtype]
        raised = [_raised_by(dtypes[0], value) for value in mixed if is_weak(value)]
        dtype = reduce(promote, map(float_dtype, (*dtypes, *raised)))
    return as_tensors(mixed, dtype)

"""Complex numbers taken apart, brought to one dtype, and put together."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np

from blu.dialects.core.dtypes import DType, part_dtype
from blu.dialects.ops.pointwise import broadcast_shapes
from blu.dialects.tensor.arrangement import broadcast_to
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.dialects.tensor.promotion import as_tensor, as_tensors, common_dtype, converted, strengthened, strong
from blu.dialects.tensor.tensor import Tensor

# A complex tensor, or a real one.
Whole = Complex | Tensor


def parts_of(value: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of a complex tensor, number or array; of real ones the latter is None."""
    if isinstance(value, Complex) or (isinstance(value, complex) and not isinstance(value, np.generic)):
        return value.real, value.imag
    if not is_complex(value):
        return value, None
    whole: Any = np.asarray(value)
    return as_tensor(whole.real.copy()), as_tensor(whole.imag.copy())


def is_real(value: Whole) -> TypeGuard[Tensor]:
    """Whether it is a real tensor."""
    return isinstance(value, Tensor)


def made(real: Any, imag: Any) -> Complex:
    """Complex numbers of parts that broadcast, in a dtype that they may have: those of halves are converted."""
    shape, dtype = broadcast_shapes(real.shape, imag.shape), part_dtype(real.dtype)
    return Complex(*(broadcast_to(converted(part, dtype), shape) for part in (real, imag)))


def aligned(*values: Any) -> list[Whole]:
    """Complex and real tensors of parts of one dtype, that of the parts of NumPy's result. Shapes are as they were."""
    found = list(map(parts_of, values))
    mixed = strengthened(*(part for pair in found for part in pair if part is not None))
    dtype = part_dtype(common_dtype(*mixed))
    tensors = iter(as_tensors(mixed, dtype))
    return [_whole(next(tensors), None if imag is None else next(tensors)) for _, imag in found]


def _whole(real: Tensor, imag: Tensor | None) -> Whole:
    return real if imag is None else Complex(real, imag)


def as_complex(value: Any, dtype: DType | None = None) -> Complex:
    """A complex tensor of any numbers; its parts are of `dtype` where one is given."""
    real, imag = parts_of(value)
    own = dtype or part_dtype(as_tensor(real).dtype)
    tensor = strong(as_tensor(real, own))
    return Complex(tensor, zeros_of(tensor) if imag is None else strong(as_tensor(imag, own)))


def zeros_of(tensor: Tensor) -> Tensor:
    """Zeros in a tensor's shape and dtype."""
    return broadcast_to(as_tensor(0, tensor.dtype), tensor.shape)

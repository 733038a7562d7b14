"""`Complex`: a tensor of complex numbers in a compiled function, which is two real ones."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import COMPLEX, DType, TensorType, complex_dtype, f64
from blu.dialects.tensor.operators import Operators
from blu.dialects.tensor.tensor import Tensor


@dataclass(frozen=True, eq=False, repr=False)
class Complex(Operators):
    """A complex tensor: its real and imaginary parts, two tensors of floats of one shape and dtype.

    No kernel has complex numbers: functions on such a tensor are functions on its parts (`blu.frontend.complexes`), so
    that passes, gradients and targets know nothing of it. One that is weak stands for a Python number.
    """

    real: Any
    imag: Any

    __array_priority__ = 2000
    # NumPy's arrays on the left leave operators to this.
    __array_ufunc__ = None
    _kind: ClassVar[str] = "a complex tensor"

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.real.shape)

    @property
    def dtype(self) -> DType:
        """complex64 or complex128."""
        return COMPLEX.get(self.real.dtype, COMPLEX[f64])

    @property
    def type(self) -> TensorType:
        return TensorType(self.shape, self.dtype)

    @property
    def is_weak(self) -> bool:
        return isinstance(self.real, Tensor) and self.real.is_weak

    def numpy(self) -> np.ndarray:
        """An array of NumPy's, of parts that are arrays."""
        return joined(np.asarray(self.real), np.asarray(self.imag))

    def __repr__(self) -> str:
        return f"Complex({self.type})"


def joined(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    """The complex numbers of these parts, which are arrays of one shape."""
    found = np.empty(real.shape, np.result_type(real, np.complex64))
    found.real, found.imag = real, imag
    return found


def is_complex(value: Any) -> bool:
    """Whether a value is a complex tensor, number or array, or a complex dtype, or a list that has one."""
    if value is None or isinstance(value, Tensor | int | float):
        return False
    if isinstance(value, Complex | complex):
        return True
    if isinstance(value, list | tuple):
        return any(map(is_complex, value))
    if isinstance(value, str | type | np.dtype | DType):
        return complex_dtype(value) is not None
    return getattr(getattr(value, "dtype", None), "kind", "") in ("c", "complex")

"""`Tensor`: a value of a traced program, used like a NumPy array while the program is written."""

from __future__ import annotations

from blu.dialects.core.dtypes import DType, TensorType, tensor_type
from blu.dialects.core.mlir import ir
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.operators import METHODS, Operators
from blu.errors import TraceError


class Tensor(Operators):
    """A value of the `blu` dialect with a static shape and a dtype; its numbers exist only at run time.

    One that is weak stands for a Python number: it only lends its kind to the dtype that others are computed in.
    """

    __slots__ = ("_context", "_value", "is_weak", "type")

    def __init__(self, value: ir.Value, is_weak: bool = False):
        self._value = value
        self._context = value.context
        self.is_weak = is_weak
        self.type: TensorType = tensor_type(value.type)

    @property
    def value(self) -> ir.Value:
        """The SSA value. Raises TraceError after the trace, whose end takes the value with it."""
        if ir.Context.current is not self._context:
            raise TraceError(
                f"{self!r} belongs to a trace that has ended",
                location=HOOKS.tracer.user_line(),
                advice="Return tensors from the traced function; do not keep them elsewhere.",
            )
        return self._value

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def real(self) -> Tensor:
        """The real part: the tensor itself."""
        return METHODS["real"](self)

    @property
    def imag(self) -> Tensor:
        """The imaginary part: zeros."""
        return METHODS["imag"](self)

    def __repr__(self) -> str:
        return f"Tensor({self.type})"

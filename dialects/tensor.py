"""`Tensor`: a value of a traced program, used like a NumPy array while the program is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from blu.dialects.dtypes import DType, TensorType, tensor_type
from blu.dialects.mlir import ir
from blu.errors import TraceError

# Filled by the modules that know the ops (arithmetic, arrangement, folding ...); operators look their function up here.
# The tracer sets three hooks: "user_location" gives the user's "file:line", "capture" makes a large array an argument,
# "eager" runs a function on arrays.
OPERATORS: dict[str, Callable[..., Any]] = {"user_location": lambda: None}


class Tensor:
    """A value of the `blu` dialect with a static shape and a dtype; its numbers exist only at run time."""

    __slots__ = ("_context", "_value", "type")
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, value: ir.Value):
        self._value = value
        self._context = value.context
        self.type: TensorType = tensor_type(value.type)

    @property
    def value(self) -> ir.Value:
        """The SSA value. Raises TraceError after the trace, whose end takes the value with it."""
        if ir.Context.current is not self._context:
            raise TraceError(
                f"{self!r} belongs to a trace that has ended",
                location=OPERATORS["user_location"](),
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
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.type.size

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions in reverse order."""
        return self.transpose(*reversed(range(self.ndim)))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"Tensor({self.type})"

    def __getattr__(self, name: str) -> Any:
        """Methods such as `x.sum(axis=0)` are the functions of the same name with `x` as first argument."""
        function = OPERATORS.get(name)
        if function is None:
            raise AttributeError(f"a tensor has no attribute {name!r}")
        return lambda *arguments, **keywords: function(self, *arguments, **keywords)

    def _needs_value(self, what: str, advice: str) -> NoReturn:
        raise TraceError(
            f"{what} needs the numbers of {self.type}, which exist only when the compiled function runs",
            location=OPERATORS["user_location"](),
            advice=advice,
        )

    def __bool__(self) -> bool:
        self._needs_value(
            "a Python condition", "Use blu.where(condition, a, b), or branch on shapes and Python values."
        )

    def __float__(self) -> float:
        self._needs_value(
            "float()", "Keep the value as a tensor, or return it from the function and convert it outside."
        )

    def __int__(self) -> int:
        self._needs_value("int()", "Keep the value as a tensor, or pass the number as a Python value.")

    def __index__(self) -> int:
        self._needs_value("a Python index", "Use blu.take or blu.dynamic_slice for positions known only at run time.")

    def item(self) -> NoReturn:
        self._needs_value(".item()", "Return the value from the function and call .item() on what it returns.")

    def tolist(self) -> NoReturn:
        self._needs_value(".tolist()", "Return the value from the function and call .tolist() outside.")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TraceError(
            f"{self.type} cannot be changed in place: tensors are values",
            location=OPERATORS["user_location"](),
            advice="Make a new tensor with blu.where, blu.dynamic_update_slice or blu.scatter_add.",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self._needs_value("a NumPy function", "Use the function of the same name in `blu`.")


def _binary(name: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def operator(self: Tensor, other: Any) -> Any:
        return OPERATORS[name](other, self) if reflected else OPERATORS[name](self, other)

    return operator


_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift",
}  # fmt: skip
_COMPARE = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_UNARY = {"neg": "negative", "abs": "absolute", "invert": "invert", "getitem": "getitem"}

for _short, _name in (_BINARY | _COMPARE).items():
    setattr(Tensor, f"__{_short}__", _binary(_name))
for _short, _name in _BINARY.items():
    setattr(Tensor, f"__r{_short}__", _binary(_name, reflected=True))
for _short, _name in _UNARY.items():
    setattr(Tensor, f"__{_short}__", lambda self, *arguments, _name=_name: OPERATORS[_name](self, *arguments))

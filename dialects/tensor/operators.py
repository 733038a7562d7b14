"""Operators and methods of tensors: each is a function of the same name."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from blu.dialects.core.dtypes import TensorType, product
from blu.dialects.hooks import HOOKS
from blu.errors import TraceError, no_attribute

# What `x.name(...)` and operators are: functions with the tensor as first argument, put here by `@method` where each is
# defined (arithmetic, arrangement, folding ...). What is an operator only has that one's name: "__getitem__".
METHODS: dict[str, Callable[..., Any]] = {}


Operator = Callable[["Operators", Any], Any]


def _unary(name: str) -> Callable[[Operators], Any]:
    return lambda self: METHODS[name](self)


def _binary(name: str) -> Operator:
    def operator(self: Operators, other: Any) -> Any:
        # As in NumPy, an operand of higher priority (a complex tensor) has its own operator tried.
        if getattr(other, "__array_priority__", 0) > self.__array_priority__:
            return NotImplemented
        return METHODS[name](self, other)

    return operator


def _reflected(name: str) -> Operator:
    return lambda self, other: METHODS[name](other, self)


class Operators:
    """What tensors have of operators and methods, complex ones as well: the functions in METHODS.

    `_kind` is what errors call one.
    """

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]
    _kind: ClassVar[str] = "a tensor"

    if TYPE_CHECKING:  # comparisons give tensors; the table at the end sets them

        def __eq__(self, other: object) -> Any: ...

        def __ne__(self, other: object) -> Any: ...

    if TYPE_CHECKING:

        @property
        def shape(self) -> tuple[int, ...]: ...

        @property
        def type(self) -> TensorType: ...

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return product(self.shape)

    @property
    def T(self) -> Any:
        """The tensor with its dimensions in reverse order."""
        return self.transpose(*reversed(range(self.ndim)))

    @property
    def mT(self) -> Any:
        """The matrices of the last two dimensions transposed."""
        return METHODS["matrix_transpose"](self)

    @property
    def at(self) -> Any:
        """`x.at[key].set(values)`, and add, subtract, multiply, divide, power, min, max: other elements there."""
        return METHODS["at"](self)

    @property
    def device(self) -> None:
        """None: where the compiled function runs."""
        return None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        """Methods such as `x.sum(axis=0)` are the functions of the same name with `x` as first argument."""
        function = METHODS.get(name)
        if function is None:
            raise no_attribute(self._kind, name, self.__dir__)
        return MethodType(function, self)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *METHODS})

    __neg__ = _unary("negative")
    __pos__ = _unary("positive")
    __abs__ = _unary("absolute")
    __invert__ = _unary("invert")
    __getitem__ = _binary("__getitem__")
    __add__, __radd__ = _binary("add"), _reflected("add")
    __sub__, __rsub__ = _binary("subtract"), _reflected("subtract")
    __mul__, __rmul__ = _binary("multiply"), _reflected("multiply")
    __truediv__, __rtruediv__ = _binary("divide"), _reflected("divide")
    __floordiv__, __rfloordiv__ = _binary("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _binary("remainder"), _reflected("remainder")
    __pow__, __rpow__ = _binary("power"), _reflected("power")
    __matmul__, __rmatmul__ = _binary("matmul"), _reflected("matmul")
    __and__, __rand__ = _binary("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _binary("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _binary("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _binary("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _binary("right_shift"), _reflected("right_shift")
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __eq__, __ne__ = _binary("equal"), _binary("not_equal")  # type: ignore[assignment]

    def _needs_value(self, what: str, advice: str) -> NoReturn:
        raise TraceError(
            f"{what} needs the numbers of {self.type}, which exist only when the compiled function runs",
            location=HOOKS.tracer.user_line(),
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

    def __complex__(self) -> complex:
        self._needs_value("complex()", "Keep the value as a tensor, or pass the number as a Python value.")

    def __format__(self, specification: str) -> str:
        if not specification:
            return repr(self)
        self._needs_value(
            "formatting", "Printing a tensor shows its type; return the value from the function and print it outside."
        )

    def __round__(self, digits: int | None = None) -> Any:
        return METHODS["round"](self, digits or 0)

    def __index__(self) -> int:
        self._needs_value(
            "a Python index",
            "Use blu.take or blu.dynamic_slice for positions known only at run time. A number that decides on axes or "
            "shapes must be part of the program: name its parameter in static_argnames of blu.jit.",
        )

    def item(self) -> NoReturn:
        self._needs_value(".item()", "Return the value from the function and call .item() on what it returns.")

    def tolist(self) -> NoReturn:
        self._needs_value(".tolist()", "Return the value from the function and call .tolist() outside.")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TraceError(
            f"{self.type} cannot be changed in place: tensors are values",
            location=HOOKS.tracer.user_line(),
            advice="Make a new tensor: x.at[key].set(values), blu.where, or blu.dynamic_update_slice.",
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self._needs_value("a NumPy function", "Use the function of the same name in `blu`.")

    def __array_function__(self, function: Callable[..., Any], types: Any, arguments: Any, keywords: Any) -> Any:
        if function in (np.shape, np.ndim, np.size) and len(arguments) == 1 and isinstance(arguments[0], Operators):
            return getattr(arguments[0], function.__name__)
        self._needs_value(f"numpy.{function.__name__}", "Use the function of the same name in `blu`.")

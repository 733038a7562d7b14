"""Arithmetic on SSA values with Python's operators: the notation in which the math functions are written.

An `Elements` is a scalar or a vector of any shape; every operator acts on each element and emits one arith operation at
the current insertion point and location. A Python number beside an `Elements` becomes a constant of the same type.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from blu.dialects.core.mlir import ir

COMPARE_FLOATS = {"<": 4, "<=": 5, ">": 2, ">=": 3, "==": 1, "!=": 13, "ordered": 7, "unordered": 14}
COMPARE_INTEGERS = {"<": 2, "<=": 3, ">": 4, ">=": 5, "==": 0, "!=": 1}


def element_type(type_: ir.Type) -> ir.Type:
    """The type of one element of a scalar or vector type."""
    return type_.element_type if isinstance(type_, ir.VectorType) else type_


def with_element(type_: ir.Type, element: ir.Type) -> ir.Type:
    """A scalar or vector type like `type_` that holds `element`."""
    if not isinstance(type_, ir.VectorType):
        return element
    return ir.VectorType.get(type_.shape, element, scalable=type_.scalable_dims if type_.scalable else None)


def constant(type_: ir.Type, number: float) -> ir.Value:
    """A constant in all elements of `type_`; an integer may be given signed or as a bit pattern."""
    element = element_type(type_)
    if isinstance(element, ir.FloatType):
        attribute = ir.FloatAttr.get(element, number)
    else:
        attribute = ir.IntegerAttr.get(element, _signed(int(number), element.width))
    if isinstance(type_, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(type_, attribute)
    return ir.Operation.create("arith.constant", results=[type_], attributes={"value": attribute}).result


def _signed(number: int, width: int) -> int:
    """The number that the low `width` bits mean in two's complement."""
    half = 1 << (width - 1)
    return (number + half) % (2 * half) - half


class Elements:
    """An SSA value with operators. `fused` says whether the target has a fused multiply-add instruction."""

    __slots__ = ("fused", "value")

    def __init__(self, value: ir.Value, fused: bool):
        self.value = value
        self.fused = fused

    # Python numbers and types ---------------------------------------------------------------------------------------

    @property
    def type(self) -> ir.Type:
        return self.value.type

    @property
    def is_float(self) -> bool:
        return isinstance(element_type(self.type), ir.FloatType)

    @property
    def width(self) -> int:
        """Bits of one element."""
        return element_type(self.type).width

    def constant(self, number: float) -> Elements:
        """`number` in all elements, in the type of `self`."""
        return Elements(constant(self.type, number), self.fused)

    def like(self, other: Elements | float) -> Elements:
        """`other` itself, or the constant that a Python number stands for beside `self`."""
        return other if isinstance(other, Elements) else self.constant(other)

    def emit(self, name: str, *operands: Elements, type_: ir.Type | None = None, **attributes: object) -> Elements:
        """One operation on `self` and `operands`; its type is that of `self` unless given."""
        values = [self.value, *(operand.value for operand in operands)]
        operation = ir.Operation.create(name, results=[type_ or self.type], operands=values, attributes=attributes)
        return Elements(operation.result, self.fused)

    def _pair(self, float_name: str, integer_name: str, other: Elements | float) -> Elements:
        return self.emit(f"arith.{float_name if self.is_float else integer_name}", self.like(other))

    # arithmetic -----------------------------------------------------------------------------------------------------

    def __add__(self, other: Elements | float) -> Elements:
        return self._pair("addf", "addi", other)

    def __sub__(self, other: Elements | float) -> Elements:
        return self._pair("subf", "subi", other)

    def __mul__(self, other: Elements | float) -> Elements:
        return self._pair("mulf", "muli", other)

    def __truediv__(self, other: Elements | float) -> Elements:
        return self._pair("divf", "divsi", other)

    def __radd__(self, other: float) -> Elements:
        return self.constant(other) + self

    def __rsub__(self, other: float) -> Elements:
        return self.constant(other) - self

    def __rmul__(self, other: float) -> Elements:
        return self.constant(other) * self

    def __rtruediv__(self, other: float) -> Elements:
        return self.constant(other) / self

    def __neg__(self) -> Elements:
        return self.emit("arith.negf") if self.is_float else 0 - self

    def __abs__(self) -> Elements:
        return self.emit("math.absf")

    def sqrt(self) -> Elements:
        """The correctly rounded square root."""
        return self.emit("math.sqrt")

    def copysign(self, sign: Elements) -> Elements:
        """The magnitude of `self` with the sign bit of `sign`."""
        return self.emit("math.copysign", sign)

    # integers and masks ---------------------------------------------------------------------------------------------

    def __and__(self, other: Elements | int) -> Elements:
        return self.emit("arith.andi", self.like(other))

    def __or__(self, other: Elements | int) -> Elements:
        return self.emit("arith.ori", self.like(other))

    def __xor__(self, other: Elements | int) -> Elements:
        return self.emit("arith.xori", self.like(other))

    def __lshift__(self, other: Elements | int) -> Elements:
        return self.emit("arith.shli", self.like(other))

    def __rshift__(self, other: Elements | int) -> Elements:
        """Arithmetic shift: the sign bit is repeated."""
        return self.emit("arith.shrsi", self.like(other))

    def shift_right_unsigned(self, other: Elements | int) -> Elements:
        """Logical shift: zeros come in."""
        return self.emit("arith.shrui", self.like(other))

    # comparisons: ordered, so false where an operand is NaN (except !=) ---------------------------------------------

    def compare(self, how: str, other: Elements | float) -> Elements:
        """A mask of i1; `how` is a key of COMPARE_FLOATS (ordered, != is true for NaN) or COMPARE_INTEGERS (signed)."""
        predicate = (COMPARE_FLOATS if self.is_float else COMPARE_INTEGERS)[how]
        attribute = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), predicate)
        mask = with_element(self.type, ir.IntegerType.get_signless(1))
        name = "arith.cmpf" if self.is_float else "arith.cmpi"
        return self.emit(name, self.like(other), type_=mask, predicate=attribute)

    def __lt__(self, other: Elements | float) -> Elements:
        return self.compare("<", other)

    def __le__(self, other: Elements | float) -> Elements:
        return self.compare("<=", other)

    def __gt__(self, other: Elements | float) -> Elements:
        return self.compare(">", other)

    def __ge__(self, other: Elements | float) -> Elements:
        return self.compare(">=", other)

    def equals(self, other: Elements | float) -> Elements:
        return self.compare("==", other)

    def differs(self, other: Elements | float) -> Elements:
        return self.compare("!=", other)

    def is_nan(self) -> Elements:
        return self.compare("unordered", self)

    # conversions ----------------------------------------------------------------------------------------------------

    def bits(self) -> Elements:
        """The bit patterns of floats, as integers of the same width."""
        return self._convert("arith.bitcast", ir.IntegerType.get_signless(self.width))

    def as_float(self) -> Elements:
        """The floats whose bit patterns `self` holds."""
        return self._convert("arith.bitcast", ir.F32Type.get() if self.width == 32 else ir.F64Type.get())

    def to_f64(self) -> Elements:
        """The same numbers in f64: exact from f32 and from i32; integers are signed."""
        return self._convert("arith.extf" if self.is_float else "arith.sitofp", ir.F64Type.get())

    def to_f32(self) -> Elements:
        """The nearest f32 numbers; integers are signed."""
        return self._convert("arith.truncf" if self.is_float else "arith.sitofp", ir.F32Type.get())

    def to_i32(self) -> Elements:
        """The low 32 bits of 64-bit integers."""
        return self._convert("arith.trunci", ir.IntegerType.get_signless(32))

    def unsigned_to_i64(self) -> Elements:
        """32-bit integers with 32 zero bits above them."""
        return self._convert("arith.extui", ir.IntegerType.get_signless(64))

    def _convert(self, name: str, element: ir.Type) -> Elements:
        return self.emit(name, type_=with_element(self.type, element))


def fma(a: Elements, b: Elements | float, c: Elements | float) -> Elements:
    """`a * b + c`, rounded once where the target has the instruction, else twice."""
    if not a.fused:
        return a * b + c
    return a.emit("math.fma", a.like(b), a.like(c))


def polynomial(x: Elements, coefficients: Sequence[float]) -> Elements:
    """Horner's rule; `coefficients` ascend: c0 + c1 x + c2 x^2 ..."""
    *lower, highest = coefficients
    return reduce(lambda value, coefficient: fma(value, x, coefficient), reversed(lower), x.constant(highest))


def select(mask: Elements, when_true: Elements | float, when_false: Elements | float) -> Elements:
    """One of two values per element; at least one of them is no Python number."""
    if not isinstance(when_true, Elements):
        assert isinstance(when_false, Elements), "at least one of both choices has elements"
        when_true = when_false.like(when_true)
    return mask.emit("arith.select", when_true, when_true.like(when_false), type_=when_true.type)


def clamp(x: Elements, low: float | None = None, high: float | None = None) -> Elements:
    """`x` within [low, high]; NaN stays NaN. Compare-and-select is one instruction on x86, `maximumf` three."""
    if low is not None:
        x = select(x < low, low, x)
    return x if high is None else select(x > high, high, x)

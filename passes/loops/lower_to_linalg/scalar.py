"""Scalar arithmetic that knows the dtype: the vocabulary in which bodies of linalg.generic are written."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType, bf16, bool_, computing_dtype, f32
from blu.dialects.core.mlir import arith, ir, math, tensor
from blu.passes.loops.lower_to_linalg.generic import constant
from blu.passes.loops.lower_to_linalg.rules import element_type

_FLOAT_ORDER = {"eq": "OEQ", "ne": "UNE", "lt": "OLT", "le": "OLE", "gt": "OGT", "ge": "OGE"}


@dataclass(frozen=True)
class Scalar:
    """A scalar SSA value with the dtype it stands for; operators pick the signed, unsigned or float instruction."""

    value: ir.Value
    dtype: DType

    def like(self, number: float | int | bool) -> Scalar:
        """A constant of the same dtype."""
        return Scalar(constant(self.value.type, _signless(number, self.dtype)), self.dtype)

    def lift(self, other: Any) -> Scalar:
        return other if isinstance(other, Scalar) else self.like(other)

    def pick(self, if_float: Any, if_signed: Any, if_unsigned: Any = None) -> Any:
        """The choice for this dtype's kind (bool counts as unsigned)."""
        if self.dtype.is_float:
            return if_float
        return if_signed if self.dtype.kind == "signed" or if_unsigned is None else if_unsigned

    def _apply(self, other: Any, *choices: Any) -> Scalar:
        return Scalar(self.pick(*choices)(self.value, self.lift(other).value), self.dtype)

    def __add__(self, other: Any) -> Scalar:
        return self._apply(other, arith.addf, arith.addi)

    def __sub__(self, other: Any) -> Scalar:
        return self._apply(other, arith.subf, arith.subi)

    def __rsub__(self, other: Any) -> Scalar:
        return self.like(other) - self

    def __mul__(self, other: Any) -> Scalar:
        return self._apply(other, arith.mulf, arith.muli)

    def __truediv__(self, other: Any) -> Scalar:
        return self._apply(other, arith.divf, arith.divsi, arith.divui)

    def __rtruediv__(self, other: Any) -> Scalar:
        return self.like(other) / self

    def __mod__(self, other: Any) -> Scalar:
        return self._apply(other, arith.remf, arith.remsi, arith.remui)

    def __and__(self, other: Any) -> Scalar:
        return Scalar(arith.andi(self.value, self.lift(other).value), self.dtype)

    def __or__(self, other: Any) -> Scalar:
        return Scalar(arith.ori(self.value, self.lift(other).value), self.dtype)

    def __xor__(self, other: Any) -> Scalar:
        return Scalar(arith.xori(self.value, self.lift(other).value), self.dtype)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Scalar:
        return Scalar(arith.negf(self.value), self.dtype) if self.dtype.is_float else self.like(0) - self

    def maximum(self, other: Any) -> Scalar:
        """The larger; NaN if either is NaN."""
        return self._apply(other, arith.maximumf, arith.maxsi, arith.maxui)

    def minimum(self, other: Any) -> Scalar:
        """The smaller; NaN if either is NaN."""
        return self._apply(other, arith.minimumf, arith.minsi, arith.minui)

    def compare(self, relation: str, other: Any) -> Scalar:
        """A bool scalar; `relation` is one of eq, ne, lt, le, gt, ge. NaN is unequal to everything."""
        right = self.lift(other).value
        if self.dtype.is_float:
            predicate = getattr(arith.CmpFPredicate, _FLOAT_ORDER[relation])
            return Scalar(arith.cmpf(predicate, self.value, right), bool_)
        prefix = "" if relation in ("eq", "ne") else "s" if self.dtype.kind == "signed" else "u"
        return Scalar(arith.cmpi(getattr(arith.CmpIPredicate, prefix + relation), self.value, right), bool_)

    def where(self, if_true: Scalar, if_false: Scalar) -> Scalar:
        """Select by this bool."""
        return Scalar(arith.select(self.value, if_true.value, if_false.value), if_true.dtype)

    def math(self, name: str, *others: Scalar) -> Scalar:
        """A function of the math dialect, such as "exp"."""
        return Scalar(getattr(math, name)(self.value, *(other.value for other in others)), self.dtype)

    def to(self, dtype: DType) -> Scalar:
        """The conversion of `blu.convert`: floats to integers saturate and NaN becomes 0."""
        return _convert(self, dtype)


def load(value: ir.Value, dtype: DType) -> Scalar:
    """A body's argument, widened to the dtype that bodies compute in."""
    return Scalar(value, dtype).to(computing_dtype(dtype))


def store(scalar: Scalar, dtype: DType) -> ir.Value:
    """What a body yields: the scalar rounded to the dtype it is stored in."""
    return scalar.to(dtype).value


def _wide(dtype: DType) -> DType:
    """The dtype that conversions go through."""
    return f32 if dtype.is_stored_only else computing_dtype(dtype)


def _convert(scalar: Scalar, dtype: DType) -> Scalar:
    source, target = scalar.dtype, element_type(dtype)
    if source == dtype:
        return scalar
    if dtype == bool_:
        return scalar.to(_wide(scalar.dtype)).compare("ne", 0)
    if source.is_float and dtype.is_float:
        return _resize_float(scalar, dtype)
    if source.is_float:
        return _float_to_integer(scalar, dtype)
    if dtype.is_float:
        return _integer_to_float(scalar, dtype)
    return Scalar(_resize_integer(scalar, target), dtype)


def _resize_float(scalar: Scalar, dtype: DType) -> Scalar:
    target = dtype.to_mlir()
    if _goes_through_f32(scalar.dtype, dtype):
        return _resize_float(_resize_float(scalar, f32), dtype)
    resize = arith.extf if dtype.bits > scalar.dtype.bits else arith.truncf
    return Scalar(resize(target, scalar.value), dtype)


def _goes_through_f32(source: DType, target: DType) -> bool:
    """Only f32 converts to and from bf16 and fp8, as in ml_dtypes and PyTorch."""
    return f32 not in (source, target) and any(dtype == bf16 or dtype.is_stored_only for dtype in (source, target))


def _integer_to_float(scalar: Scalar, dtype: DType) -> Scalar:
    wide = _wide(dtype)
    convert = arith.sitofp if scalar.dtype.kind == "signed" else arith.uitofp
    return Scalar(convert(wide.to_mlir(), scalar.value), wide).to(dtype)


_EXACT_BITS = {32: 24, 64: 53}
"""Bits of the integers that floats of so many bits have all of."""


def _float_to_integer(scalar: Scalar, dtype: DType) -> Scalar:
    """Saturate before converting, since the machine's conversion of a float that does not fit is undefined."""
    import numpy as np

    scalar = scalar.to(_wide(scalar.dtype))
    limits = np.iinfo(dtype.numpy)
    if dtype.kind == "unsigned" and dtype.bits <= _EXACT_BITS[scalar.dtype.bits]:
        # Of two numbers of which one is none, these give the other one: 0.
        positive = arith.maxnumf(scalar.value, scalar.like(0.0).value)
        inside = arith.minnumf(positive, scalar.like(float(limits.max)).value)
        return Scalar(arith.fptoui(element_type(dtype), inside), dtype)
    low, high = scalar.compare("le", float(limits.min)), scalar.compare("ge", float(limits.max))
    not_a_number = scalar.compare("ne", scalar)
    inside = (low | high | not_a_number).where(scalar.like(0.0), scalar)
    convert = arith.fptosi if dtype.kind == "signed" else arith.fptoui
    result = Scalar(convert(element_type(dtype), inside.value), dtype)
    return low.where(result.like(limits.min), high.where(result.like(limits.max), result))


def _signless(value: float | int | bool, dtype: DType) -> float | int | bool:
    """An unsigned constant as the signed number of the same bits, which is how MLIR prints signless integers."""
    return value - (1 << dtype.bits) if dtype.kind == "unsigned" and value >= 1 << (dtype.bits - 1) else value


def _resize_integer(scalar: Scalar, target: ir.Type) -> ir.Value:
    source_width, width = ir.IntegerType(scalar.value.type).width, ir.IntegerType(target).width
    if width == source_width:
        return scalar.value
    if width < source_width:
        return arith.trunci(target, scalar.value)
    extend = arith.extsi if scalar.dtype.kind == "signed" else arith.extui
    return extend(target, scalar.value)


# Elements of a tensor that are read by an index which may lie outside of it.
def within(index: ir.Value, size: int) -> Scalar:
    """Whether an index is one of so many elements: a negative one is a large number."""
    return Scalar(arith.cmpi(arith.CmpIPredicate.ult, index, constant(ir.IndexType.get(), size)), bool_)


def every(conditions: Sequence[Scalar]) -> Scalar:
    """Whether all conditions hold, of which there are some."""
    return reduce(lambda left, right: left & right, conditions)


def read(source: ir.Value, where: Sequence[ir.Value], inside: Scalar, ends: Collection[int] = ()) -> ir.Value:
    """An element, or any where its index is not inside.

    Along the dimensions `ends`, which are the first and the last where none are given, it always is: that index stays
    as it is, so that neighbours are read at once.
    """
    ends = ends or (0, len(where) - 1)
    zero = constant(ir.IndexType.get(), 0)
    places = [at if dim in ends else arith.select(inside.value, at, zero) for dim, at in enumerate(where)]
    return tensor.extract(source, places)

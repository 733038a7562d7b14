"""Arithmetic on the i32 numbers of threads, which addresses of shared memory are too, folded where they are known."""

from __future__ import annotations

from blu.dialects.core.mlir import arith, ir

Number = ir.Value | int


def i32() -> ir.Type:
    """The type of numbers and of shared addresses."""
    return ir.IntegerType.get_signless(32)


def f32() -> ir.Type:
    """The type of sums."""
    return ir.F32Type.get()


def number(value: Number) -> ir.Value:
    """A constant, or a value as it is."""
    if not isinstance(value, int):
        return value
    type_ = i32()
    return arith.constant(type_, ir.IntegerAttr.get(type_, value))


def real(value: float) -> ir.Value:
    """An f32 constant."""
    return arith.constant(f32(), ir.FloatAttr.get(f32(), value))


def add(left: Number, right: Number) -> Number:
    """left + right."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if isinstance(left, int):
        left, right = right, left
    return left if isinstance(right, int) and right == 0 else arith.addi(left, number(right))


def subtract(left: Number, right: Number) -> ir.Value:
    """left - right."""
    return arith.subi(number(left), number(right))


def multiply(left: Number, right: Number) -> Number:
    """left * right."""
    if isinstance(left, int):
        return left * right if isinstance(right, int) else multiply(right, left)
    return left if isinstance(right, int) and right == 1 else arith.muli(left, number(right))


def divide(left: ir.Value, right: Number) -> ir.Value:
    """left / right of numbers that are not negative."""
    return left if isinstance(right, int) and right == 1 else arith.divui(left, number(right))


def remainder(left: ir.Value, right: Number) -> ir.Value:
    """left % right of numbers that are not negative."""
    return arith.remui(left, number(right))


def smaller(left: Number, right: Number) -> ir.Value:
    """The signed minimum."""
    return arith.minsi(number(left), number(right))


def larger(left: Number, right: Number) -> ir.Value:
    """The signed maximum."""
    return arith.maxsi(number(left), number(right))


def is_below(left: Number, right: Number) -> ir.Value:
    """left < right, signed."""
    return arith.cmpi(arith.CmpIPredicate.slt, number(left), number(right))


def is_equal(left: Number, right: Number) -> ir.Value:
    """left == right."""
    return arith.cmpi(arith.CmpIPredicate.eq, number(left), number(right))


def as_number(index: ir.Value) -> ir.Value:
    """An index as i32."""
    return arith.index_cast(i32(), index)

"""`ex2.approx`, `lg2.approx`, `rcp.approx`: the functions that the special function unit approximates, of one f32.

And `add.rz`, of one f32 too.
"""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.mlir import ir, vector
from blu.passes.gpu.isa.assembly import pure_assembly
from blu.passes.gpu.numbers import f32


def ex2(exponent: ir.Value) -> ir.Value:
    """2 ** exponent, to about 2 units in the last place; subnormal results are 0."""
    return pure_assembly(f32(), [exponent], "ex2.approx.ftz.f32 $0, $1;", "=f,f")


def ex2_negated(exponent: ir.Value) -> ir.Value:
    """2 ** -exponent, as `ex2`, in one instruction; LLVM's negations are instructions of their own."""
    return pure_assembly(
        f32(), [exponent], "{ .reg .f32 %r_n; neg.f32 %r_n, $1; ex2.approx.ftz.f32 $0, %r_n; }", "=f,f"
    )


def lg2(value: ir.Value) -> ir.Value:
    """The logarithm to base 2 of a positive number, to about 1e-7."""
    return pure_assembly(f32(), [value], "lg2.approx.f32 $0, $1;", "=f,f")


def rcp(value: ir.Value) -> ir.Value:
    """1 / value, to about 1 unit in the last place; subnormal results are 0."""
    return pure_assembly(f32(), [value], "rcp.approx.ftz.f32 $0, $1;", "=f,f")


def above_fractions(value: ir.Value) -> ir.Value:
    """2^23 more than a number that is not negative, rounded towards zero: its whole part is in the low bits."""
    return pure_assembly(f32(), [value], "add.rz.f32 $0, $1, 0f4B000000;", "=f,f")


def of_each(value: ir.Value, instruction: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """An instruction of one f32 on a scalar, or on each element of a vector."""
    if not isinstance(value.type, ir.VectorType):
        return instruction(value)
    lanes = range(ir.VectorType(value.type).shape[0])
    return vector.from_elements(value.type, [instruction(vector.extract(value, [], [lane])) for lane in lanes])

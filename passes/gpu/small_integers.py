"""Floats as small integers, by an addition: conversions have a quarter of its rate, and keep exponentials waiting.

    %1 = arith.fptoui %0 : f32 to i8     ->     t = %0 + 2^23, rounded towards zero; the result is the low bits of t

Numbers from 2^23 on have no fraction, and those of t are %0's, if that is less than 2^16: other numbers have no
conversion to so few bits.

Source: PTX ISA, "add.rz.f32".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu.isa import approx
from blu.passes.gpu.numbers import i32
from blu.passes.kernels.math.elements import element_type

MOST_BITS = 16


def convert_small_integers(operations: Mapping[str, Sequence[ir.Operation]]) -> bool:
    """Replace conversions of f32 to unsigned integers of few bits, of scalars or vectors. Whether there was one."""
    found = [item for item in operations.get("arith.fptoui", ()) if _is_small(item)]
    for operation in found:
        with ir.InsertionPoint(operation), operation.location:
            result = _converted(operation.operands[0], operation.results[0].type)
        operation.results[0].replace_all_uses_with(result)
        operation.erase()
    return bool(found)


def _is_small(operation: ir.Operation) -> bool:
    source, target = (element_type(value.type) for value in (operation.operands[0], operation.results[0]))
    return isinstance(source, ir.F32Type) and ir.IntegerType(target).width <= MOST_BITS


def _converted(value: ir.Value, target: ir.Type) -> ir.Value:
    shifted = approx.of_each(value, approx.above_fractions)
    wide = ir.VectorType.get(value.type.shape, i32()) if isinstance(value.type, ir.VectorType) else i32()
    return arith.trunci(target, arith.bitcast(wide, shifted))

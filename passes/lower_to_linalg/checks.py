"""Run-time checks: a small reduction that finds an offending value, handed to `plan.check` for the host to look at."""

from __future__ import annotations

from blu.dialects.dtypes import DType, i64
from blu.dialects.mlir import arith, ir
from blu.dialects.plan import NOTHING_FOUND, check
from blu.passes.lower_to_linalg.generic import constant, reduce, shape_of
from blu.passes.lower_to_linalg.rules import Lowering
from blu.passes.lower_to_linalg.scalar import Scalar


def check_index(op: Lowering, indices: ir.Value, dtype: DType, size: int) -> None:
    """Report an index outside of [-size, size)."""

    def bad(index: Scalar) -> Scalar:
        wide = index.to(i64)
        return wide.compare("lt", -size) | wide.compare("ge", size)

    found = _first_bad(indices, dtype, bad)
    check(found, kind="index", op=_name(op), size=size)


def check_divisor(op: Lowering) -> None:
    """Report an integer division by zero."""
    found = _first_bad(op.operands[1], op.types[1].dtype, lambda divisor: divisor.compare("eq", 0))
    check(found, kind="divide", op=_name(op), size=0)


def _name(op: Lowering) -> str:
    return op.operation.name.removeprefix("blu.")


def _first_bad(values: ir.Value, dtype: DType, bad) -> ir.Value:
    """The largest value for which `bad` holds, as a 0-d i64 tensor; NOTHING_FOUND where there is none."""
    start = constant(ir.IntegerType.get_signless(64), NOTHING_FOUND)

    def body(element: ir.Value, worst: ir.Value) -> ir.Value:
        scalar = Scalar(element, dtype)
        wide = scalar.to(i64).value
        return arith.maxsi(worst, arith.select(bad(scalar).value, wide, start))

    (found,) = reduce(values, tuple(range(len(shape_of(values)))), [start], body)
    return found

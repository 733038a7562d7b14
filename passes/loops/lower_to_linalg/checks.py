"""Run-time checks: a small reduction that finds an offending value, handed to `plan.check` for the host to look at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

from blu.dialects.core.dtypes import DType, i64, product, tensor_type
from blu.dialects.core.locations import called_at
from blu.dialects.core.mlir import arith, ir
from blu.dialects.core.op import operation_class
from blu.dialects.inside import inside
from blu.dialects.plan import check
from blu.passes.loops.lower_to_linalg.generic import constant, pointwise, reduce, reshape, shape_of
from blu.passes.loops.lower_to_linalg.known_ranges import is_inside
from blu.passes.loops.lower_to_linalg.rules import Lowering
from blu.passes.loops.lower_to_linalg.scalar import Scalar
from blu.passes.loops.lower_to_linalg.shape import extract_slice
from blu.plan.schema import NOTHING_FOUND

# From so many values on they are looked at in parts of so many.
LONG, PART = 1 << 17, 1 << 16


def check_index(op: Lowering, operand: int, size: int) -> None:
    """Report an index outside of [-size, size) in an operand, if there may be one that has not been looked at yet."""
    indices = op.operation.operands[operand]
    is_checked = not isinstance(indices.owner, ir.Block) and indices.owner.name == "blu.checked_index"
    if not is_checked and not is_inside(indices, -size, size):
        check_position(op.operands[operand], op.types[operand].dtype, size, _name(op), from_end=True)


def check_position(indices: ir.Value, dtype: DType, size: int, reported_as: str, *, from_end: bool) -> None:
    """Report an index outside of [0, size), or of [-size, size) where it may count from the end."""
    lowest = -size if from_end else 0

    def found(index: Scalar) -> Scalar:
        wide = index.to(i64)
        is_wrong = wide.compare("lt", lowest) | wide.compare("ge", size)
        return is_wrong.where(wide, wide.like(NOTHING_FOUND))

    _report(worst_of(indices, dtype, found), kind="index" if from_end else "position", op=reported_as, size=size)


def check_divisor(op: Lowering) -> None:
    """Report an integer division by zero: its slot holds 1."""
    dtype = op.types[1].dtype
    _report(worst_of(op.operands[1], dtype, lambda x: x.compare("eq", 0).to(i64)), kind="divide", op=_name(op), size=0)


def check_routine(operation: ir.Operation, found: ir.Value) -> None:
    """Report what the host could not compute for a matrix: its slot holds one more than the matrix's number."""
    cls = operation_class(operation)
    reports, name = getattr(cls, "reports", ""), getattr(cls, "reported_as", "")
    if reports:
        size = product(tensor_type(operation.operands[0].type).shape[:-2])
        _report(found, kind=reports, op=called_at(operation.location) or name, size=size)


def only_where(predicate: ir.Value, is_true: bool) -> AbstractContextManager[None]:
    """Inside, what is found counts only where a 0-d tensor of a bool is so."""
    return inside(_conditions, (*_conditions.get(), (predicate, is_true)))


_conditions: ContextVar[tuple[tuple[ir.Value, bool], ...]] = ContextVar("conditions", default=())


def _report(found: ir.Value, *, kind: str, op: str, size: int) -> None:
    """Let the host look at what was found, where all conditions hold."""
    element = ir.IntegerType.get_signless(64)
    for predicate, is_true in _conditions.get():
        nothing = arith.constant(element, NOTHING_FOUND)

        def chosen(holds: ir.Value, value: ir.Value, *_: ir.Value, nothing=nothing, is_true=is_true) -> ir.Value:
            return arith.select(holds, value, nothing) if is_true else arith.select(holds, nothing, value)

        found = pointwise((), [predicate, found], element, chosen)
    check(found, kind=kind, op=op, size=size)


def _name(op: Lowering) -> str:
    return called_at(op.operation.location) or op.operation.name.removeprefix("blu.")


def worst_of(values: ir.Value, dtype: DType, found: Callable[[Scalar], Scalar]) -> ir.Value:
    """The largest of what is `found` at each value (an i64), as a 0-d tensor of an i64 that is unsigned.

    Of many values it is the largest of what their parts give, which are side by side.
    """
    count = product(shape_of(values))
    if count < LONG:
        return _largest(values, tuple(range(len(shape_of(values)))), dtype, found)
    width = next((item for item in range(PART, 2 * PART) if count % item == 0), PART)
    whole = count - count % width
    flat = reshape(values, (count,))
    rows = reshape(extract_slice(flat, [0], [whole], [1]), (whole // width, width))
    worst = worst_of(_largest(rows, (1,), dtype, found), i64, lambda x: x)
    if whole == count:
        return worst
    rest = _largest(extract_slice(flat, [whole], [count - whole], [1]), (0,), dtype, found)
    return pointwise((), [worst, rest], ir.IntegerType.get_signless(64), lambda one, other, *_: arith.maxui(one, other))


def _largest(values: ir.Value, axes: tuple[int, ...], dtype: DType, found: Callable[[Scalar], Scalar]) -> ir.Value:
    start = constant(ir.IntegerType.get_signless(64), NOTHING_FOUND)

    def body(element: ir.Value, worst: ir.Value) -> ir.Value:
        return arith.maxui(worst, found(Scalar(element, dtype)).value)

    (worst,) = reduce(values, axes, [start], body)
    return worst

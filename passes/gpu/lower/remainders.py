"""Remainders of floats, exactly: LLVM's own for GPUs subtract a rounded quotient, which is wrong for large ones.

    %1 = arith.remf %x, %y     ->     t = |y|, doubled while that is at most |x|
                                      from t down to |y|, halving: |x| becomes |x| - t where it is at least t

All steps are exact, twice as many as the quotient has bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dialects.core.mlir import arith, ir, math, scf, vector


def expand_remainders(operations: Mapping[str, Sequence[ir.Operation]]) -> bool:
    """Replace each arith.remf, of scalars or vectors; halves are done in f32, which holds their remainders.

    Whether there was one.
    """
    remainders = operations.get("arith.remf", ())
    for operation in remainders:
        with ir.InsertionPoint(operation), operation.location:
            result = _remainder(*operation.operands)
        operation.results[0].replace_all_uses_with(result)
        operation.erase()
    return bool(remainders)


def _remainder(left: ir.Value, right: ir.Value) -> ir.Value:
    type_ = left.type
    if isinstance(type_, ir.VectorType):
        pairs = [[vector.extract(value, [], [lane]) for value in (left, right)] for lane in range(type_.shape[0])]
        return vector.from_elements(type_, [_remainder(*pair) for pair in pairs])
    if type_.width == 16:
        f32 = ir.F32Type.get()
        return arith.truncf(type_, _remainder(arith.extf(f32, left), arith.extf(f32, right)))
    return _of_scalars(left, right)


def _of_scalars(left: ir.Value, right: ir.Value) -> ir.Value:
    """NaN where there is no remainder, else a number with the left one's sign."""
    zero, infinity, nan = (_number(left.type, value) for value in (0.0, float("inf"), float("nan")))
    numerator, divisor = math.absf(left), math.absf(right)
    is_finite, is_positive = _compare("OLT", numerator, infinity), _compare("OGT", divisor, zero)
    numerator = arith.select(is_finite, numerator, zero)
    divisor = arith.select(is_positive, divisor, infinity)
    result = _subtracted(numerator, _doubled(divisor, numerator), divisor)
    return arith.select(arith.andi(is_finite, is_positive), math.copysign(result, left), nan)


def _doubled(value: ir.Value, limit: ir.Value) -> ir.Value:
    """The largest value * 2 ** n up to the limit; the value where it is larger."""
    loop = scf.WhileOp([value.type], [value])
    with ir.InsertionPoint(loop.before.blocks.append(value.type)):
        (now,) = loop.before.blocks[0].arguments
        scf.condition(_compare("OLE", arith.addf(now, now), limit), [now])
    with ir.InsertionPoint(loop.after.blocks.append(value.type)):
        (now,) = loop.after.blocks[0].arguments
        scf.yield_([arith.addf(now, now)])
    return loop.results[0]


def _subtracted(value: ir.Value, largest: ir.Value, smallest: ir.Value) -> ir.Value:
    """The value less each of largest, largest / 2, .. smallest that is not above what is left."""
    types = [value.type] * 2
    loop = scf.WhileOp(types, [value, largest])
    with ir.InsertionPoint(loop.before.blocks.append(*types)):
        left, part = loop.before.blocks[0].arguments
        left = arith.select(_compare("OGE", left, part), arith.subf(left, part), left)
        scf.condition(_compare("OGT", part, smallest), [left, part])
    with ir.InsertionPoint(loop.after.blocks.append(*types)):
        left, part = loop.after.blocks[0].arguments
        scf.yield_([left, arith.mulf(part, _number(part.type, 0.5))])
    return loop.results[0]


def _compare(predicate: str, left: ir.Value, right: ir.Value) -> ir.Value:
    return arith.cmpf(getattr(arith.CmpFPredicate, predicate), left, right)


def _number(type_: ir.Type, value: float) -> ir.Value:
    return arith.constant(type_, ir.FloatAttr.get(type_, value))

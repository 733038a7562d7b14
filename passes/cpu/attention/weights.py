"""Softmax on vectors of scores: the weights, and what guards queries that see no key.

Scores are in units of ln 2 where that is exact enough, so that weights are powers of two.
"""

from __future__ import annotations

from blu.dialects.core.mlir import arith, ir
from blu.dialects.core.mlir import math as math_ops
from blu.passes.cpu.attention.operands import Problem
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.math import exponential
from blu.passes.kernels.math.elements import Elements, clamp, fma, polynomial, select

HIDDEN = float("-inf")

LOWEST = {1.0: -87.0, exponential.LOG2_E: -126.0}
"""By unit, the lowest score whose weight is a normal number. Lower ones weigh nothing beside the largest, which weighs
1; computing their subnormal weights would cost a hundred cycles each, on the many scores that are -inf."""


def unit_of(problem: Problem) -> float:
    """What scores are multiplied by. A float mask stays as it is: its lowest finite number must not become -inf."""
    if problem.is_wide or (problem.mask is not None and not problem.mask.is_bool):
        return 1.0
    return exponential.LOG2_E


def weights(scores: ir.Value, unit: float) -> ir.Value:
    """exp(scores / unit) of scores that are not positive; -inf gives 0 and NaN stays NaN."""
    element = scores.type.element_type
    if isinstance(element, ir.F64Type):
        return math_ops.exp(scores)
    x = Elements(scores, fused=True)
    moderate = clamp(x, LOWEST[unit])
    result = exponential.exp_of_moderate(moderate) if unit == 1.0 else _exp2_of_moderate(moderate)
    return select(x < LOWEST[unit], 0.0, result).value


def _exp2_of_moderate(x: Elements) -> Elements:
    """2^x for |x| <= 126, as exponential.exp2 does it but with a single scaling."""
    rounder = exponential.ROUNDER + exponential.BIAS
    shifted = x + rounder
    r = x - (shifted - rounder)
    return fma(r, polynomial(r, exponential.EXP2), 1.0) * exponential.power_of_two(shifted.bits())


def larger(left: ir.Value, right: ir.Value) -> ir.Value:
    """The maximum in one instruction. NaN may get lost: the weights of such scores are NaN in any case."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.OGT, left, right), left, right)


def without_hidden(largest: ir.Value) -> ir.Value:
    """A largest score to subtract: 0 for a query that has seen no key, so that -inf - -inf does not appear."""
    hidden = arith.cmpf(arith.CmpFPredicate.OEQ, largest, vectors.constant(largest.type, HIDDEN))
    return arith.select(hidden, vectors.constant(largest.type, 0), largest)


def divisor(total: ir.Value) -> ir.Value:
    """What to divide by: 1 for a query that has seen no key, whose sums are 0."""
    empty = arith.cmpf(arith.CmpFPredicate.OEQ, total, vectors.constant(total.type, 0))
    return arith.select(empty, vectors.constant(total.type, 1), total)

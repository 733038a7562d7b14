"""Arithmetic that changes no number: neutral elements, ops that undo or repeat themselves, choices that are known.

Floats keep every bit: x + 0.0 is not x where x is -0.0, but x - 0.0 and x + -0.0 are.
"""

from __future__ import annotations

import math

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType
from blu.dialects.core.mlir import ir
from blu.passes.graph.simplify.rules import Site, broadcast, made_by, simplifies, splat_of


@dataclass(frozen=True)
class Neutral:
    """The second operand that changes nothing, for integers (and bools) and for floats; None where there is none."""

    integer: int | None
    float: float | None
    is_commutative: bool = False

    def is_it(self, number: np.generic | None, dtype: DType) -> bool:
        wanted = self.float if dtype.is_float else self.integer
        if number is None or wanted is None:
            return False
        if dtype.is_float:
            return float(number) == wanted and math.copysign(1, float(number)) == math.copysign(1, wanted)
        return bool(number == np.asarray(wanted).astype(dtype.numpy))


NEUTRAL = {
    "add": Neutral(0, -0.0, is_commutative=True),
    "subtract": Neutral(0, 0.0),
    "multiply": Neutral(1, 1.0, is_commutative=True),
    "divide": Neutral(None, 1.0),
    "floor_divide": Neutral(1, None),
    "bitwise_or": Neutral(0, None, is_commutative=True),
    "bitwise_xor": Neutral(0, None, is_commutative=True),
    "bitwise_and": Neutral(-1, None, is_commutative=True),
    "left_shift": Neutral(0, None),
    "right_shift": Neutral(0, None),
}
IDEMPOTENT = ("absolute", "floor", "ceil", "trunc", "round")
INVOLUTIONS = ("negative", "invert", "logical_not", "reverse")


@simplifies(*NEUTRAL)
def drop_neutral(site: Site) -> ir.Value | None:
    """%1 = "blu.multiply"(%0, %one)      ->      %0 (broadcast where %one has the larger shape)"""
    neutral, (left, right), dtype = NEUTRAL[site.name], site.operands, site.type.dtype
    if neutral.is_it(splat_of(right), dtype):
        return broadcast(left, site.type)
    if neutral.is_commutative and neutral.is_it(splat_of(left), dtype):
        return broadcast(right, site.type)
    return None


@simplifies(*INVOLUTIONS)
def drop_undone(site: Site) -> ir.Value | None:
    """%1 = "blu.negative"(%0), %2 = "blu.negative"(%1)      ->      %0"""
    inner = made_by(site.operands[0], site.name)
    return inner.operands[0] if inner and inner.attributes == site.attributes else None


@simplifies(*IDEMPOTENT)
def drop_repeated(site: Site) -> ir.Value | None:
    """%1 = "blu.floor"(%0), %2 = "blu.floor"(%1)      ->      %1"""
    return site.operands[0] if made_by(site.operands[0], site.name) else None


@simplifies("where")
def choose(site: Site) -> ir.Value | None:
    """A condition that is the same everywhere and known, or two choices that are the same.

    %1 = "blu.where"(%true, %x, %y)      ->      %x (broadcast where another operand has the larger shape)
    """
    condition, x, y = site.operands
    if x == y:
        return broadcast(x, site.type)
    number = splat_of(condition)
    return None if number is None else broadcast(x if number else y, site.type)

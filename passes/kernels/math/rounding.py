"""Exact functions that LLVM would turn into calls, or does not lower at all; any float type."""

from __future__ import annotations

from blu.passes.kernels.math.elements import Elements, fma, select

SMALLEST_NORMAL = {32: 2.0**-126, 64: 2.0**-1022}
INFINITY = float("inf")


def round_half_away(x: Elements) -> Elements:
    """trunc(x), and one further from zero if at least 1/2 is missing (x - trunc(x) is exact); keeps -0.0."""
    whole = x.emit("math.trunc")
    further = whole + x.constant(1.0).copysign(x)
    return select(abs(x - whole) >= 0.5, further, whole)


def fused_multiply_add(a: Elements, b: Elements, c: Elements) -> Elements:
    """As it is, or rounded twice on a target that would call the C library for it."""
    return fma(a, b, c)


def clampf(x: Elements, low: Elements, high: Elements) -> Elements:
    """min(max(x, low), high), where NaN stays NaN."""
    return x.emit("arith.maximumf", low).emit("arith.minimumf", high)


def isnan(x: Elements) -> Elements:
    """A mask."""
    return x.is_nan()


def isinf(x: Elements) -> Elements:
    """A mask."""
    return abs(x).equals(INFINITY)


def isfinite(x: Elements) -> Elements:
    """A mask."""
    return abs(x) < INFINITY


def isnormal(x: Elements) -> Elements:
    """A mask: neither zero, subnormal, infinite nor NaN."""
    a = abs(x)
    return (a >= SMALLEST_NORMAL[x.width]) & (a < INFINITY)

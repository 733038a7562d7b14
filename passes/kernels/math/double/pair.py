"""Sums of two f64 numbers, which hold about 106 bits: what the f64 functions compute in where one f64 would not do.

All operations need a fused multiply-add and finite operands: an infinity leaves NaN in the low part.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.passes.kernels.math.elements import Elements, fma, select


@dataclass(frozen=True)
class Pair:
    """high + low, where `low` is at most about half a unit in the last place of `high`."""

    high: Elements
    low: Elements

    def __add__(self, other: Pair) -> Pair:
        total = exact_sum(self.high, other.high)
        return quick_sum(total.high, total.low + (self.low + other.low))

    def __mul__(self, other: Pair) -> Pair:
        product = exact_product(self.high, other.high)
        return quick_sum(product.high, fma(self.high, other.low, fma(self.low, other.high, product.low)))

    def __truediv__(self, other: Pair) -> Pair:
        inverse = 1.0 / other.high
        quotient = self.high * inverse
        rest = fma(-quotient, other.high, self.high) + self.low
        return quick_sum(quotient, fma(-quotient, other.low, rest) * inverse)

    def scaled(self, factor: float) -> Pair:
        """Times a power of two."""
        return Pair(self.high * factor, self.low * factor)

    def constant(self, parts: tuple[float, float]) -> Pair:
        """A number given as its nearest f64 number and the rest, in all elements."""
        return Pair(self.high.constant(parts[0]), self.high.constant(parts[1]))

    def rounded(self) -> Elements:
        """The nearest f64 number."""
        return self.high + self.low


def quick_sum(a: Elements, b: Elements) -> Pair:
    """a + b exactly, if |a| >= |b| or a is 0."""
    total = a + b
    return Pair(total, b - (total - a))


def exact_sum(a: Elements, b: Elements) -> Pair:
    """a + b exactly."""
    total = a + b
    part = total - a
    return Pair(total, (a - (total - part)) + (b - part))


def exact_product(a: Elements, b: Elements) -> Pair:
    """a * b exactly, unless it is so small that its low part underflows."""
    product = a * b
    return Pair(product, fma(a, b, -product))


def select_pair(mask: Elements, when_true: Pair, when_false: Pair) -> Pair:
    """One of two pairs per element."""
    return Pair(select(mask, when_true.high, when_false.high), select(mask, when_true.low, when_false.low))

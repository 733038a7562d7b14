"""fp8 in integer arithmetic, for processors and GPUs without instructions for it: rounded to nearest even.

Beyond the range e4m3 has NaN and e5m2 infinity, as in ml_dtypes. fp8 is bytes here, in vectors or alone.
"""

from __future__ import annotations

import struct

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.kernels.math.elements import Elements, select, with_element

_SIGN, _MAGNITUDE, _INFINITY = 0x80, 0x7FFFFFFF, 0x7F800000


@dataclass(frozen=True)
class Float8:
    """One of both formats. `largest` is the end of what rounds to a finite number; `beyond` what lies behind it, and
    `nan` a NaN, as bytes. The fields are those of an f16 whose numbers are `scale` times smaller, `shift` bits further
    up."""

    fraction: int
    smallest_normal: float
    largest: float
    beyond: int
    nan: int
    shift: int
    scale: float

    @property
    def is_even_beyond(self) -> bool:
        """Whether `largest` itself, which is in the middle, lies beyond: infinity is even, a NaN is not."""
        return self.beyond != self.nan

    def is_beyond(self, magnitude: Elements) -> Elements:
        """Of numbers without their sign, as floats; NaN is not."""
        return magnitude >= self.largest if self.is_even_beyond else magnitude > self.largest


E4M3 = Float8(3, 2.0**-6, 464.0, 0x7F, 0x7F, 7, 2.0**8)
E5M2 = Float8(2, 2.0**-14, 61440.0, 0x7C, 0x7E, 8, 1.0)


def format_of(element: ir.Type) -> Float8 | None:
    """The format of an element type; None of any other."""
    if isinstance(element, ir.Float8E4M3FNType):
        return E4M3
    return E5M2 if isinstance(element, ir.Float8E5M2Type) else None


def widen(value: ir.Value, kind: Float8) -> ir.Value:
    """fp8 to f32, exactly: by way of the f16 that has the same fields."""
    byte = Elements(value, fused=False)
    bits = byte.emit("arith.extui", type_=with_element(value.type, _integer(16)))
    half = ((bits & _SIGN) << 8) | ((bits & (_SIGN - 1)) << kind.shift)
    single = half.emit("arith.bitcast", type_=with_element(value.type, ir.F16Type.get()))
    single = single.emit("arith.extf", type_=with_element(value.type, ir.F32Type.get()))
    if kind.scale == 1:
        return single.value
    is_nan = (bits & (_SIGN - 1)).equals(kind.nan)
    return select(is_nan, single.constant(float("nan")), single * kind.scale).value


def narrow(value: ir.Value, kind: Float8) -> ir.Value:
    """f32 to fp8, rounded once."""
    bits = Elements(value, fused=False).bits()
    magnitude, shift = bits & _MAGNITUDE, 23 - kind.fraction
    smallest = _bits(kind.smallest_normal)
    # The bias of the exponent goes, and a half of the last bit comes, which carries into it.
    odd = magnitude.shift_right_unsigned(shift) & 1
    rounded = magnitude + odd + ((1 << (shift - 1)) - 1 - (smallest - (1 << 23)))
    normal = rounded.shift_right_unsigned(shift)
    # Among f32 of this size, neighbours are as far apart as the smallest fp8.
    anchor = kind.smallest_normal * 2.0 ** (23 - kind.fraction)
    subnormal = (magnitude.as_float() + anchor).bits() - _bits(anchor)
    byte = select(magnitude < smallest, subnormal, normal)
    limit = _bits(kind.largest)
    byte = select(magnitude >= limit if kind.is_even_beyond else magnitude > limit, kind.beyond, byte)
    if kind.is_even_beyond:
        byte = select(magnitude > _INFINITY, kind.nan, byte)
    byte = byte | (bits.shift_right_unsigned(24) & _SIGN)
    return byte.emit("arith.trunci", type_=with_element(value.type, _integer(8))).value


def _integer(width: int) -> ir.Type:
    return ir.IntegerType.get_signless(width)


def _bits(number: float) -> int:
    """The bits of a positive power of two, or of little more, as an f32."""
    return int.from_bytes(struct.pack("<f", number), "little")

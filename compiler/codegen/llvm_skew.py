"""Rewrite LLVM IR text printed by MLIR's LLVM (24) so that llvmlite's LLVM (22) parses it.

The two differ in how they write floating-point constants. LLVM 24 prints `f0x3D122279`, `+inf`, `-qnan`, `+nan(0x1)`,
`+snan(0x1)` and decimals that are not exact in binary; LLVM 22 takes none of these. All of them become hexadecimal:
`0xH` for half, `0xR` for bfloat, and the bits of the equal double for float and double.
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal
from fractions import Fraction

from blu.dataclass import dataclass


@dataclass(frozen=True)
class Format:
    """An IEEE binary format: its exponent and fraction widths, and the prefix of its hexadecimal literals."""

    exponent_bits: int
    fraction_bits: int
    prefix: str

    @property
    def width(self) -> int:
        return 1 + self.exponent_bits + self.fraction_bits

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.fraction_bits


FORMATS = {
    "half": Format(5, 10, "0xH"),
    "bfloat": Format(8, 7, "0xR"),
    "float": Format(8, 23, "0x"),
    "double": Format(11, 52, "0x"),
}

# What a line is cut into. Quoted strings, comments and names pass through untouched; a literal is matched generously,
# so that a form which this file does not know ends in an error rather than in the other parser.
_TOKEN = re.compile(
    r"""(?P<skip>"[^"]*"|;.*|[%@!$\#][-\w.$]+)
      |(?P<type>\b(?:half|bfloat|float|double|fp128|x86_fp80|ppc_fp128)\b)
      |(?P<literal>(?<![\w.])[-+]?(?:f0x[0-9A-Fa-f]*|\d+\.\d*(?:[eE][-+]?\d+)?|(?:inf|[qs]?nan)\b(?:\([^)]*\))?))""",
    re.VERBOSE,
)
_MAY_HOLD_LITERALS = re.compile(r"f0x|\d\.|inf|nan")
"""What is in every literal that _TOKEN matches: the other lines, which are most, stay as they are."""
_NAN = re.compile(r"(s?)nan\(0x([0-9A-Fa-f]+)\)")


def rewrite(text: str) -> str:
    """The same module with every floating-point literal in a form that both LLVM versions read.

    Raises ValueError, with the line, where a literal has no known form or stands behind no floating-point type.
    """
    return "\n".join(_rewrite_line(line) if _MAY_HOLD_LITERALS.search(line) else line for line in text.split("\n"))


def _rewrite_line(line: str) -> str:
    """One line; a literal has the type of the nearest type word before it."""
    current = ""

    def replace(match: re.Match) -> str:
        nonlocal current
        if match["type"]:
            current = match["type"]
        if not match["literal"]:
            return match[0]
        if current not in FORMATS:
            raise ValueError(f"literal {match[0]} of type {current or 'unknown'} in LLVM IR line: {line.strip()}")
        return _hexadecimal(_bits(match["literal"], FORMATS[current], line), FORMATS[current])

    return _TOKEN.sub(replace, line)


def _bits(literal: str, format_: Format, line: str) -> int:
    """The bits of a literal in its own format."""
    if literal.startswith("f0x"):
        return _checked(literal, literal[3:], format_.width, line)
    sign = (literal[0] == "-") << (format_.width - 1)
    magnitude = literal.lstrip("+-")
    if magnitude[0].isdigit():
        return sign | _round_decimal(magnitude, format_)
    quiet = 1 << (format_.fraction_bits - 1)
    if magnitude in ("inf", "qnan"):
        return sign | format_.infinity | (quiet if magnitude == "qnan" else 0)
    nan = _NAN.fullmatch(magnitude)
    if not nan:
        raise ValueError(f"unknown literal {literal} in LLVM IR line: {line.strip()}")
    payload = _checked(literal, nan[2], format_.fraction_bits - 1, line)
    return sign | format_.infinity | payload | (0 if nan[1] else quiet)


def _checked(literal: str, digits: str, width: int, line: str) -> int:
    """Hexadecimal digits as a number of at most `width` bits."""
    if not digits or int(digits, 16) >> width:
        raise ValueError(f"literal {literal} does not fit {width} bits in LLVM IR line: {line.strip()}")
    return int(digits, 16)


def _round_decimal(magnitude: str, format_: Format) -> int:
    """The bits of a decimal without sign, rounded once, to nearest even."""
    value = Fraction(Decimal(magnitude))
    if value == 0:
        return 0
    smallest = 2 - (1 << (format_.exponent_bits - 1))
    exponent = max(_floor_log2(value), smallest)
    scaled = value / Fraction(2) ** (exponent - format_.fraction_bits)
    # round() of a Fraction rounds halves to even; a carry out of the fraction raises the exponent by itself.
    bits = ((exponent - smallest) << format_.fraction_bits) + round(scaled)
    return min(bits, format_.infinity)


def _floor_log2(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _hexadecimal(bits: int, format_: Format) -> str:
    """A literal that LLVM 22 reads: floats are written as the double of the same value."""
    if format_.width == 32:
        bits = _widen(bits)
        return f"0x{bits:016X}"
    return f"{format_.prefix}{bits:0{format_.width // 4}X}"


def _widen(bits: int) -> int:
    """The bits of the double equal to the float with the given bits; NaN payloads are kept."""
    if bits & 0x7F800000 == 0x7F800000:
        return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
    (value,) = struct.unpack("<f", bits.to_bytes(4, "little"))
    return int.from_bytes(struct.pack("<d", value), "little")

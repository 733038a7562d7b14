"""`prmt`: bytes of two words."""

from __future__ import annotations

from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu.isa.assembly import pure_assembly
from blu.passes.gpu.numbers import f32, i32


def low_halves(first: ir.Value, second: ir.Value) -> ir.Value:
    """The low 16 bits of two words, those of the first one below."""
    return _prmt(first, second, 0x5410)


def high_halves(first: ir.Value, second: ir.Value) -> ir.Value:
    """The high 16 bits of two words, those of the first one below."""
    return _prmt(first, second, 0x7632)


def low_bytes(first: ir.Value, second: ir.Value) -> ir.Value:
    """The low bytes of two words, in the low 16 bits, those of the first one below."""
    return _prmt(first, second, 0x4040)


def _prmt(first: ir.Value, second: ir.Value, bytes_: int) -> ir.Value:
    return pure_assembly(i32(), [first, second], f"prmt.b32 $0, $1, $2, {bytes_:#06x};", "=r,r,r")


def unpack_again(pair: ir.Value, zero: ir.Value) -> list[ir.Value]:
    """The two bf16 of a register as f32, given a zero of which assemblers do not know that it is one.

    So none keeps what it got the first time, in two registers.
    """
    return [arith.bitcast(f32(), _prmt(pair, zero, bytes_)) for bytes_ in (0x1044, 0x3244)]

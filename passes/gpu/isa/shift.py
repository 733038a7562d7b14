"""`shf`, `shr`: shifts whose operands LLVM is not to look into."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.gpu.isa.assembly import pure_assembly
from blu.passes.gpu.numbers import i32


def shf_r_wrap(low: ir.Value, high: ir.Value, bits: ir.Value) -> ir.Value:
    """32 bits of two words, from a bit of the first one on."""
    return pure_assembly(i32(), [low, high, bits], "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r")


def shr(value: ir.Value, bits: int) -> ir.Value:
    """value >> bits, without a sign."""
    return pure_assembly(i32(), [value], f"shr.u32 $0, $1, {bits};", "=r,r")

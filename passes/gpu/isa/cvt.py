"""`cvt`: conversions of f32 to fewer bits, and back."""

from __future__ import annotations

from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu.isa.assembly import pure_assembly
from blu.passes.gpu.numbers import f32, i32, number


def rna_tf32(value: ir.Value) -> ir.Value:
    """An f32, or the i32 of its bits, rounded to the 10 bits of fraction that tf32 has; an i32."""
    letter = "f" if isinstance(value.type, ir.F32Type) else "r"
    return pure_assembly(i32(), [value], "cvt.rna.tf32.f32 $0, $1;", f"=r,{letter}")


def rn_tf32(value: ir.Value) -> ir.Value:
    """An f32 rounded to tf32, an i32: one instruction on Hopper, which older ones do not have."""
    return pure_assembly(i32(), [value], "cvt.rn.tf32.f32 $0, $1;", "=r,f")


def rn_x2(low: ir.Value, high: ir.Value, element: str) -> ir.Value:
    """Two f32 rounded to 16 bits, in one register."""
    return pure_assembly(i32(), [high, low], f"cvt.rn.{element}x2.f32 $0, $1, $2;", "=r,f,f")


def rn_float8_x2(low: ir.Value, high: ir.Value, element: str) -> ir.Value:
    """Two f32 rounded to e4m3 or e5m2, in the lower half of an i32: finite numbers beyond the range, and infinity, to
    the largest."""
    text = f"{{ .reg .b16 pair; cvt.rn.satfinite.{element}x2.f32 pair, $1, $2; cvt.u32.u16 $0, pair; }}"
    return pure_assembly(i32(), [high, low], text, "=r,f,f")


def f16x2_of_float8(pair: ir.Value, element: str) -> ir.Value:
    """The two e4m3 or e5m2 of an i16 as f16, in one register."""
    return pure_assembly(i32(), [pair], f"cvt.rn.f16x2.{element}x2 $0, $1;", "=r,h")


def unpack(pair: ir.Value, element: str) -> list[ir.Value]:
    """The two numbers of a register as f32; the one of an f32."""
    if element in ("f32", "tf32"):
        return [pair]
    if element == "bf16":
        low, high = arith.shli(pair, number(16)), arith.andi(pair, number(-65536))
        return [arith.bitcast(f32(), low), arith.bitcast(f32(), high)]
    halves = ("l", "h")
    text = "{{ .reg .b16 l, h; mov.b32 {{l, h}}, $1; cvt.f32.f16 $0, {}; }}"
    return [pure_assembly(f32(), [pair], text.format(half), "=f,r") for half in halves]

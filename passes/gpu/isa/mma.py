"""`mma.sync`, `ldmatrix` and `stmatrix`: products of small matrices by the 32 threads of a warp.

A fragment is a thread's share of a small matrix, as `mma.sync.m16n8k16` wants it: of the left factor four registers of
two 16-bit numbers, of the right one two, of the sums four f32 (rows lane / 4 and lane / 4 + 8, columns 2 * (lane % 4)
and the next).

Source of the layouts: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu.isa.assembly import assembly
from blu.passes.gpu.numbers import f32, i32, number, real

Split = tuple[ir.Value, ir.Value]
_KEPT, _HALF_OF_CUT = -(1 << 13), 1 << 12
"""Of the bits of an f32: those that tf32 has as well, and half of the last one of them."""


def ldmatrix(address: ir.Value, offset: int, transposed: bool = False) -> list[ir.Value]:
    """Four 8 x 8 matrices of 16-bit numbers; lane l gives the address of row l % 8 of matrix l / 8."""
    kind = ".trans" if transposed else ""
    text = f"ldmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 {{$0, $1, $2, $3}}, [$4+{offset}];"
    return assembly([i32()] * 4, [address], text, "=r,=r,=r,=r,r,~{memory}")


def stmatrix(address: ir.Value, offset: int, matrices: Sequence[ir.Value], transposed: bool = False) -> None:
    """Write what `ldmatrix` would read, rows of 16 bytes at the lanes' addresses."""
    kind = ".trans" if transposed else ""
    text = f"stmatrix.sync.aligned.m8n8.x4{kind}.shared.b16 [$0+{offset}], {{$1, $2, $3, $4}};"
    assembly([], [address, *matrices], text, "r,r,r,r,r,~{memory}")


def m16n8k16(
    sums: Sequence[ir.Value], left: Sequence[ir.Value], right: Sequence[ir.Value], element: str
) -> list[ir.Value]:
    """sums [16, 8] + left [16, 16] @ right [16, 8] of the PTX type `element` (bf16, f16)."""
    text = (
        f"mma.sync.aligned.m16n8k16.row.col.f32.{element}.{element}.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    return assembly([f32()] * 4, [*left, *right, *sums], text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3")


def m16n8k8_tf32(sums: Sequence[ir.Value], left: Sequence[ir.Value], right: Sequence[ir.Value]) -> list[ir.Value]:
    """sums [16, 8] + left [16, 8] @ right [8, 8] of tf32."""
    text = (
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$10, $11, $12, $13};"
    )
    return assembly([f32()] * 4, [*left, *right, *sums], text, "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3")


def m16n8k16_tf32(sums: Sequence[ir.Value], left: Sequence[ir.Value], right: Sequence[ir.Value]) -> list[ir.Value]:
    """sums [16, 8] + left [16, 16] @ right [16, 8] of tf32: the halves one after the other."""
    for half in (0, 1):
        sums = m16n8k8_tf32(sums, left[4 * half : 4 * half + 4], right[2 * half : 2 * half + 2])
    return list(sums)


def m16n8k16_f32(sums: Sequence[ir.Value], left: Sequence[Split], right: Sequence[Split]) -> list[ir.Value]:
    """sums [16, 8] + left [16, 16] @ right [16, 8] of f32, whose halves are products of tf32, with f32's accuracy.

    The product of the two small parts is left out: it is below f32's rounding. Tensor cores cut where they add, always
    towards zero, which long sums would feel: only these 16 terms are added there, small ones first.
    """
    terms = [real(0.0)] * 4
    for from_left, from_right in ((1, 0), (0, 1), (0, 0)):
        for half in (0, 1):
            a, b = left[4 * half : 4 * half + 4], right[2 * half : 2 * half + 2]
            terms = m16n8k8_tf32(terms, [item[from_left] for item in a], [item[from_right] for item in b])
    return [arith.addf(*pair) for pair in zip(sums, terms, strict=True)]


def split(value: ir.Value) -> Split:
    """An f32, or the i32 of its bits, as the sum of two tf32 (i32), exact to 2 ** -22 of it.

    The bits are rounded and cut by whole numbers: conversions take four times as long, and products would wait for
    them. Of what rounds to infinity the rest is infinite, of NaN it is NaN, whatever the large part becomes.
    """
    bits = arith.bitcast(i32(), value) if isinstance(value.type, ir.F32Type) else value
    large = arith.andi(arith.addi(bits, number(_HALF_OF_CUT)), number(_KEPT))
    rest = arith.subf(arith.bitcast(f32(), bits), arith.bitcast(f32(), large))
    return large, arith.andi(arith.bitcast(i32(), rest), number(_KEPT))

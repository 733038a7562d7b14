"""Pieces of 16 bytes that begin at any even address: read as the two aligned pieces they lie in, and shifted.

An aligned piece of which one byte exists may be read whole: memory is given out in larger units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from blu.dialects.mlir import arith, ir, llvm
from blu.passes.gpu import warp
from blu.passes.gpu.attention_operands import further, pointer
from blu.passes.gpu.gemm_problem import COPY_BYTES


@dataclass(frozen=True)
class Shift:
    """How far pieces are from aligned addresses, in bytes (i32); `safe` is an aligned address that exists (i64)."""

    bytes: ir.Value
    safe: ir.Value

    @classmethod
    def of(cls, address: ir.Value, safe: ir.Value) -> Shift:
        """The shift of a piece, and of those that are a multiple of 16 bytes from it."""
        low = arith.andi(arith.trunci(warp.i32(), address), warp.number(COPY_BYTES - 1))
        return cls(low, _aligned(safe))

    def load(self, address: ir.Value, present: ir.Value | None) -> list[ir.Value]:
        """Four registers of two elements of 16 bits, those from `present` on as zeros."""
        start = _aligned(address)
        count = warp.number(8) if present is None else warp.smaller(present, 8)
        needs_second = warp.is_below(COPY_BYTES, warp.add(self.bytes, warp.multiply(count, 2)))
        if present is not None:
            start = arith.select(warp.is_below(0, present), start, self.safe)
        second = arith.select(needs_second, further(start, 1, COPY_BYTES), start)
        words = self._shifted([*_load(start), *_load(second)])
        return words if present is None else [_kept(word, present, 2 * place) for place, word in enumerate(words)]

    def _shifted(self, words: list[ir.Value]) -> list[ir.Value]:
        """The four words from the shift on: by two words, by one, by half a word, as its bits say."""
        for distance in (2, 1):
            moves = self._has(4 * distance)
            pairs = zip(words[:-distance], words[distance:], strict=True)
            words = [arith.select(moves, after, word) for word, after in pairs]
        bits = arith.select(self._has(2), warp.number(16), warp.number(0))
        return [_funnel(low, high, bits) for low, high in pairwise(words)]

    def _has(self, bit: int) -> ir.Value:
        masked = arith.andi(self.bytes, warp.number(bit))
        return arith.cmpi(arith.CmpIPredicate.ne, masked, warp.number(0))


def _aligned(address: ir.Value) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return arith.andi(address, arith.constant(i64, ir.IntegerAttr.get(i64, -COPY_BYTES)))


def _load(address: ir.Value) -> list[ir.Value]:
    loaded = llvm.load(ir.VectorType.get([4], warp.i32()), pointer(address), alignment=COPY_BYTES)
    return [llvm.extractelement(loaded, warp.number(lane)) for lane in range(4)]


def _funnel(low: ir.Value, high: ir.Value, bits: ir.Value) -> ir.Value:
    """32 bits of two words, from a bit of the first one on."""
    return warp.pure_assembly(warp.i32(), [low, high, bits], "shf.r.wrap.b32 $0, $1, $2, $3;", "=r,r,r,r")


def _kept(word: ir.Value, present: ir.Value, first: int) -> ir.Value:
    """A word whose elements are the `first` one and the next, without those that do not exist."""
    half = arith.andi(word, warp.number(0xFFFF))
    some = arith.select(warp.is_below(first, present), half, warp.number(0))
    return arith.select(warp.is_below(first + 1, present), word, some)

"""Pieces of 16 bytes that begin at any even address: read as the two aligned pieces they lie in, and shifted.

Nothing beyond a buffer is read: where its last bytes are not a whole aligned piece, each thread reads them once, in
pieces of their own, and takes them instead of what it would read there.
"""

from __future__ import annotations

from itertools import pairwise

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, memref
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import further, pointer
from blu.passes.gpu.gemm.problem import COPY_BYTES, Factor
from blu.passes.gpu.isa import shift


@dataclass(frozen=True)
class AlignedRange:
    """Where a factor may be read: from the aligned address `start` on (i64), before `end`, 16 bytes at a time.

    `words` are what there is from `end` on, less than 16 bytes; zeros follow. They are empty where there is nothing.
    """

    start: ir.Value
    end: ir.Value
    words: list[ir.Value]

    @classmethod
    def of(cls, factor: Factor) -> AlignedRange:
        """The buffer of a factor; its last bytes are read here."""
        index = memref.extract_aligned_pointer_as_index(factor.buffer)
        start = arith.index_cast(ir.IntegerType.get_signless(64), index)
        rest = factor.extent_bytes % COPY_BYTES
        end = further(start, 1, factor.extent_bytes - rest)
        return cls(start, end, _load_rest(end, rest) if rest else [])

    def load(self, address: ir.Value) -> list[ir.Value]:
        """The four words at an aligned address."""
        if not self.words:
            return _load(address)
        is_last = arith.cmpi(arith.CmpIPredicate.eq, address, self.end)
        words = _load(arith.select(is_last, self.start, address))
        return [arith.select(is_last, last, word) for last, word in zip(self.words, words, strict=True)]


@dataclass(frozen=True)
class Shift:
    """How far pieces of a buffer are from aligned addresses, in bytes (i32)."""

    buffer: AlignedRange
    bytes: ir.Value

    @classmethod
    def of(cls, buffer: AlignedRange, address: ir.Value) -> Shift:
        """The shift of a piece, and of those that are a multiple of 16 bytes from it."""
        return cls(buffer, arith.andi(arith.trunci(numbers.i32(), address), numbers.number(COPY_BYTES - 1)))

    def load(self, address: ir.Value, present: ir.Value | None) -> list[ir.Value]:
        """Four registers of two elements of 16 bits, those from `present` on as zeros."""
        start = _aligned(address)
        count = numbers.number(8) if present is None else numbers.smaller(present, 8)
        needs_second = numbers.is_below(COPY_BYTES, numbers.add(self.bytes, numbers.multiply(count, 2)))
        if present is not None:
            start = arith.select(numbers.is_below(0, present), start, self.buffer.start)
        second = arith.select(needs_second, further(start, 1, COPY_BYTES), start)
        words = self._shifted([*self.buffer.load(start), *self.buffer.load(second)])
        return words if present is None else [_kept(word, present, 2 * place) for place, word in enumerate(words)]

    def _shifted(self, words: list[ir.Value]) -> list[ir.Value]:
        """The four words from the shift on: by two words, by one, by half a word, as its bits say."""
        for distance in (2, 1):
            moves = self._has(4 * distance)
            pairs = zip(words[:-distance], words[distance:], strict=True)
            words = [arith.select(moves, after, word) for word, after in pairs]
        bits = arith.select(self._has(2), numbers.number(16), numbers.number(0))
        return [shift.shf_r_wrap(low, high, bits) for low, high in pairwise(words)]

    def _has(self, bit: int) -> ir.Value:
        masked = arith.andi(self.bytes, numbers.number(bit))
        return arith.cmpi(arith.CmpIPredicate.ne, masked, numbers.number(0))


def _aligned(address: ir.Value) -> ir.Value:
    i64 = ir.IntegerType.get_signless(64)
    return arith.andi(address, arith.constant(i64, ir.IntegerAttr.get(i64, -COPY_BYTES)))


def _load(address: ir.Value) -> list[ir.Value]:
    loaded = llvm.load(ir.VectorType.get([4], numbers.i32()), pointer(address), alignment=COPY_BYTES)
    return [llvm.extractelement(loaded, numbers.number(lane)) for lane in range(4)]


def _load_rest(address: ir.Value, count: int) -> list[ir.Value]:
    """Four words of which `count` bytes exist, an even number: two words, one, and half of one are read."""
    words = []
    if count & 8:
        loaded = llvm.load(ir.VectorType.get([2], numbers.i32()), pointer(address), alignment=8)
        words += [llvm.extractelement(loaded, numbers.number(lane)) for lane in range(2)]
    if count & 4:
        words.append(llvm.load(numbers.i32(), pointer(further(address, 4 * len(words), 1)), alignment=4))
    if count & 2:
        half = ir.IntegerType.get_signless(16)
        last = llvm.load(half, pointer(further(address, 4 * len(words), 1)), alignment=2)
        words.append(arith.extui(numbers.i32(), last))
    return words + [numbers.number(0)] * (4 - len(words))


def _kept(word: ir.Value, present: ir.Value, first: int) -> ir.Value:
    """A word whose elements are the `first` one and the next, without those that do not exist."""
    half = arith.andi(word, numbers.number(0xFFFF))
    some = arith.select(numbers.is_below(first, present), half, numbers.number(0))
    return arith.select(numbers.is_below(first + 1, present), word, some)

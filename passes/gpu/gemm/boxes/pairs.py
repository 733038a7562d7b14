"""How the pairs of neighbours that threads hold lie in a box of shared memory, and get there and back.

Of each eight columns of a box a thread holds two pairs, of rows lane / 4 and lane / 4 + 8: columns 2 (lane % 4) and the
next. A block is 16 columns, of which a thread has four pairs: by columns, then by rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.boxes.plan import BYTE_ROW, PAIR, ROWS
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.isa import mma, prmt, shared_memory, wgmma
from blu.passes.kernels import lanes as vectors


@dataclass(frozen=True)
class Halves:
    """Of 16 bits: an instruction of a warp moves a block, the pairs of which are registers (i32).

    `places` is the address of a warp's boxes, `lane` the thread's number in its warp.
    """

    places: ir.Value
    lane: ir.Value

    def take(self, box: int, block: int) -> list[ir.Value]:
        """The pairs of a block of the box that lies `box` bytes from the first one on."""
        return mma.ldmatrix(self._address(block), box)

    def put(self, box: int, block: int, pairs: Sequence[ir.Value]) -> None:
        """Write the pairs of a block."""
        mma.stmatrix(self._address(block), box, pairs)

    def numbers_of(self, pair: ir.Value, element: ir.Type) -> ir.Value:
        """The vector of the two numbers of a pair."""
        one = vector.broadcast(ir.VectorType.get([1], numbers.i32()), pair)
        return vector.bitcast(vectors.vector_type(PAIR, element), one)

    def pair_of(self, values: ir.Value) -> ir.Value:
        """The pair that a vector of two numbers is."""
        return vector.extract(vector.bitcast(ir.VectorType.get([1], numbers.i32()), values), [], [0])

    def _address(self, block: int) -> ir.Value:
        """What a lane names to `ldmatrix` and `stmatrix`: rows 0 to 15 of 8 columns, then those of the next 8."""
        row = numbers.remainder(self.lane, ROWS)
        piece = arith.xori(numbers.divide(self.lane, ROWS), numbers.remainder(row, 8))
        within = numbers.add(numbers.multiply(row, wgmma.ROW_BYTES), numbers.multiply(piece, COPY_BYTES))
        start = numbers.add(self.places, within)
        return arith.xori(start, numbers.number(block * 2 * COPY_BYTES)) if block else start


@dataclass(frozen=True)
class Words:
    """Of 32 bits: each thread moves its own pairs, which are vectors of two numbers."""

    places: ir.Value
    lane: ir.Value

    def take(self, box: int, block: int) -> list[ir.Value]:
        """The pairs of a block of the box that lies `box` bytes from the first one on."""
        found = []
        for half in range(2):
            address = self._address(2 * block + half)
            for row in range(2):
                pair = shared_memory.ld(address, box + row * self._far, PAIR, numbers.f32())
                found.append(vector.from_elements(vectors.vector_type(PAIR, numbers.f32()), pair))
        return found

    def put(self, box: int, block: int, pairs: Sequence[ir.Value]) -> None:
        """Write the pairs of a block."""
        for place, pair in enumerate(pairs):
            half, row = divmod(place, 2)
            values = [vector.extract(pair, [], [number]) for number in range(PAIR)]
            shared_memory.st(self._address(2 * block + half), box + row * self._far, values)

    def numbers_of(self, pair: ir.Value, element: ir.Type) -> ir.Value:
        """The vector of the two numbers of a pair."""
        return pair

    def pair_of(self, values: ir.Value) -> ir.Value:
        """The pair that a vector of two numbers is."""
        return values

    @property
    def _far(self) -> int:
        """Bytes from a thread's first row to its second."""
        return ROWS // 2 * wgmma.ROW_BYTES

    def _address(self, eighth: int) -> ir.Value:
        """Where the first pair of a thread is of eight columns: they are two pieces of 16 bytes of each row."""
        row, column = numbers.divide(self.lane, 4), numbers.remainder(self.lane, 4)
        piece = arith.xori(numbers.divide(column, 2), row)
        within = numbers.add(numbers.multiply(row, wgmma.ROW_BYTES), numbers.multiply(piece, COPY_BYTES))
        own = numbers.add(within, numbers.multiply(numbers.remainder(column, 2), COPY_BYTES // 2))
        start = numbers.add(self.places, own)
        return arith.xori(start, numbers.number(eighth * 2 * COPY_BYTES)) if eighth else start


@dataclass(frozen=True)
class Half:
    """16 bits of a register (i32)."""

    word: ir.Value
    is_upper: bool


@dataclass(frozen=True)
class Bytes:
    """Of 8 bits, in rows of 64 bytes: each thread moves its own pairs.

    Pairs that it puts are i16. Those that it takes are halves of registers (i32), which hold both rows.
    """

    places: ir.Value
    lane: ir.Value

    def take(self, box: int, block: int) -> list[Half]:
        """The pairs of a block of the box that lies `box` bytes from the first one on."""
        words = []
        for half in range(2):
            first = box + half * COPY_BYTES // 2
            words.append(shared_memory.ld_16(self._start, block * COPY_BYTES, (first, first + _FAR_BYTES)))
        return [Half(word, is_upper) for word in words for is_upper in (False, True)]

    def put(self, box: int, block: int, pairs: Sequence[ir.Value]) -> None:
        """Write the pairs of a block."""
        for place, pair in enumerate(pairs):
            half, row = divmod(place, 2)
            offset = box + half * COPY_BYTES // 2 + row * _FAR_BYTES
            shared_memory.st_16(self._start, block * COPY_BYTES, offset, pair)

    def numbers_of(self, pair: Half, element: ir.Type) -> ir.Value:
        """The vector of the two numbers of a pair."""
        i16 = ir.IntegerType.get_signless(16)
        word = arith.shrui(pair.word, numbers.number(16)) if pair.is_upper else pair.word
        one = vector.broadcast(ir.VectorType.get([1], i16), arith.trunci(i16, word))
        return vector.bitcast(vectors.vector_type(PAIR, element), one)

    def pair_of(self, values: ir.Value) -> ir.Value:
        """The pair that a vector of two numbers is: of the low bits of two words, by one instruction."""
        i16 = ir.IntegerType.get_signless(16)
        made_of = None if isinstance(values.owner, ir.Block) else values.owner
        if made_of is not None and made_of.name == "arith.trunci" and str(made_of.operands[0].type) == "vector<2xi32>":
            words = (vector.extract(made_of.operands[0], [], [lane]) for lane in range(PAIR))
            return arith.trunci(i16, prmt.low_bytes(*words))
        return vector.extract(vector.bitcast(ir.VectorType.get([1], i16), values), [], [0])

    @property
    def _start(self) -> ir.Value:
        """Where a thread's first pair is, in the first half of a piece of 16 bytes."""
        row, column = numbers.divide(self.lane, 4), numbers.remainder(self.lane, 4)
        piece = numbers.multiply(numbers.divide(row, 2), COPY_BYTES)
        within = numbers.add(numbers.multiply(row, BYTE_ROW), numbers.multiply(column, PAIR))
        return numbers.add(self.places, arith.xori(within, piece))


_FAR_BYTES = ROWS // 2 * BYTE_ROW
"""From a thread's first row to its second, where numbers are bytes."""

"""The gradient of queries by Hopper's warpgroups: a block is one of them, has 64 queries, and walks over its keys.

    scores = queries @ keys^T, slopes of weights = g @ values^T    | begun together
    of_query += (weights * (slopes of weights - inner)) @ keys      | once both are there

Sums of weights are those that the forward has left, or are found on the way, by a running softmax. The launch leaves
the largest scores, the logarithms of these sums and inner to that for keys and values: those of 64 queries for each
block, also where these are beyond the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, llvm, math, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.operands import (
    COPY_BYTES,
    HeadMatrix,
    Problem,
    further,
    pointer,
    split_head,
)
from blu.passes.gpu.attention.output import write_tile
from blu.passes.gpu.attention.schedule import WarpgroupGradientSchedule
from blu.passes.gpu.attention.scores import (
    STRIP,
    KeySpan,
    KnownSoftmax,
    Mask,
    RowNumbers,
    RunningSoftmax,
    Sums,
    as_left,
    flatten,
    scaled,
)
from blu.passes.gpu.attention.slopes import Gradient, ShiftedRows, slopes
from blu.passes.gpu.attention.tiles import MatrixTile, tile_bytes
from blu.passes.gpu.attention.walk import tiles_of
from blu.passes.gpu.attention.warpgroups.forward import masked_tiles
from blu.passes.gpu.attention.warpgroups.own_rows import OwnRows, readers_of
from blu.passes.gpu.attention.warpgroups.panels import PIECE, add_weighted, as_sums, packed, scores_of
from blu.passes.gpu.attention.warpgroups.stages import ROWS, MappedOperand, StageRange, Stages
from blu.passes.gpu.attention.warpgroups.turned import turned_bytes
from blu.passes.gpu.isa import barrier, cvt, shfl, wgmma
from blu.passes.gpu.kernel import repeat, when
from blu.passes.gpu.numbers import Number
from blu.passes.gpu.shared import SharedMemory

Softmax = RunningSoftmax | KnownSoftmax
THREADS_OF_ROW = 2
"""Threads that add up inner of a row: neighbours in the warp that has the row."""


@dataclass(frozen=True)
class QueryLayout:
    """The shared memory of a block: its queries and their g, and stages of keys.

    Where queries were, results of 16 bits are staged, and keys of f32 are turned around.
    """

    memory: SharedMemory
    own: StageRange
    keys: StageRange

    @classmethod
    def of(cls, schedule: WarpgroupGradientSchedule, depth: int, width: int, size: int) -> QueryLayout:
        """That for queries of `depth` columns and values of `width`, of `size` bytes."""
        memory, groups, rows = SharedMemory(), schedule.query_groups, schedule.keys
        least = tile_bytes(ROWS, depth, size) if size == 2 else turned_bytes(rows, depth)
        own = StageRange.take(memory, groups, (ROWS, depth), (ROWS, width), size=size, least=least)
        keys = StageRange.take(memory, schedule.key_stages, (rows, depth), (rows, width), size=size)
        return cls(memory, own.with_barriers(memory), keys.with_barriers(memory, readers_of(groups)))


class WarpgroupQueryGradient(OwnRows):
    """Emits the launch. `maps` are those of queries, g, keys and values."""

    def __init__(
        self, gradient: Gradient, layout: QueryLayout, position: RowPosition, shared: ir.Value,
        maps: Sequence[MappedOperand], group: Number = 0,
    ):  # fmt: skip
        self.gradient, self.problem, self.layout, self.position = gradient, gradient.problem, layout, position
        self.shared, self.maps, self.group = shared, maps, group
        self.own, self.keys = layout.own.at(shared), layout.keys.at(shared)
        self.rows, block_rows = layout.keys.extents[0][0], ROWS * self.own.count
        problem = self.problem
        block_first = numbers.multiply(numbers.subtract(position.parts - 1, position.part), block_rows)
        self.first = numbers.add(block_first, numbers.multiply(group, ROWS))
        self.head = split_head(position.head, problem.heads)
        self.key_head = problem.key_head(self.head)
        self.own_row = numbers.multiply(position.own_warp, STRIP)
        self.span = KeySpan(position.lane, numbers.add(self.first, self.own_row), 1)
        self.mask = Mask(problem, None, self.span)
        last = numbers.smaller(numbers.add(block_first, block_rows - 1), problem.queries - 1)
        self.count = numbers.larger(tiles_of(problem.limit(last), self.rows), 1)

    @property
    def tiles(self) -> Stages:
        return self.keys

    @property
    def tile_count(self) -> Number:
        return self.count

    @property
    def own_head(self) -> list[ir.Value]:
        return self.head

    def emit(self) -> None:
        """What one thread does."""
        problem = self.problem
        self.begin()
        inner = self._inner()
        softmax = self._softmax(inner)
        self.own.wait(0, self.group)
        self.hold()
        carried = [*softmax.values, *[numbers.real(0)] * (problem.depth // 2)]
        tile = partial(self._tile, softmax=softmax, inner=inner)
        masked = masked_tiles(problem, ROWS * self.own.count, self.rows)
        hidden = numbers.smaller(self.count, masked)
        carried = repeat(0, hidden, 1, carried, partial(tile, hides=True))
        carried = repeat(masked, self.count, 1, carried, partial(tile, hides=False))
        softmax, sums = split_carried(softmax, carried)
        inverses = self._finish(softmax, inner)
        factor = numbers.real(problem.factor)
        self.sync()  # rows of other warps' queries are in this warp's rows of results
        stage = MatrixTile(self.own.tile(0, self.group).address, ROWS, problem.depth, problem.size)
        results = scaled(as_sums(sums), [arith.mulf(inverse, factor) for inverse in inverses])
        write_tile(results, self.span, stage, self.own_row, self.gradient.of_query.matrix(self.head))
        self.add_up(0, results, stage, self.head)

    def _finish(self, softmax: Softmax, inner: list[ir.Value]) -> list[ir.Value]:
        """What to multiply results with."""
        if isinstance(softmax, KnownSoftmax):
            return softmax.inverses
        inverses, found = softmax.finish(self.mask.exponent)
        self._write_numbers(found, inner)
        return inverses

    # What the copying thread does

    def load(self, number: Number, stage: Number) -> None:
        """Keys and values of a tile."""
        counts = self.keys.announce(stage)
        for place in (0, 1):
            self.maps[2 + place].load(self.keys.tile(place, stage), self._first_key(number), self.key_head, counts)

    def _first_key(self, number: Number) -> Number:
        return numbers.multiply(numbers.subtract(numbers.subtract(self.count, 1), number), self.rows)

    # What all threads do

    def _tile(
        self, number: ir.Value, carried: list[ir.Value], softmax: Softmax, inner: list[ir.Value], hides: bool
    ) -> list[ir.Value]:
        element, stage = self.problem.element, numbers.remainder(number, self.keys.count)
        softmax, sums = split_carried(softmax, carried)
        keys, values = self.keys.tile(0, stage), self.keys.tile(1, stage)
        self.keys.wait(number, stage)
        wgmma.fence()
        scores = scores_of(self.left[0], keys, element)
        wgmma.commit_group()
        of_weights = scores_of(self.left[1], values, element)
        wgmma.commit_group()
        self.turn([keys], barrier.sync)
        wgmma.wait_group(1)
        finished = self.mask.finish(as_sums(wgmma.tie(scores)), self._first_key(number), hides)
        softmax, weights, shares = softmax.step(finished, self.mask.exponent)
        wgmma.wait_group(0)
        of_scores = self._slopes(weights, as_sums(wgmma.tie(of_weights)), inner)
        sums = wgmma.tie(sums if shares is None else flatten(scaled(as_sums(sums), shares)))
        left = wgmma.tie(packed(as_left(of_scores, element), self.rows))
        wgmma.fence()
        sums = add_weighted(sums, left, self.right([keys])[0], element)
        wgmma.commit_group()
        wgmma.wait_group(0)
        sums = wgmma.tie(sums)
        self.have_read(number, stage)
        return [*softmax.values, *sums]

    def _slopes(self, weights: Sums, of_weights: Sums, inner: list[ir.Value]) -> Sums:
        rows = [inner[0], inner[0], inner[1], inner[1]]
        return slopes(weights, of_weights, [rows] * len(weights[0]))

    def _softmax(self, inner: list[ir.Value]) -> Softmax:
        """That of a thread's two rows, before any score. Rows beyond the end have no weights."""
        if self.gradient.given is None:
            return RunningSoftmax.begin(self.span)
        pairs = [self.gradient.known(self.head, self.span.row(*place)) for place in self.span.rows]
        rows = RowNumbers([largest for largest, _ in pairs], [logarithm for _, logarithm in pairs])
        self._write_numbers(rows, inner)  # now, since they would need registers until the end
        return KnownSoftmax.of(rows, self.mask.exponent)

    def _inner(self) -> list[ir.Value]:
        """The sums of g * result of a thread's two rows; 0 beyond the end."""
        thread, lane, queries = self.position.thread, self.position.lane, self.problem.queries
        row = numbers.add(self.first, numbers.divide(thread, THREADS_OF_ROW))
        matrices = [item.matrix(self.head) for item in (self.gradient.g, self.gradient.result)]
        total = _inner_product(matrices, numbers.smaller(row, queries - 1), numbers.remainder(thread, THREADS_OF_ROW),
                               self.problem)  # fmt: skip
        total = arith.addf(total, shfl.bfly(total, 1))
        total = arith.select(numbers.is_below(row, queries), total, numbers.real(0))
        own = numbers.multiply(numbers.divide(lane, 4), THREADS_OF_ROW)
        return [shfl.idx(total, own), shfl.idx(total, numbers.add(own, 8 * THREADS_OF_ROW))]

    def _write_numbers(self, found: RowNumbers, inner: list[ir.Value]) -> None:
        """One thread of the four that hold a row writes its numbers."""
        shifted = ShiftedRows.of(found, self.mask.exponent)
        is_first = numbers.is_equal(numbers.remainder(self.span.lane, 4), 0)
        if self.own.count > 1:  # all of a group's queries may be beyond the end
            is_first = arith.andi(is_first, numbers.is_below(self.first, self.gradient.row_numbers[0].shape[1]))
        with when(is_first):
            for number, place in enumerate(self.span.rows):
                own = shifted.shifts[number], shifted.rests[number], arith.negf(inner[number])
                self.gradient.leave(self.position.head, self.span.row(*place), own)


def split_carried(softmax: Softmax, carried: list[ir.Value]) -> tuple[Softmax, list[ir.Value]]:
    """The softmax and the sums that the loop carries."""
    end = len(softmax.values)
    return softmax.later(carried[:end]), carried[end:]


def _inner_product(matrices: Sequence[HeadMatrix], row: Number, part: ir.Value, problem: Problem) -> ir.Value:
    """The sum of the products of every other piece of a row of two matrices, those of a part."""
    pieces, total = problem.width // PIECE, numbers.real(0)
    for number in range(0, pieces, THREADS_OF_ROW):
        piece = numbers.add(part, number)
        safe = numbers.smaller(piece, pieces - 1)
        words = [load_piece(matrix, row, safe) for matrix in matrices]
        found = numbers.real(0)
        for pair in zip(*words, strict=True):
            for one, other in zip(*(cvt.unpack(item, problem.element) for item in pair), strict=True):
                found = math.fma(one, other, found)
        if number + THREADS_OF_ROW > pieces:
            found = arith.select(numbers.is_below(piece, pieces), found, numbers.real(0))
        total = arith.addf(total, found)
    return total


def load_piece(matrix: HeadMatrix, row: Number, piece: Number) -> list[ir.Value]:
    """Eight elements, as words."""
    type_ = numbers.f32() if matrix.size == 4 else numbers.i32()
    place, words = further(matrix.address(row, 0), piece, PIECE * matrix.size), []
    for number in range(PIECE * matrix.size // COPY_BYTES):
        source = pointer(further(place, number, COPY_BYTES))
        loaded = llvm.load(ir.VectorType.get([4], type_), source, alignment=COPY_BYTES)
        words += [vector.extract(loaded, [], [word]) for word in range(4)]
    return words

"""The walk of a group of lanes over the keys of a head: its share of a query's attention."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import inf

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, math, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.few_queries.inserted_rows import InsertedRows
from blu.passes.gpu.attention.few_queries.shares import LaneColumns, Loaded, kept, wide
from blu.passes.gpu.attention.operands import Problem
from blu.passes.gpu.attention.scores import LOG2_E
from blu.passes.gpu.isa import approx, shfl
from blu.passes.gpu.kernel import when

Row = tuple[Loaded, Loaded]
"""What a lane has of a key and of its value."""


@dataclass(frozen=True)
class CacheWalk:
    """Emits what the `group`-th of the lanes' groups of `warps` warps does with its keys, for query `own` of a head.

    It reads as many keys at a time as have room in `room` registers, and the next ones while it computes with those.
    Rows that have no room are read one by one.
    """

    problem: Problem
    new: InsertedRows | None
    columns: LaneColumns
    warps: int
    room: int
    head: list[ir.Value]
    own: ir.Value
    group: ir.Value

    @cached_property
    def limit(self) -> ir.Value:
        """How many keys the query sees."""
        return numbers.number(self.problem.limit(self.own))

    @property
    def groups(self) -> int:
        return self.warps * self.columns.shares.rows

    @property
    def ahead(self) -> int:
        """Keys that are read at a time."""
        return max(1, self.room // self.columns.shares.words(self.problem.size))

    def begin(self) -> list[Row]:
        """The first keys and values, if there is room for more than one row."""
        has_room = self.columns.shares.words(self.problem.size) <= self.room
        return self.read(numbers.number(0)) if has_room else []

    def read(self, start: ir.Value) -> list[Row]:
        """The next keys and values from a place on; of keys that are not there others."""
        key_head = self.problem.key_head(self.head)
        matrices = [operand.matrix(key_head) for operand in (self.problem.key, self.problem.value)]
        safe = [arith.select(is_there, place, numbers.number(0)) for place, is_there in self._places(start)]
        keys, values = ([self.columns.load(matrix, place) for place in safe] for matrix in matrices)
        return list(zip(keys, values, strict=True))

    def _places(self, start: ir.Value) -> list[tuple[ir.Value, ir.Value]]:
        """The keys that a group reads at a time, and whether the query sees each."""
        first = numbers.add(start, self.group)
        places = [numbers.number(numbers.add(first, number * self.groups)) for number in range(self.ahead)]
        return [(place, numbers.is_below(place, self.limit)) for place in places]

    def emit(self, rows: list[Row]) -> list[ir.Value]:
        """The largest score, the sum of weights, and results of a group; it has read the first `rows`, if any."""
        scale = numbers.real(self.problem.factor * LOG2_E / exponent_unit(self.problem))
        loaded = self.columns.load(self.problem.query.matrix(self.head), self.own)
        query = [arith.mulf(item, scale) for item in self.columns.wide(loaded)]
        start, step = self._begin(query), self.groups * self.ahead
        count = len(start)
        carried = [*start, *_flat(rows)]
        loop = scf.ForOp(numbers.number(0), self.limit, numbers.number(step), carried)
        with ir.InsertionPoint(loop.body):
            values, first = list(loop.inner_iter_args), loop.induction_variable
            later = self._read_if_there(numbers.add(first, step), values[count:]) if rows else []
            read = _like(rows, values[count:]) if rows else self.read(first)
            found = self._add(query, values[:count], read, first)
            scf.yield_([*found, *later])
        return list(loop.results)[:count]

    def _read_if_there(self, start: ir.Value, read: list[ir.Value]) -> list[ir.Value]:
        """The rows from a place on; what was `read` before where no query sees any."""
        branch = scf.IfOp(numbers.is_below(start, self.limit), [item.type for item in read], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.yield_(_flat(self.read(start)))
        with ir.InsertionPoint(branch.else_block):
            scf.yield_(read)
        return list(branch.results)

    def _begin(self, query: list[ir.Value]) -> list[ir.Value]:
        """What there is before any key of the cache: nothing, or what a group puts in itself."""
        if self.new is None:
            return [numbers.real(-inf), numbers.real(0), *[numbers.real(0)] * len(query)]
        own = self.new.load(self.columns, self.problem.key_head(self.head), self.group)
        # Queries of a head see the same keys: the first of them has the time to write.
        with when(numbers.is_equal(self.own, 0)):
            self.new.put(self.problem, self.columns, self.head, self.group, own)
        row = numbers.smaller(self.group, self.new.last)
        place = numbers.number(numbers.add(self.new.start, row))
        is_there = arith.andi(numbers.is_below(self.group, self.new.count), numbers.is_below(place, self.limit))
        return self._alone(query, own, place, is_there)

    def _add(self, query: list[ir.Value], found: list[ir.Value], rows: list[Row], first: ir.Value) -> list[ir.Value]:
        """What was found, with the keys from a place on."""
        parts = []
        for row, (place, is_there) in zip(rows, self._places(first), strict=True):
            is_old = is_there if self.new is None else arith.andi(is_there, self.new.is_old(place))
            parts.append(self._alone(query, row, place, is_old))
        return merge([found, *parts], exponent_unit(self.problem))

    def _alone(self, query: list[ir.Value], row: Row, place: ir.Value, is_there: ir.Value) -> list[ir.Value]:
        """The attention to one key alone, if it is there."""
        key, value = row
        if self.new is not None:  # where rows will be put, there may be anything
            value = kept(is_there, value)
        safe = arith.select(is_there, place, numbers.number(0))
        score = self._masked(self._product(query, self.columns.wide(key)), safe)
        return [arith.select(is_there, score, numbers.real(-inf)), numbers.real(1), *self.columns.wide(value)]

    def _product(self, query: list[ir.Value], key: list[ir.Value]) -> ir.Value:
        """The sum of products over the lanes that share a row."""
        chains = [numbers.real(0)] * 4
        for place, pair in enumerate(zip(query, key, strict=True)):
            chains[place % 4] = math.fma(*pair, chains[place % 4])
        total = arith.addf(arith.addf(chains[0], chains[1]), arith.addf(chains[2], chains[3]))
        distance = 1
        while distance < self.columns.shares.lanes:
            total = arith.addf(total, shfl.bfly(total, distance))
            distance *= 2
        return total

    def _masked(self, score: ir.Value, key: ir.Value) -> ir.Value:
        mask = self.problem.mask
        if mask is None:
            return score
        matrix = mask.matrix(self.head)
        place = [0 if size == 1 else at for at, size in zip((self.own, key), matrix.shape, strict=True)]
        read = matrix.load(place[0], place[1])
        if isinstance(matrix.element, ir.IntegerType):
            return arith.select(arith.trunci(ir.IntegerType.get_signless(1), read), score, numbers.real(-inf))
        return arith.addf(score, wide(read))


def _flat(rows: Sequence[Row]) -> list[ir.Value]:
    return [item for pair in rows for loaded in pair for item in loaded]


def _like(rows: Sequence[Row], values: Sequence[ir.Value]) -> list[Row]:
    """Values in the order of `_flat` as rows again."""
    left = iter(values)
    return [([next(left) for _ in key], [next(left) for _ in value]) for key, value in rows]


def exponent_unit(problem: Problem) -> float:
    """What differences of scores are multiplied with to be exponents of 2, where a mask is added to scores.

    Scores are in the mask's unit then: in another one, the lowest number as a mask would be -inf.
    """
    return LOG2_E if problem.adds_mask else 1.0


def merge(parts: list[list[ir.Value]], unit: float) -> list[ir.Value]:
    """The running softmax of several: each is the largest score, the sum of weights, and sums of weighted values."""
    largest = parts[0][0]
    for part in parts[1:]:
        largest = arith.maxnumf(largest, part[0])
    merged: list[ir.Value] = []
    for part in parts:
        weight = _weight(part[0], largest, unit)
        if not merged:
            merged = [arith.mulf(item, weight) for item in part[1:]]
        else:
            merged = [math.fma(item, weight, total) for item, total in zip(part[1:], merged, strict=True)]
    return [largest, *merged]


def _weight(score: ir.Value, largest: ir.Value, unit: float) -> ir.Value:
    """2 ** (unit * (score - largest)), 0 where there is no score yet."""
    is_none = arith.cmpf(arith.CmpFPredicate.OEQ, largest, numbers.real(-inf))
    finite = arith.select(is_none, numbers.real(0), largest)
    below = arith.subf(score, finite)
    return approx.ex2(below if unit == 1 else arith.mulf(below, numbers.real(unit)))

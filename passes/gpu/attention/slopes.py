"""What the launches of attention's gradient share: operands, and D = P * (g V^T - inner) in a warp's registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import inf

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, math, scf
from blu.dialects.core.op import operands_of
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import AttentionOperand, Problem, operand_of, read_operand, read_problem
from blu.passes.gpu.attention.row_sums.ranges import row_sums_of
from blu.passes.gpu.attention.scores import LOG2_E, RowNumbers, ScoreExponent, Sums, flatten, map_sums, unflatten
from blu.passes.gpu.isa import approx, shared_memory, vote
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.numbers import Number

ROW_NUMBERS, NUMBER_BYTES = 3, 4
"""What the launch for queries leaves of each to that for keys: two numbers that make scores weights, and inner."""
REST = 1
"""The place of a rest among these."""


@dataclass(frozen=True)
class Gradient:
    """A blu.attention_gradient in a launch: `row_numbers` are the first scratch memory [heads, queries].

    They are each query's largest score and logarithm (RowNumbers), or shift and rest (ShiftedRows), and inner. Where
    the forward has left its numbers, those of attention_piece, they are `given` [.., heads, queries, 2]. `sums` are, by
    the number of a gradient, where the sums of its ranges of rows go [.., heads, ranges, columns].
    """

    problem: Problem
    g: AttentionOperand
    result: AttentionOperand
    of_query: AttentionOperand
    of_key: AttentionOperand
    of_value: AttentionOperand
    row_numbers: tuple[AttentionOperand, ...]
    given: AttentionOperand | None = None
    sums: Mapping[int, AttentionOperand] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[AttentionOperand, ...]:
        """The gradients, in the op's order."""
        return self.of_query, self.of_key, self.of_value

    def left_at(self, head: Number, row: Number) -> list[ir.Value]:
        """The addresses of the numbers of a query, and of those after it."""
        return [item.matrix([]).address(head, row) for item in self.row_numbers]

    def known(self, head: Sequence[Number], row: Number) -> tuple[ir.Value, ir.Value]:
        """The largest score and the logarithm of a query that the forward has left; beyond the end, of no weights."""
        assert self.given is not None, "the forward has left its numbers"
        matrix, place = self.given.matrix(head), numbers.smaller(row, self.problem.queries - 1)
        largest, logarithm = (matrix.load(place, column) for column in (0, 1))
        is_some = arith.cmpf(arith.CmpFPredicate.UNE, logarithm, numbers.real(-inf))
        is_some = arith.andi(is_some, numbers.is_below(row, self.problem.queries))
        shift = arith.mulf(logarithm, numbers.real(LOG2_E))
        largest = arith.select(is_some, largest, numbers.real(0))
        return largest, arith.select(is_some, shift, numbers.real(inf))

    def leave(self, head: Number, row: Number, found: Sequence[ir.Value]) -> None:
        """Write the numbers of a query."""
        for item, number in zip(self.row_numbers, found, strict=True):
            item.matrix([]).store(number, head, row)

    @classmethod
    def read(cls, operation: ir.Operation, frame: GpuKernel) -> Gradient:
        """Read the op at the current insertion point."""
        g, query, key, value, result, mask, offset, given = operands_of(operation)
        outputs = dict(frame.outputs)
        written = [operand_of(outputs[item]) for item in operation.results]
        row_numbers = tuple(operand_of(item) for item in frame.scratch[:ROW_NUMBERS])
        problem = read_problem(operation, frame, (query, key, value, mask, offset))
        known = None if given is None else read_operand(given, frame)
        sums = {number: operand_of(outputs[item.results[0]]) for number, item in row_sums_of(operation).items()}
        operands = [read_operand(item, frame) for item in (g, result)]
        return cls(problem, *operands, *written, row_numbers, given=known, sums=sums)


def slopes(weights: Sums, of_weights: Sums, inner: Sequence[Sequence[ir.Value]]) -> Sums:
    """weights * (of_weights - inner), all [strips][blocks of 8][4]; `inner` is [strips * blocks] rows of four."""
    each = iter(inner)
    less = [
        [[arith.subf(slope, shift) for slope, shift in zip(block, next(each), strict=True)] for block in strip]
        for strip in of_weights
    ]
    return multiplied(weights, less)


def multiplied(sums: Sums, others: Sums) -> Sums:
    """The product of each with the other one in its place."""
    flat = map(arith.mulf, flatten(sums), flatten(others))
    return unflatten(list(flat), len(sums), len(sums[0]) // 2)


LEAST_REST = 2.0**-17
"""A part of a weight that is left out: shifts below 128 are rounded by less."""


@dataclass(frozen=True)
class ShiftedRows:
    """As RowNumbers: a score s has the weight 2 ** (factor * s - shift - rest), where the shift is a rounded number.

    Rests that change little, as of all scores that are not large, are 0, and are left out. Shifts are +inf of rows that
    see no key.
    """

    shifts: list[ir.Value]
    rests: list[ir.Value]

    @classmethod
    def of(cls, rows: RowNumbers, exponent: ScoreExponent) -> ShiftedRows:
        """Those of rows."""
        scale, found = numbers.real(exponent.factor), cls([], [])
        for largest, logarithm in zip(rows.largest, rows.logarithms, strict=True):
            shift = math.fma(largest, scale, logarithm)
            rest = arith.addf(math.fma(largest, scale, arith.negf(shift)), logarithm)
            is_small = arith.cmpf(arith.CmpFPredicate.OLT, math.absf(rest), numbers.real(LEAST_REST))
            is_none = arith.cmpf(arith.CmpFPredicate.OEQ, logarithm, numbers.real(inf))
            found.shifts.append(shift)
            found.rests.append(arith.select(arith.ori(is_small, is_none), numbers.real(0), rest))
        return found


Pairs = list[list[ir.Value]]
"""A number of each of a thread's columns: of two of each 8."""


@dataclass(frozen=True)
class ColumnNumbers:
    """The numbers of `count` queries, which are columns, at an address in shared memory, one kind after the other.

    A thread has two columns of each 8, from `column` on.
    """

    address: Number
    count: int
    column: ir.Value

    def weights(self, scores: Sums, exponent: ScoreExponent) -> Sums:
        """The weights of scores, of largest scores and logarithms."""
        scale, logarithms, largest = numbers.real(-exponent.factor), self._pairs(1), self._pairs(0)

        def weight(score: ir.Value, _: int, __: int, at: int) -> ir.Value:
            above = arith.subf(score, largest[at // 8][at % 8])
            return approx.ex2_negated(math.fma(above, scale, logarithms[at // 8][at % 8]))

        return map_sums(scores, weight)

    def shifts(self) -> Pairs:
        """What scores of a thread's two queries of each 8 are shifted by."""
        return self._pairs(0)

    def shifted_weights(self, scores: Sums, exponent: ScoreExponent, shifts: Pairs) -> Sums:
        """The weights of scores, of shifts alone: columns have no rests.

        Exponents come out negated, which the instruction that takes them undoes: shifts are used as they are read.
        """
        scale = numbers.real(-exponent.factor)

        def weight(score: ir.Value, _: int, __: int, at: int) -> ir.Value:
            return approx.ex2_negated(math.fma(score, scale, shifts[at // 8][at % 8]))

        return map_sums(scores, weight)

    def weights_with_rests(self, scores: Sums, exponent: ScoreExponent, shifts: Pairs, lane: ir.Value) -> Sums:
        """The weights of scores, of shifts and rests: these are multiplied with where any of the columns has one."""
        weights = self.shifted_weights(scores, exponent, shifts)
        flat = flatten(weights)
        branch = scf.IfOp(self._has_rests(lane), [item.type for item in flat], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            rests = [[approx.ex2(rest) for rest in pair] for pair in _negated(self._pairs(REST))]
            scf.yield_(flatten(map_sums(weights, lambda value, _, __, at: arith.mulf(value, rests[at // 8][at % 8]))))
        with ir.InsertionPoint(branch.else_block):
            scf.yield_(flat)
        return unflatten(list(branch.results), len(scores), len(scores[0]) // 2)

    def inner(self) -> Pairs:
        """Inner, for the four sums of a thread."""
        return _negated(self.negated_inner())

    def negated_inner(self) -> Pairs:
        """As it has been left: what sums of slopes may begin with."""
        return [[*pair, *pair] for pair in self._pairs(2)]

    def _pairs(self, place: int) -> Pairs:
        """One of the numbers of a thread's two queries of each 8."""
        own = numbers.add(place * self.count * NUMBER_BYTES, numbers.multiply(self.column, NUMBER_BYTES))
        address = numbers.number(numbers.add(self.address, own))
        return [shared_memory.ld(address, first * NUMBER_BYTES, 2, numbers.f32()) for first in range(0, self.count, 8)]

    def _has_rests(self, lane: ir.Value) -> ir.Value:
        """Whether any query has a rest; each lane looks at some."""
        each = max(1, self.count // WARP)
        own = numbers.multiply(numbers.remainder(lane, self.count // each), each * NUMBER_BYTES)
        address = numbers.number(numbers.add(self.address, numbers.add(own, self.count * NUMBER_BYTES)))
        found = shared_memory.ld(address, 0, each, numbers.f32())
        some = [arith.cmpf(arith.CmpFPredicate.UNE, item, numbers.real(0)) for item in found]
        return any_lane(some)


def any_of(conditions: Sequence[ir.Value]) -> ir.Value:
    """Whether any of some conditions holds."""
    return reduce(arith.ori, conditions)


def any_lane(conditions: Sequence[ir.Value]) -> ir.Value:
    """Whether any of some conditions holds in any lane."""
    return arith.cmpi(arith.CmpIPredicate.ne, vote.ballot(any_of(conditions)), numbers.number(0))


def _negated(pairs: Sequence[Sequence[ir.Value]]) -> Pairs:
    return [[arith.negf(value) for value in pair] for pair in pairs]

"""Scores of attention in the registers of a warp: products, what hides them, and the running softmax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import e, inf, log2

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, math
from blu.dialects.ops.attention import unit_of
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.operands import HeadMatrix, Problem
from blu.passes.gpu.isa import approx, cvt, mma, shfl
from blu.passes.gpu.numbers import Number

LOG2_E = log2(e)
STRIP = 16
"""Rows of a product that one warp instruction makes."""

Sums = list[list[list[ir.Value]]]
"""Sums of a warp: for each strip of 16 rows, for each 8 columns, the four of a thread."""

LeftLoads = Sequence[Callable[[int], list[ir.Value]]]
RightLoads = Callable[[int, int], tuple[list[ir.Value], list[ir.Value]]]


def zeros(strips: int, pairs: int) -> Sums:
    """Sums of 16 * strips rows and 16 * pairs columns before anything is added."""
    zero = numbers.real(0)
    return [[[zero] * 4 for _ in range(2 * pairs)] for _ in range(strips)]


def add_product(sums: Sums, left: LeftLoads, right: RightLoads, steps: int, element: str) -> Sums:
    """sums + left @ right over 16 * steps terms; each right fragment is read once for all strips."""
    sums = [list(strip) for strip in sums]
    for step in range(steps):
        factors = [_prepared(load(step), element) for load in left]
        for pair in range(len(sums[0]) // 2):
            for side, loaded in enumerate(right(pair, step)):
                place, fragment = 2 * pair + side, _prepared(loaded, element)
                for strip, factor in zip(sums, factors, strict=True):
                    strip[place] = _multiply_add(strip[place], factor, fragment, element)
    return sums


def _prepared(fragment: list[ir.Value], element: str) -> list:
    if element == "tf32":
        return [cvt.rna_tf32(value) for value in fragment]
    return [mma.split(value) for value in fragment] if element == "f32" else fragment


def _multiply_add(sums: Sequence[ir.Value], left: list, right: list, element: str) -> list[ir.Value]:
    if element == "f32":
        return mma.m16n8k16_f32(sums, left, right)
    if element == "tf32":
        return mma.m16n8k16_tf32(sums, left, right)
    return mma.m16n8k16(sums, left, right, element)


def flatten(sums: Sums) -> list[ir.Value]:
    """All sums in a row, as loops carry them."""
    return [value for strip in sums for block in strip for value in block]


def unflatten(values: Sequence[ir.Value], strips: int, pairs: int) -> Sums:
    """The reverse of flatten."""
    each = iter(values)
    return [[[next(each) for _ in range(4)] for _ in range(2 * pairs)] for _ in range(strips)]


def as_left(sums: Sums, element: str) -> LeftLoads:
    """Sums, rounded to the element's type, as left factors of a product over their columns."""

    def load(strip: list[list[ir.Value]], step: int) -> list[ir.Value]:
        near, far = strip[2 * step], strip[2 * step + 1]
        if element in ("f32", "tf32"):
            return [block[place] for block in (near, far) for place in (0, 2, 1, 3)]
        return [cvt.rn_x2(block[half], block[half + 1], element) for block in (near, far) for half in (0, 2)]

    return [lambda step, strip=strip: load(strip, step) for strip in sums]


def kept(left: LeftLoads, steps: int) -> LeftLoads:
    """Left factors that are read now and stay in registers."""
    registers = [[load(step) for step in range(steps)] for load in left]
    return [lambda step, held=held: held[step] for held in registers]


@dataclass(frozen=True)
class KeySpan:
    """Where the scores of a warp are: rows are lane / 4 and 8 more after the first of each strip."""

    lane: ir.Value
    first_row: ir.Value
    strips: int

    def row(self, strip: int, half: int) -> Number:
        """The row of a thread's sums."""
        own = numbers.add(self.first_row, numbers.divide(self.lane, 4))
        return numbers.add(own, strip * STRIP + half * 8)

    @property
    def rows(self) -> list[tuple[int, int]]:
        """Each (strip, half)."""
        return [(strip, half) for strip in range(self.strips) for half in (0, 1)]

    @property
    def column(self) -> ir.Value:
        """The first column of a thread's sums; those of other blocks are multiples of 8 further."""
        return numbers.multiply(numbers.remainder(self.lane, 4), 2)


def map_sums(sums: Sums, change: Callable[[ir.Value, int, int, int], ir.Value]) -> Sums:
    """change(sum, strip, half, column after the thread's first) for each."""
    return [
        [[change(value, strip, at // 2, 8 * block + at % 2) for at, value in enumerate(values)]
         for block, values in enumerate(blocks)]
        for strip, blocks in enumerate(sums)
    ]  # fmt: skip


@dataclass(frozen=True)
class Mask:
    """What hides scores [queries, keys], and what is added to them. With `turned`, rows of sums are keys."""

    problem: Problem
    matrix: HeadMatrix | None
    span: KeySpan
    turned: bool = False

    @property
    def exponent(self) -> ScoreExponent:
        """How finished scores become exponents of 2."""
        return ScoreExponent.of(self.problem)

    def finish(self, scores: Sums, first: Number, hides: bool) -> Sums:
        """Scores of the columns from `first` on with the masks; `hides` is False where all of them are visible.

        They are scores to base e where a mask is added to them, else as attention_piece has them: without the unit.
        """
        factor = self.problem.factor
        if factor == 0:
            scores = map_sums(scores, lambda value, *_: arith.mulf(value, numbers.real(0)))
        elif factor < 0 and not self.problem.adds_mask:
            scores = map_sums(scores, lambda value, *_: arith.negf(value))
        if self.matrix is not None:
            scores = self._apply_matrix(scores, self.matrix, first)
        return self._hide(scores, first) if hides else scores

    def _hide(self, scores: Sums, first: Number) -> Sums:
        """-inf for keys from a query's limit on."""
        hidden, column = numbers.real(-inf), numbers.add(self.span.column, first)
        rows = {place: self.span.row(*place) for place in self.span.rows}
        if self.turned:
            return self._hide_turned(scores, column, rows)
        room = {place: numbers.subtract(self.problem.limit(row), column) for place, row in rows.items()}
        return map_sums(
            scores,
            lambda value, strip, half, at: arith.select(
                arith.cmpi(arith.CmpIPredicate.sgt, room[strip, half], numbers.number(at)), value, hidden
            ),
        )

    def _hide_turned(self, scores: Sums, column: Number, rows: dict[tuple[int, int], Number]) -> Sums:
        """A query in column q sees a key in row k where k <= q + offset."""
        hidden = numbers.real(-inf)
        beyond = {place: numbers.subtract(row, numbers.add(column, self.problem.offset)) for place, row in rows.items()}
        return map_sums(
            scores,
            lambda value, strip, half, at: arith.select(
                arith.cmpi(arith.CmpIPredicate.sle, beyond[strip, half], numbers.number(at)), value, hidden
            ),
        )

    def _apply_matrix(self, scores: Sums, matrix: HeadMatrix, first: Number) -> Sums:
        column = numbers.add(self.span.column, first)
        rows, scale = {place: self.span.row(*place) for place in self.span.rows}, numbers.real(self.problem.factor)

        def apply(value: ir.Value, strip: int, half: int, at: int) -> ir.Value:
            place = (rows[strip, half], numbers.add(column, at))
            query, key = reversed(place) if self.turned else place
            read = matrix.load(*self._inside(matrix, query, key))
            if isinstance(matrix.element, ir.IntegerType):
                return arith.select(arith.trunci(ir.IntegerType.get_signless(1), read), value, numbers.real(-inf))
            return self._of_present(math.fma(value, scale, _widened(read)), query)

        return map_sums(scores, apply)

    def _of_present(self, score: ir.Value, query: Number) -> ir.Value:
        """-inf for queries past the end, of which nobody has the largest score, where they are columns."""
        if not self.turned:
            return score
        return arith.select(numbers.is_below(query, self.problem.queries), score, numbers.real(-inf))

    def _inside(self, matrix: HeadMatrix, query: Number, key: Number) -> tuple[Number, Number]:
        """Indices into the mask, which may be the same for all queries or keys, for scores that may be past its end."""
        sizes = (self.problem.queries, self.problem.keys)
        at = [
            0 if size == 1 else numbers.smaller(place, full - 1)
            for place, size, full in zip((query, key), matrix.shape, sizes, strict=True)
        ]
        return at[0], at[1]


def _widened(value: ir.Value) -> ir.Value:
    return value if isinstance(value.type, ir.F32Type) else arith.extf(numbers.f32(), value)


@dataclass(frozen=True)
class ScoreExponent:
    """How scores become exponents of 2: times `factor`, less that of the row's largest.

    Where it `subtracts`, differences come first, which are right however large scores are, as numbers that are added
    to them may be. Else one instruction does both, and differences are off by what rounding the largest's exponent has
    left over: by as much in all of a row (`excess`).
    """

    factor: float
    subtracts: bool

    @classmethod
    def of(cls, problem: Problem) -> ScoreExponent:
        """That of the scores of an attention."""
        adds = problem.adds_mask
        return cls(LOG2_E if adds else unit_of(problem.factor) * LOG2_E, subtracts=adds)

    def weights(self, scores: Sums, largest: Sequence[ir.Value]) -> Sums:
        """2 ** (factor * (score - largest)), for the largest of each row."""
        scale = numbers.real(self.factor)
        if self.subtracts:
            return map_sums(
                scores,
                lambda value, strip, half, _: approx.ex2(
                    arith.mulf(arith.subf(value, largest[2 * strip + half]), scale)
                ),
            )
        shifts = [self._shift(value) for value in largest]
        return map_sums(
            scores, lambda value, strip, half, _: approx.ex2(math.fma(value, scale, shifts[2 * strip + half]))
        )

    def excess(self, largest: ir.Value) -> ir.Value:
        """The exponent that `weights` has for the largest score itself."""
        if self.subtracts:
            return numbers.real(0)
        return math.fma(largest, numbers.real(self.factor), self._shift(largest))

    def _shift(self, largest: ir.Value) -> ir.Value:
        return arith.mulf(arith.negf(largest), numbers.real(self.factor))


@dataclass(frozen=True)
class RowNumbers:
    """Of each (strip, half) of a thread: what makes a score s the weight 2 ** (factor * (s - largest) - logarithm).

    Logarithms, to base 2, are +inf of rows that see no key, whose largest score is 0.
    """

    largest: list[ir.Value]
    logarithms: list[ir.Value]


@dataclass(frozen=True)
class RunningSoftmax:
    """The running softmax of a warp's rows: for each (strip, half), the largest score, and a thread's share of the sum
    of weights."""

    largest: list[ir.Value]
    total: list[ir.Value]

    @classmethod
    def begin(cls, span: KeySpan) -> RunningSoftmax:
        """Before any score."""
        return cls([numbers.real(-inf)] * len(span.rows), [numbers.real(0)] * len(span.rows))

    @classmethod
    def of_values(cls, values: Sequence[ir.Value]) -> RunningSoftmax:
        """The reverse of `values`."""
        half = len(values) // 2
        return cls(list(values[:half]), list(values[half:]))

    @property
    def values(self) -> list[ir.Value]:
        """As loops carry it."""
        return [*self.largest, *self.total]

    def later(self, values: Sequence[ir.Value]) -> RunningSoftmax:
        """That which a loop carries as these values."""
        return self.of_values(values)

    def step(self, scores: Sums, exponent: ScoreExponent) -> tuple[RunningSoftmax, Sums, list[ir.Value]]:
        """Add scores: the softmax, weights 2 ** (factor * (score - largest)), what to multiply earlier sums with."""
        scale = numbers.real(exponent.factor)
        largest = [_largest(row, before) for row, before in zip(_rows(scores), self.largest, strict=True)]
        finite = [_or_zero(value) for value in largest]
        shares = [
            approx.ex2(arith.mulf(arith.subf(before, now), scale))
            for before, now in zip(self.largest, finite, strict=True)
        ]
        weights = exponent.weights(scores, finite)
        total = [
            arith.addf(arith.mulf(before, share), _sum(row))
            for before, share, row in zip(self.total, shares, _rows(weights), strict=True)
        ]
        return RunningSoftmax(largest, total), weights, shares

    def finish(self, exponent: ScoreExponent) -> tuple[list[ir.Value], RowNumbers]:
        """1 / the sum of weights (0 where there are none), and the rows' numbers."""
        zero = numbers.real(0)
        totals = [sum_quad(total) for total in self.total]
        empty = [arith.cmpf(arith.CmpFPredicate.OEQ, total, zero) for total in totals]
        inverses = [
            arith.select(is_empty, zero, arith.divf(numbers.real(1), total))
            for is_empty, total in zip(empty, totals, strict=True)
        ]
        largest = [_or_zero(value) for value in self.largest]
        logarithms = [
            arith.select(is_empty, numbers.real(inf), arith.subf(approx.lg2(total), exponent.excess(value)))
            for is_empty, total, value in zip(empty, totals, largest, strict=True)
        ]
        return inverses, RowNumbers(largest, logarithms)


@dataclass(frozen=True)
class KnownSoftmax:
    """The softmax of rows whose largest scores, and 1 / the sums of weights, are known. Loops carry nothing."""

    largest: list[ir.Value]
    inverses: list[ir.Value]

    @classmethod
    def of(cls, rows: RowNumbers, exponent: ScoreExponent) -> KnownSoftmax:
        """That of rows whose numbers are known."""
        inverses = [
            approx.ex2(arith.negf(arith.addf(logarithm, exponent.excess(largest))))
            for largest, logarithm in zip(rows.largest, rows.logarithms, strict=True)
        ]
        return cls(rows.largest, inverses)

    @property
    def values(self) -> list[ir.Value]:
        """As loops carry it."""
        return []

    def later(self, values: Sequence[ir.Value]) -> KnownSoftmax:
        """That which a loop carries as these values."""
        return self

    def step(self, scores: Sums, exponent: ScoreExponent) -> tuple[KnownSoftmax, Sums, None]:
        """Weights 2 ** (factor * (score - largest)). What was summed before stays as it is."""
        return self, exponent.weights(scores, self.largest), None


def scaled(sums: Sums, factors: Sequence[ir.Value]) -> Sums:
    """Each row's sums times its factor."""
    return map_sums(sums, lambda value, strip, half, _: arith.mulf(value, factors[2 * strip + half]))


def _rows(sums: Sums) -> list[list[ir.Value]]:
    """A thread's sums by rows: (strip, half)."""
    return [[value for block in strip for value in block[half : half + 2]] for strip in sums for half in (0, 2)]


def _largest(values: Sequence[ir.Value], before: ir.Value) -> ir.Value:
    own = _tree([*values, before], arith.maxnumf)
    return _quad(own, arith.maxnumf)


def _sum(values: Sequence[ir.Value]) -> ir.Value:
    return _tree(values, arith.addf)


def _tree(values: Sequence[ir.Value], combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """All values in four chains, then the chains."""
    chains = list(values[:4])
    for place, value in enumerate(values[4:]):
        chains[place % 4] = combine(chains[place % 4], value)
    while len(chains) > 1:
        chains = [
            combine(*chains[at : at + 2]) if at + 1 < len(chains) else chains[at] for at in range(0, len(chains), 2)
        ]
    return chains[0]


def sum_quad(value: ir.Value) -> ir.Value:
    """The sum over the four threads that hold a row."""
    return _quad(value, arith.addf)


def _quad(value: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """Over the four threads that hold a row."""
    for distance in (1, 2):
        value = combine(value, shfl.bfly(value, distance))
    return value


def _or_zero(largest: ir.Value) -> ir.Value:
    """The largest score, or 0 where there is none yet: -inf - -inf is no number."""
    is_none = arith.cmpf(arith.CmpFPredicate.OEQ, largest, numbers.real(-inf))
    return arith.select(is_none, numbers.real(0), largest)

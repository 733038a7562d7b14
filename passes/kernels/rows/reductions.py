"""Reductions that may run in lanes: what they combine with, how lanes start, and how lanes are merged.

A reduction body is taken apart into `combine(accumulator, term)` (a fold), or recognised as a search (argmax, argmin:
two results that follow one condition). The order in which lanes meet is fixed here: it does not depend on the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, vector
from blu.dialects.core.modules import end_of
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.inline import clone_operation

Merge = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]

IDENTITIES = {"arith.maximumf": -math.inf, "arith.maxnumf": -math.inf, "arith.minimumf": math.inf,
              "arith.minnumf": math.inf, "arith.addf": 0.0, "arith.mulf": 1.0, "arith.addi": 0, "arith.muli": 1,
              "arith.andi": -1, "arith.ori": 0, "arith.xori": 0, "arith.maxui": 0, "arith.minui": -1}  # fmt: skip
IDEMPOTENT = ("arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf", "arith.andi", "arith.ori",
              "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")  # fmt: skip
EXTREMA = {"arith.maximumf": arith.CmpFPredicate.OGT, "arith.minimumf": arith.CmpFPredicate.OLT}
FOLDS = (*IDENTITIES, "arith.maxsi", "arith.minsi")


@dataclass(frozen=True)
class Fold:
    """`accumulator = combiner(accumulator, term)` for result `number`; `place` is the accumulator's operand number."""

    combiner: ir.Operation
    place: int
    number: int

    @property
    def term(self) -> ir.Value:
        return self.combiner.operands[1 - self.place]

    @property
    def element(self) -> ir.Type:
        return self.combiner.results[0].type

    @property
    def idempotent(self) -> bool:
        return self.combiner.name in IDEMPOTENT

    def identity(self) -> ir.Attribute:
        """The value that changes nothing (for a sum +0.0, so that a sum of nothing is +0.0)."""
        kind = ir.FloatAttr if isinstance(self.element, ir.FloatType) else ir.IntegerAttr
        if self.combiner.name in IDENTITIES:
            return kind.get(self.element, IDENTITIES[self.combiner.name])
        highest = (1 << (self.element.width - 1)) - 1
        return kind.get(self.element, -highest - 1 if self.combiner.name == "arith.maxsi" else highest)

    def combine(self, accumulator: ir.Value, term: ir.Value) -> ir.Value:
        """Emit the combiner, on scalars or vectors."""
        operands = [accumulator, term] if self.place == 0 else [term, accumulator]
        return clone_operation(self.combiner, operands).results[0]

    # A float extremum in lanes has two parts: the comparison that costs one instruction, which loses NaN, and a NaN
    # that was seen. arith.maximumf costs five instructions each time, and its chain of dependences is three times as
    # long. (Which of +0.0 and -0.0 is the extremum is left open.)

    @property
    def width(self) -> int:
        """How many vectors an accumulator has."""
        return 1 if self.predicate is None else 2

    @property
    def predicate(self) -> arith.CmpFPredicate | None:
        return EXTREMA.get(self.combiner.name)

    def starts(self, attribute: ir.Attribute) -> list[ir.Attribute]:
        """What lanes start with, for an accumulator that starts with `attribute`."""
        return [attribute] if self.predicate is None else [attribute, ir.FloatAttr.get(attribute.type, 0.0)]

    def merge(self, left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
        """Put two accumulators together."""
        if self.predicate is None:
            return [self.combine(left[0], right[0])]
        return [self._better(left[0], right[0]), _keep_nan(left[1], right[1])]

    def step(self, accumulator: list[ir.Value], term: ir.Value) -> list[ir.Value]:
        """Put one more term into an accumulator."""
        return self.merge(accumulator, [term] if self.predicate is None else [term, term])

    def total(self, accumulator: list[ir.Value]) -> ir.Value:
        """The value of an accumulator."""
        return accumulator[0] if self.predicate is None else _keep_nan(accumulator[0], accumulator[1])

    def _better(self, left: ir.Value, right: ir.Value) -> ir.Value:
        return arith.select(arith.cmpf(self.predicate, right, left), right, left)


def _keep_nan(value: ir.Value, other: ir.Value) -> ir.Value:
    """`other` where it is NaN, else `value`."""
    return arith.select(arith.cmpf(arith.CmpFPredicate.UNO, other, other), other, value)


@dataclass(frozen=True)
class Search:
    """An argmax or argmin: results (best value, its index) that are both selected by `condition`.

    `cone` are the body's ops between the candidate, the index and the accumulators on one side and the condition on the
    other: running them again on two pairs tells which one the body prefers.
    """

    condition: ir.Value
    candidate: ir.Value
    index: ir.Value
    accumulators: tuple[ir.Value, ir.Value]
    cone: tuple[ir.Operation, ...]

    @property
    def width(self) -> int:
        """How many vectors an accumulator has."""
        return 2

    def replaces(self, new: list[ir.Value], old: list[ir.Value]) -> ir.Value:
        """Emit the condition under which the pair `new` would replace the pair `old`."""
        values = dict(zip((*self.accumulators, self.candidate, self.index), (*old, *new), strict=True))
        for operation in self.cone:
            operands = [values[operand] if operand in values else _again(operand) for operand in operation.operands]
            values.update(zip(operation.results, clone_operation(operation, operands).results, strict=True))
        return values[self.condition]

    def merge(self, left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
        """The better of two pairs; of equal ones that with the smaller index."""
        forward, backward = self.replaces(right, left), self.replaces(left, right)
        one = vectors.constant(backward.type, 1)
        earlier = arith.cmpi(arith.CmpIPredicate.slt, right[1], left[1])
        take = arith.ori(forward, arith.andi(arith.xori(backward, one), earlier))
        return [arith.select(take, new, old) for new, old in zip(right, left, strict=True)]


def _again(value: ir.Value) -> ir.Value:
    """A constant from outside of the body, emitted here."""
    return clone_operation(value.owner.operation, []).results[0]


def read_reduction(body: ir.Block, num_inputs: int) -> list[Fold] | Search | None:
    """How a reduction body can run in lanes; None if it has to run in order."""
    accumulators = list(body.arguments)[num_inputs:]
    yielded = end_of(body).operands
    folds = [_read_fold(value, accumulators, number) for number, value in enumerate(yielded)]
    if all(folds):
        return folds
    return _read_search(body, list(yielded), accumulators)


def _read_fold(value: ir.Value, accumulators: Sequence[ir.Value], number: int) -> Fold | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.operation.name not in FOLDS:
        return None
    operands = list(owner.operation.operands)
    if accumulators[number] not in operands or any(len(list(a.uses)) != 1 for a in accumulators):
        return None
    return Fold(owner.operation, operands.index(accumulators[number]), number)


def _read_search(body: ir.Block, yielded: Sequence[ir.Value], accumulators: Sequence[ir.Value]) -> Search | None:
    if len(yielded) != 2 or any(isinstance(value.owner, ir.Block) for value in yielded):
        return None
    selects = [value.owner.operation for value in yielded]
    if any(op.name != "arith.select" or op.operands[2] != acc for op, acc in zip(selects, accumulators, strict=True)):
        return None
    condition, candidate, index = *selects[0].operands[:2], selects[1].operands[1]
    integer = isinstance(index.type, ir.IntegerType | ir.IndexType)
    if selects[1].operands[0] != condition or not integer or not _is_index(index):
        return None
    cone = _cone(body, condition, {candidate, index, *accumulators})
    return None if cone is None else Search(condition, candidate, index, (accumulators[0], accumulators[1]), cone)


def _cone(body: ir.Block, top: ir.Value, stops: set[ir.Value]) -> tuple[ir.Operation, ...] | None:
    """The ops that compute `top` from `stops`, in order; None if it needs other block arguments or a loop index."""
    needed, cone = {top}, []
    for operation in reversed([operation.operation for operation in body.operations]):
        if not any(result in needed for result in operation.results) or operation.results[0] in stops:
            continue
        if operation.name == "linalg.index":
            return None
        cone.append(operation)
        needed |= set(operation.operands)
    arguments = set(body.arguments) & needed
    return tuple(reversed(cone)) if arguments <= stops else None


def _is_index(value: ir.Value) -> bool:
    """Whether a body value is the index of a loop, perhaps cast or scaled together from several."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    if owner.operation.name == "linalg.index":
        return True
    arithmetic = ("arith.index_cast", "arith.index_castui", "arith.trunci", "arith.addi", "arith.muli", "arith.extsi")
    operands = list(owner.operation.operands)
    return owner.operation.name == "arith.constant" or (
        owner.operation.name in arithmetic and all(_is_index(operand) for operand in operands)
    )


def parts_of(reduction: list[Fold] | Search) -> Sequence[Fold | Search]:
    """What is accumulated separately: each fold, or the pair of a search."""
    return [reduction] if isinstance(reduction, Search) else reduction


def merge_accumulators(accumulators: list[list[ir.Value]], merge: Merge) -> list[ir.Value]:
    """Merge the accumulators of one reduction pairwise, neighbours first; each is a list of values (one per result)."""
    while len(accumulators) > 1:
        pairs = [accumulators[place : place + 2] for place in range(0, len(accumulators), 2)]
        accumulators = [merge(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return accumulators[0]


def merge_lanes(values: list[ir.Value], merge: Merge) -> list[ir.Value]:
    """Merge the lanes of vectors down to scalars: the upper half onto the lower half, until one lane is left."""
    lanes = ir.VectorType(values[0].type).shape[0]
    while lanes > 1:
        lanes //= 2
        low, high = ([_half(value, start, lanes) for value in values] for start in (0, lanes))
        values = merge(low, high)
    return [vector.extract(value, [], [0]) for value in values]


def _half(value: ir.Value, start: int, lanes: int) -> ir.Value:
    element = ir.VectorType(value.type).element_type
    return vector.extract_strided_slice(vectors.vector_type(lanes, element), value, [start], [lanes], [1])

"""Reductions that may run in lanes: what they combine with, how lanes start, and how lanes are merged.

A reduction body is taken apart into `combine(accumulator, term)` (a fold), or recognised as a search (argmax, argmin:
two results that follow one condition). The order in which lanes meet is fixed here: it does not depend on the target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from blu.dialects.mlir import arith, ir, vector
from blu.passes.cpu import lanes as vectors

Merge = Callable[[list[ir.Value], list[ir.Value]], list[ir.Value]]

IDENTITIES = {"arith.maximumf": -math.inf, "arith.maxnumf": -math.inf, "arith.minimumf": math.inf,
              "arith.minnumf": math.inf, "arith.addf": 0.0, "arith.mulf": 1.0, "arith.addi": 0, "arith.muli": 1,
              "arith.andi": -1, "arith.ori": 0, "arith.xori": 0, "arith.maxui": 0, "arith.minui": -1}  # fmt: skip
IDEMPOTENT = ("arith.maximumf", "arith.maxnumf", "arith.minimumf", "arith.minnumf", "arith.andi", "arith.ori",
              "arith.maxsi", "arith.minsi", "arith.maxui", "arith.minui")  # fmt: skip
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

    def identity(self) -> int | float:
        """The value that changes nothing (for a sum +0.0, so that a sum of nothing is +0.0)."""
        if self.combiner.name in IDENTITIES:
            return IDENTITIES[self.combiner.name]
        highest = (1 << (self.element.width - 1)) - 1
        return -highest - 1 if self.combiner.name == "arith.maxsi" else highest

    def combine(self, accumulator: ir.Value, term: ir.Value) -> ir.Value:
        """Emit the combiner, on scalars or vectors."""
        operands = [accumulator, term] if self.place == 0 else [term, accumulator]
        attributes = {name: self.combiner.attributes[name] for name in self.combiner.attributes}
        return ir.Operation.create(
            self.combiner.name, results=[accumulator.type], operands=operands, attributes=attributes,
            loc=self.combiner.location,
        ).results[0]  # fmt: skip


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

    def replaces(self, new: list[ir.Value], old: list[ir.Value]) -> ir.Value:
        """Emit the condition under which the pair `new` would replace the pair `old`."""
        values = dict(zip((*self.accumulators, self.candidate, self.index), (*old, *new), strict=True))
        for operation in self.cone:
            clone = clone_operation(operation, [values[operand] for operand in operation.operands if operand in values]
                                    if operation.name != "arith.constant" else [])  # fmt: skip
            values.update(zip(operation.results, clone.results, strict=True))
        return values[self.condition]

    def merge(self, left: list[ir.Value], right: list[ir.Value]) -> list[ir.Value]:
        """The better of two pairs; of equal ones that with the smaller index."""
        forward, backward = self.replaces(right, left), self.replaces(left, right)
        one = vectors.constant(backward.type, 1)
        earlier = arith.cmpi(arith.CmpIPredicate.slt, right[1], left[1])
        take = arith.ori(forward, arith.andi(arith.xori(backward, one), earlier))
        return [arith.select(take, new, old) for new, old in zip(right, left, strict=True)]


def clone_operation(operation: ir.Operation, operands: Sequence[ir.Value]) -> ir.Operation:
    """The same operation on other operands; on vectors as soon as one of them is a vector."""
    types = [result.type for result in operation.results]
    lanes = next((ir.VectorType(value.type).shape[0] for value in operands if vectors.is_vector(value)), None)
    if lanes is not None:
        operands = [vectors.splat(value, lanes) for value in operands]
        types = [vectors.vector_type(lanes, type_) for type_ in types]
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    return ir.Operation.create(
        operation.name, results=types, operands=operands, attributes=attributes, loc=operation.location
    )


def read_reduction(body: ir.Block, num_inputs: int) -> list[Fold] | Search | None:
    """How a reduction body can run in lanes; None if it has to run in order."""
    accumulators = list(body.arguments)[num_inputs:]
    yielded = list(body.operations)[-1].operands
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

"""The pass by which attention leaves the sums of weights that its gradient would find again."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, attributes_of, emitting_at, is_pure, operands_of, value_type
from blu.dialects.targets.nvidia import GpuTarget
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find
from blu.passes.gpu.attention.choice import suits_gradient
from blu.passes.gpu.attention.operands import PIECE, forward_operands
from blu.passes.gpu.attention.sizes import ScheduleSizes

FORWARD, GRADIENT = "blu.attention", "blu.attention_gradient"
ATTRIBUTES = ("causal", "scale", "precision")
MOVES = ("blu.slice", "blu.reshape", "blu.transpose")
KEEPS = ("blu.barrier", "blu.convert")


@dataclass(frozen=True)
class KeepLogarithms(Pass):
    """Attention whose gradient is computed by warpgroups becomes a piece, whose sums of weights the gradient reads.

        %1 = "blu.attention"(%q, %k, %v)
        %2:3 = "blu.attention_gradient"(%g, %q, %k, %v, %1)

    becomes

        %1:2 = "blu.attention_piece"(%q, %k, %v)
        %2:3 = "blu.attention_gradient"(%g, %q, %k, %v, %1#0, %1#1)

    Queries and keys alone decide: they may have been computed again for the gradient, behind barriers.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module.operation)
        forwards: list[ir.Operation] = []  # so far
        for operation in [item.operation for item in find(module, FORWARD, PIECE, GRADIENT)]:
            if operation.name != GRADIENT:
                forwards.append(operation)
                continue
            if not suits_gradient(ScheduleSizes.of(operation), target) or operands_of(operation)[-1] is not None:
                continue
            if (number := _forward_of(operation, forwards)) is not None:
                forwards[number] = _give(operation, forwards[number])
                self.count("gradients")


def _forward_of(gradient: ir.Operation, forwards: list[ir.Operation]) -> int | None:
    """The number of the last attention before a gradient that has its weights."""
    block = gradient.block
    numbers = (number for number in reversed(range(len(forwards))) if forwards[number].block == block)
    return next((number for number in numbers if _has_weights_of(forwards[number], gradient)), None)


def _has_weights_of(forward: ir.Operation, gradient: ir.Operation) -> bool:
    query, key, _, mask, offset = forward_operands(forward)
    _, own_query, own_key, _, _, own_mask, own_offset, _ = operands_of(gradient)
    if mask is not None or own_mask is not None or (offset is None) != (own_offset is None):
        return False
    if any(attributes_of(forward)[name] != attributes_of(gradient)[name] for name in ATTRIBUTES):
        return False
    offsets = [] if offset is None else [(offset, own_offset)]
    return are_equal([*offsets, (query, own_query), (key, own_key)])


def _give(gradient: ir.Operation, forward: ir.Operation) -> ir.Operation:
    """Let the gradient read the sums of what was computed forward, which becomes a piece."""
    if forward.name == FORWARD:
        query, key, value, _, offset = operands_of(forward)
        forward = _instead(forward, PIECE, [query, key, value, offset], attributes_of(forward))
    *operands, _ = operands_of(gradient)
    _instead(gradient, GRADIENT, [*operands, forward.results[1]], attributes_of(gradient))
    return forward


def _instead(operation: ir.Operation, name: str, operands: list, attributes: dict) -> ir.Operation:
    """An op that gives, first of all, what another one gives, which is erased."""
    tensors = [None if value is None else Tensor(value) for value in operands]
    with ir.InsertionPoint(operation), emitting_at(operation.location):
        results = OPS[name.removeprefix("blu.")](*tensors, **attributes)
    for before, now in zip(operation.results, results, strict=False):
        before.replace_all_uses_with(now.value)
    operation.erase()
    return results[0].value.owner.operation


@dataclass(frozen=True)
class Path:
    """What moves elements from a source, in steps, and the dtypes that round them on the way, from the last one on."""

    source: ir.Value
    moves: tuple[tuple[str, ...], ...]
    roundings: tuple[DType, ...]

    @classmethod
    def to(cls, value: ir.Value) -> Path:
        """The path to a value. Elementwise conversions may come before or after moves, and widening changes nothing."""
        moves, roundings = [], []
        while not isinstance(value.owner, ir.Block) and value.owner.name in (*MOVES, *KEEPS):
            operation = value.owner.operation
            before = operation.operands[list(operation.results).index(value)]
            here, there = (value_type(item).dtype for item in (value, before))
            if operation.name in MOVES:
                attributes = (f"{name} {operation.attributes[name]}" for name in operation.attributes)
                moves.append((operation.name, *attributes))
            elif here != there and not (here.is_float and there.is_float):
                break
            elif here != there and here.bits <= there.bits:
                roundings.append(here)
            value = before
        return cls(value, tuple(moves), _without_repeats(roundings, value_type(value).dtype))


def _without_repeats(roundings: list[DType], source: DType) -> tuple[DType, ...]:
    """Roundings, the last one first, without those to what the numbers are in already."""
    kept: list[DType] = []
    for dtype in reversed(roundings):
        if dtype != (kept[-1] if kept else source):
            kept.append(dtype)
    return tuple(reversed(kept))


def are_equal(pairs: list[tuple[ir.Value, ir.Value]]) -> bool:
    """Whether the two values of each pair are the same, or computed in the same way from the same."""
    seen: set[tuple[ir.Value, ir.Value]] = set()
    while pairs:
        one, other = (Path.to(value) for value in pairs.pop())
        if (one.moves, one.roundings) != (other.moves, other.roundings):
            return False
        if one.source == other.source or (one.source, other.source) in seen:
            continue
        seen.add((one.source, other.source))
        if not _is_same_op(one.source, other.source):
            return False
        pairs += zip(one.source.owner.operands, other.source.owner.operands, strict=True)
    return True


def _is_same_op(one: ir.Value, other: ir.Value) -> bool:
    """Whether two values are the same result of pure ops that differ in nothing but operands."""
    first, second = one.owner, other.owner
    if isinstance(first, ir.Block) or isinstance(second, ir.Block) or first.name != second.name:
        return False
    places = [list(value.owner.results).index(value) for value in (one, other)]
    attributes = [{name: item.attributes[name] for name in item.attributes} for item in (first, second)]
    same = attributes[0] == attributes[1] and len(first.operands) == len(second.operands)
    return same and places[0] == places[1] and not first.regions and is_pure(first)

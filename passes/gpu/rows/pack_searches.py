"""The pass that lets the place of the largest or smallest element be found like a maximum: in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.kernels.inline import clone_operation
from blu.passes.kernels.rows.program import constant_of
from blu.passes.kernels.rows.reductions import Search, read_reduction
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, fill, generic, projection

# How the bodies of argmax and argmin decide, in their order (passes/loops/lower_to_linalg/reduction.py).
_FLOAT = ("cmpf", "cmpi", "ori", "cmpf", "cmpf", "andi", "ori", "ori", "andi")
_INTEGER = ("cmpi", "cmpi", "ori")
_GREATER = {
    int(item) for item in (arith.CmpIPredicate.sgt, arith.CmpIPredicate.ugt)
}, {int(arith.CmpFPredicate.OGT)}  # fmt: skip
_BEST = {
    (True, True): arith.maximumf,
    (True, False): arith.minimumf,
    (False, True): arith.maxsi,
    (False, False): arith.minsi,
}
_BEST_UNSIGNED = {True: arith.maxui, False: arith.minui}
_UNSIGNED = {int(arith.CmpIPredicate.ugt), int(arith.CmpIPredicate.ult)}


@dataclass(frozen=True)
class PackSearches(Pass):
    """argmax and argmin of elements of up to 32 bits fold whole numbers of 64 bits, which hold element and place.

        %4:2 = linalg.generic ins(%x : tensor<4x9xf32>) outs(%lowest, %none : tensor<4xf32>, tensor<4xi64>) {
          ^bb0(%element, %best, %place): .. arith.select %better ..                  // in order, since it compares
        }

    becomes

        %4 = linalg.generic ins(%x : tensor<4x9xf32>) outs(%zero : tensor<4xi64>) {  // high half: elements in order
          ^bb0(%element, %most): .. arith.maxui %most, %packed                       // low half: ~place
        }
        %5 = linalg.generic ins(%4 : tensor<4xi64>) { arith.xori (arith.andi %low), %low }

    The first of equal elements wins, since its low half is the largest; -0.0 counts as 0.0, and the first NaN wins.
    Elements of 64 bits are folded twice: what the largest is, and the first place where it is.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in [item for item in find(module, func.FuncOp) if not is_kernel(item)]:
            for operation in [item.operation for item in function.entry_block.operations]:
                search = _search_of(operation) if operation.name == "linalg.generic" else None
                if search is not None:
                    (_pack if _is_packable(operation, search) else _search_twice)(operation, search)
                    self.count("searches")


def _search_of(operation: ir.Operation) -> Search | None:
    """The search that an op is, if only its place is wanted."""
    inputs = len(operation.operands) - len(operation.results)
    found = read_reduction(operation.regions[0].blocks[0], inputs)
    if not isinstance(found, Search) or list(operation.results[0].uses):
        return None
    names = tuple(item.name.removeprefix("arith.") for item in found.cone)
    is_float = isinstance(found.candidate.type, ir.FloatType)
    start = constant_of(operation.operands[inputs + 1].owner.operands[0])
    known = names == (_FLOAT if is_float else _INTEGER) and start is not None and start.value == -1
    return found if known else None


def _is_packable(operation: ir.Operation, search: Search) -> bool:
    """Whether an element and its place are 64 bits together."""
    return search.candidate.type.width <= 32 and _extent(operation) < 1 << 31


def _extent(operation: ir.Operation) -> int:
    """Elements that the op reads."""
    return prod(operation.operands[0].type.shape)


def _pack(operation: ir.Operation, search: Search) -> None:
    i64, result = ir.IntegerType.get_signless(64), operation.results[1]

    def body(*arguments: ir.Value) -> ir.Value:
        return arith.maxui(arguments[-1], _packed(search, *_candidate(operation, search, arguments)))

    with ir.InsertionPoint(operation), operation.location:
        zero = fill(_word(i64, 0), result.type.shape)
        (most,) = _reduction(operation, [], zero, body)
        result.replace_all_uses_with(_places(most, result.type.shape))
    operation.erase()


def _search_twice(operation: ir.Operation, search: Search) -> None:
    """Find the best element first, then the first place where it is: two folds, of 64 bits each."""
    i64, element, result = ir.IntegerType.get_signless(64), search.candidate.type, operation.results[1]
    is_float = isinstance(element, ir.FloatType)
    predicate = search.cone[0].attributes["predicate"].value
    is_greater = predicate in _GREATER[is_float]
    is_unsigned = not is_float and predicate in _UNSIGNED
    best_of = _BEST_UNSIGNED[is_greater] if is_unsigned else _BEST[is_float, is_greater]
    equal = (arith.CmpFPredicate.OEQ, arith.cmpf) if is_float else (arith.CmpIPredicate.eq, arith.cmpi)

    def better(*arguments: ir.Value) -> ir.Value:
        return best_of(arguments[-1], _candidate(operation, search, arguments)[0])

    def earlier(*arguments: ir.Value) -> ir.Value:
        *_, best, first = arguments
        candidate, place = _candidate(operation, search, arguments)
        wins = equal[1](equal[0], candidate, best)
        if is_float:
            wins = arith.ori(wins, arith.cmpf(arith.CmpFPredicate.UNO, candidate, candidate))
        return arith.minui(first, arith.select(wins, place, _word(i64, -1)))

    with ir.InsertionPoint(operation), operation.location:
        (best,) = _reduction(operation, [], operation.operands[len(operation.operands) - 2], better)
        nowhere = fill(_word(i64, -1), result.type.shape)
        (place,) = _reduction(operation, [best], nowhere, earlier)
        result.replace_all_uses_with(place)
    operation.erase()


def _candidate(operation: ir.Operation, search: Search, arguments: Sequence[ir.Value]) -> tuple[ir.Value, ir.Value]:
    """What a search's body compares and where that is (i64), in a body with other accumulators."""
    old = operation.regions[0].blocks[0]
    values = dict(zip(list(old.arguments)[: _inputs(operation)], arguments, strict=False))
    for item in old.operations:
        if not {search.accumulators[0], search.accumulators[1]} & set(item.operation.operands):
            _clone(item.operation, values)
    # An index of a dimension of one is a constant, which may be outside.
    return values.get(search.candidate, search.candidate), values.get(search.index, search.index)


def _inputs(operation: ir.Operation) -> int:
    return len(operation.operands) - len(operation.results)


def _reduction(
    operation: ir.Operation, found: list[ir.Value], start: ir.Value, body: Callable[..., ir.Value]
) -> Sequence[ir.Value]:
    """The loops of a search with another body, which reads what has been `found` for the same results as well."""
    maps = [item.value for item in operation.attributes["indexing_maps"]]
    inputs, of_result = _inputs(operation), maps[-1]
    kinds = [str(item).split("<")[1].rstrip(">") for item in operation.attributes["iterator_types"]]
    sources = [*list(operation.operands)[:inputs], *found]
    return generic(sources, [start], [*maps[:inputs], *[of_result] * (len(found) + 1)], kinds, body)


def _places(most: ir.Value, shape: list[int]) -> ir.Value:
    """The places in the low halves of packed numbers."""
    i64 = ir.IntegerType.get_signless(64)

    def body(packed: ir.Value, _: ir.Value) -> ir.Value:
        low = _word(i64, (1 << 32) - 1)
        return arith.xori(arith.andi(packed, low), low)

    same = [projection(len(shape), range(len(shape)))] * 2
    return generic([most], [empty(shape, i64)], same, [PARALLEL] * len(shape), body)[0]


def _clone(operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> None:
    """Clone an op of the old body whose operands are all known; those that decide are left out with what they read."""
    inside = [operand for operand in operation.operands if operand not in values and _is_inside(operand, operation)]
    if inside or operation.name == "linalg.yield":
        return
    clone = clone_operation(operation, [values.get(operand, operand) for operand in operation.operands])
    values.update(zip(operation.results, clone.results, strict=True))


def _is_inside(value: ir.Value, operation: ir.Operation) -> bool:
    block = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    return block == operation.block


def _packed(search: Search, candidate: ir.Value, place: ir.Value) -> ir.Value:
    """The element in the order of unsigned numbers above, and the place below so that the first is the largest."""
    i64 = ir.IntegerType.get_signless(64)
    is_float = isinstance(candidate.type, ir.FloatType)
    predicate = search.cone[0].attributes["predicate"].value
    ordered = _ordered_float(candidate) if is_float else _ordered_integer(candidate, predicate in _UNSIGNED)
    if predicate not in _GREATER[is_float]:
        ordered = arith.xori(ordered, _word(ordered.type, -1))
    if is_float:
        is_nan = arith.cmpf(arith.CmpFPredicate.UNO, candidate, candidate)
        ordered = arith.select(is_nan, _word(ordered.type, -1), ordered)
    high = arith.shli(arith.extui(i64, ordered), _word(i64, 32))
    return arith.ori(high, arith.xori(place, _word(i64, (1 << 32) - 1)))


def _ordered_float(value: ir.Value) -> ir.Value:
    """An i32 that is as much larger, unsigned, as the f32 is: the sign bit is turned over, or all bits are."""
    i32 = ir.IntegerType.get_signless(32)
    zero = arith.constant(value.type, ir.FloatAttr.get(value.type, 0.0))
    value = arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, value, zero), zero, value)
    bits = arith.bitcast(i32, value)
    sign = arith.shrsi(bits, _word(i32, 31))
    return arith.xori(bits, arith.ori(sign, _word(i32, -(1 << 31))))


def _ordered_integer(value: ir.Value, is_unsigned: bool) -> ir.Value:
    i32 = ir.IntegerType.get_signless(32)
    if value.type.width < 32:
        value = arith.extui(i32, value) if is_unsigned else arith.extsi(i32, value)
    return value if is_unsigned else arith.xori(value, _word(i32, -(1 << 31)))


def _word(type_: ir.Type, value: int) -> ir.Value:
    return arith.constant(type_, ir.IntegerAttr.get(type_, value))

"""The pass that lets attention of a few queries put new keys and values into the cache."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import ATTENTION, UPDATE, family_of, mark
from blu.passes.framework.kernels import call_in_place_of, callee_of, erase_uncalled, kernels_in, wished_in
from blu.passes.gpu.attention.few_queries import decode
from blu.passes.gpu.attention.few_queries.inserted_rows import may_insert
from blu.passes.kernels.updates import find_operation
from blu.passes.loops.fuse.fuse import clone_kernel

_SOURCE, _CACHE = 0, 1
"""Operands of an insertion."""


@dataclass(frozen=True)
class InsertInAttention(Pass):
    """Attention of a few queries puts the new keys and values into the cache that it reads.

        %1 = call @update_0(%key, %keys, %at) : (tensor<1x12x1x64xbf16>, tensor<1x12x1024x64xbf16>, tensor<i32>) -> ..
        %2 = call @update_0(%value, %values, %at) : ..
        %3 = call @attention_0(%query, %1, %2, %at)

    becomes

        %3:3 = call @attention_0_update_0(%query, %at, %key, %keys, %at, %value, %values, %at)

    with the kernel's insertions before its attention. There are two launches less in a row, which take longer than the
    few rows do; and attention need not wait for them, since nobody else writes into what it reads.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        kernels, wished = kernels_in(module), wished_in(module)
        for call in list(find(module, func.CallOp)):
            updates = _updates_of(call, kernels) if callee_of(call) not in wished else None
            if updates is not None and wished.isdisjoint(map(callee_of, updates)):
                _join_calls(call, updates, kernels)
                self.count("attentions that put in what is new")
        joined = {name: kernel for name, kernel in kernels.items() if family_of(kernel) in (ATTENTION, UPDATE)}
        erase_uncalled(module, joined)


def _updates_of(call: func.CallOp, kernels: dict[str, func.FuncOp]) -> list[func.CallOp] | None:
    """The calls that make the keys and values of an attention by putting rows in at one place, if it may do so."""
    kernel = kernels.get(callee_of(call))
    if kernel is None or family_of(kernel) != ATTENTION:
        return None
    operation, arguments, passed = find_operation(kernel, "blu.attention"), list(kernel.arguments), list(call.operands_)
    read = operands_of(operation)[1:3]
    if not decode.suits(operation) or not all(value in arguments for value in read) or len(call.results) > 1:
        return None
    made = [passed[arguments.index(value)] for value in read]
    updates = [_update_that_makes(value, kernels) for value in made]
    keys, values = updates
    if keys is None or values is None or keys == values:
        return None
    is_read_once = all(passed.count(value) == 1 for value in made)
    is_first = all(_is_used_from(call, value) for value in made)
    fits = all(_fits(operation, update, kernels) for update in (keys, values))
    is_one_place = callee_of(keys) == callee_of(values) and _places(keys, kernels) == _places(values, kernels)
    return [keys, values] if is_read_once and is_first and fits and is_one_place else None


def _update_that_makes(value: ir.Value, kernels: dict[str, func.FuncOp]) -> func.CallOp | None:
    call = None if isinstance(value.owner, ir.Block) else value.owner.opview
    is_update = isinstance(call, func.CallOp) and family_of(kernels[callee_of(call)]) == UPDATE
    return call if is_update else None


def _is_used_from(call: func.CallOp, value: ir.Value) -> bool:
    """Whether nobody uses a value before a call, or elsewhere."""
    order = {item.operation: number for number, item in enumerate(call.operation.block.operations)}
    users = [use.owner.operation for use in value.uses]
    return all(order.get(user, -1) >= order[call.operation] for user in users)


def _fits(attention: ir.Operation, update: func.CallOp, kernels: dict[str, func.FuncOp]) -> bool:
    """Whether an update puts a few whole rows into all heads."""
    kernel = kernels[callee_of(update)]
    insertion, arguments = find_operation(kernel, "tensor.insert_slice"), list(kernel.arguments)
    operands = [insertion.operands[place] for place in (_SOURCE, _CACHE)]
    if not all(operand in arguments for operand in operands):
        return False
    source, cache = (ir.RankedTensorType(operand.type) for operand in operands)
    *leading, _, column = ir.DenseI64ArrayAttr(insertion.attributes["static_offsets"])
    is_dense = all(step == 1 for step in ir.DenseI64ArrayAttr(insertion.attributes["static_strides"]))
    return not any((*leading, column)) and is_dense and may_insert(attention, source, cache)


def _places(update: func.CallOp, kernels: dict[str, func.FuncOp]) -> list[ir.Value]:
    """What an update is passed that says where rows go."""
    kernel = kernels[callee_of(update)]
    insertion = find_operation(kernel, "tensor.insert_slice")
    moved = [insertion.operands[place] for place in (_SOURCE, _CACHE)]
    return [value for argument, value in zip(kernel.arguments, update.operands_, strict=True) if argument not in moved]


def _join_calls(call: func.CallOp, updates: Sequence[func.CallOp], kernels: dict[str, func.FuncOp]) -> None:
    """Let an attention do what updates do."""
    made = [update.results[0] for update in updates]
    places = [list(call.operands_).index(value) for value in made]
    name = f"{callee_of(call)}_{callee_of(updates[0])}"
    if name not in kernels:
        kernels[name] = _join(name, kernels[callee_of(call)], places, kernels[callee_of(updates[0])])
    passed = [value for value in call.operands_ if value not in made]
    for update in updates:
        passed += update.operands_
    call_in_place_of([call.results[0], *made], name, passed, call, call.location)
    for old in (call, *updates):
        old.erase()


def _join(name: str, attention: func.FuncOp, places: Sequence[int], update: func.FuncOp) -> func.FuncOp:
    """A kernel that updates both operands of an attention at these places first; it returns these, too."""
    own = [type_ for place, type_ in enumerate(attention.type.inputs) if place not in places]
    types, count = [*own, *update.type.inputs, *update.type.inputs], len(update.type.inputs)
    results = [*attention.type.results, *update.type.results, *update.type.results]
    with ir.InsertionPoint(attention), attention.location:
        kernel = func.FuncOp(name, (types, results), visibility="private")
    mark(kernel, ATTENTION)
    block = kernel.add_entry_block([attention.location] * len(types))
    arguments = list(block.arguments)
    starts = (len(own), len(own) + count)
    with ir.InsertionPoint(block), attention.location:
        made = [clone_kernel(update, arguments[start : start + count])[0] for start in starts]
        rest = iter(arguments[: len(own)])
        inputs = [made[places.index(place)] if place in places else next(rest)
                  for place in range(len(attention.type.inputs))]  # fmt: skip
        func.ReturnOp([*clone_kernel(attention, inputs), *made])
    return kernel

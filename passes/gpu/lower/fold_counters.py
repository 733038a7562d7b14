"""The pass that lets loops count for themselves instead of reading numbers that only say where they are."""

from __future__ import annotations

from collections.abc import Iterable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir, linalg
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.loops.fuse.loops import LoopNest, loop_nest
from blu.passes.loops.lower_to_linalg.generic import maps_attribute

VIEWS = ("tensor.collapse_shape", "tensor.expand_shape")


@dataclass(frozen=True)
class FoldCounters(Pass):
    """A tensor of 0, 1, 2, .. (or of what follows from that) is not stored and read, but counted where it is needed.

        %1 = linalg.generic outs(..) { linalg.index 0 .. yield }            : tensor<50304xi32>
        %2 = linalg.generic {(i, j) -> (j), (i) ..} ins(%1, %targets) { ^bb0(%a, ..): arith.cmpi eq, %a, .. }

    becomes

        %2 = linalg.generic ins(%targets) { ^bb0(..): %a = linalg.index 1 ..; arith.cmpi eq, %a, .. }
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in [item for item in find(module, func.FuncOp) if not is_kernel(item)]:
            for operation in [item.operation for item in function.entry_block.operations]:
                nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
                if nest and _fold(operation, nest):
                    self.count("loops that count for themselves")


@dataclass(frozen=True)
class Counter:
    """An input of a loop nest that is the same as counting its loop `loop`, as the body of `producer` does."""

    place: int
    loop: int
    producer: ir.Operation


def _fold(operation: ir.Operation, nest: LoopNest) -> bool:
    counters = [counter for place in range(len(nest.inputs)) if (counter := _counter(nest, place))]
    kept = [dims for place, dims in enumerate(nest.dims) if place not in {counter.place for counter in counters}]
    if not counters or {dim for dims in kept for dim in dims or ()} != set(range(len(nest.sizes))):
        return False
    with ir.InsertionPoint(operation), operation.location:
        new = _rebuild(operation, nest, {counter.place: counter for counter in counters})
    for old, result in zip(operation.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    sources = [nest.inputs[counter.place] for counter in counters]
    operation.erase()
    _erase_unused(sources)
    return True


def _counter(nest: LoopNest, place: int) -> Counter | None:
    """How an input is the same as counting; None if it is not."""
    value, dims = nest.inputs[place], nest.dims[place]
    if not isinstance(value.type, ir.RankedTensorType):
        return None
    long = [dim for dim, size in zip(dims or (), value.type.shape, strict=False) if size != 1]
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or value.owner.name != "linalg.generic" or len(long) != 1:
        return None
    producer = value.owner.operation
    made = loop_nest(producer, 0)
    if made is None or made.inputs or not made.is_pointwise or len(producer.results) != 1:
        return None
    body = producer.regions[0].blocks[0]
    read = {item.attributes["dim"].value for item in body.operations if item.operation.name == "linalg.index"}
    walked = {dim for dim, size in enumerate(made.sizes) if size != 1}
    plain = all(item.operation.name.startswith(("arith.", "linalg.")) for item in body.operations)
    if not plain or list(body.arguments[0].uses) or read != walked or len(read) != 1:
        return None  # a view of several dimensions is counted otherwise than one of them
    return Counter(place, long[0], producer)


def _rebuild(operation: ir.Operation, nest: LoopNest, counters: dict[int, Counter]) -> ir.Operation:
    """The op without the inputs that are counted."""
    inputs = [value for place, value in enumerate(nest.inputs) if place not in counters]
    maps = [map_ for place, map_ in enumerate(nest.maps) if place not in counters]
    kinds = operation.attributes["iterator_types"]
    new = linalg.GenericOp([item.type for item in operation.results], inputs, nest.outputs, maps_attribute(maps), kinds)
    old = operation.regions[0].blocks[0]
    kept = [argument for place, argument in enumerate(old.arguments) if place not in counters]
    block = new.regions[0].blocks.append(*[argument.type for argument in kept])
    values = dict(zip(kept, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for place, counter in counters.items():
            values[old.arguments[place]] = _count(counter)
        for item in old.operations:
            _clone(item.operation, values)
    return new.operation


def _count(counter: Counter) -> ir.Value:
    """The body of the producer, at the place that the loop has."""
    values: dict[ir.Value, ir.Value] = {}
    *operations, last = [item.operation for item in counter.producer.regions[0].blocks[0].operations]
    for operation in operations:
        clone = _clone(operation, values)
        if operation.name == "linalg.index":
            clone.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), counter.loop)
    return values.get(last.operands[0], last.operands[0])


def _clone(operation: ir.Operation, values: dict[ir.Value, ir.Value]) -> ir.Operation:
    clone = operation.clone()
    for number, operand in enumerate(operation.operands):
        if operand in values:
            clone.operands[number] = values[operand]
    values.update(zip(operation.results, clone.results, strict=True))
    return clone.operation


def _erase_unused(values: Iterable[ir.Value]) -> None:
    """Erase what made values that nothing reads any more, through views; several may have been made by one."""
    makers: dict[ir.Operation, None] = {}
    for value in values:
        while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
            makers[value.owner.operation] = None
            value = value.owner.operands[0]
        if not isinstance(value.owner, ir.Block):
            makers[value.owner.operation] = None
    while unused := [item for item in makers if not any(list(result.uses) for result in item.results)]:
        for item in unused:
            del makers[item]
            item.erase()

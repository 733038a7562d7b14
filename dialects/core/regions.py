"""Regions of ops: bodies, which are traced from functions, and which the op does as often as it says.

    %y = "blu.repeat"(%x, %w) <{count = 3 : i64}> ({
    ^bb0(%state: tensor<4xf32>, %weight: tensor<4xf32>):
      %next = "blu.multiply"(%state, %weight)
      "blu.yield"(%next)
    })

A body is one block that ends in `blu.yield`. No value from above is used in it: what its function has read from above
(%w) is an operand of the op, in its field `Captured`, and an argument of the body, after those that the op says. So
an op with bodies reads nothing but its operands, as all ops, and may be copied, moved and compared as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

from blu.dataclass import dataclass
from blu.dialects.core.dialect import YIELD
from blu.dialects.core.dtypes import TensorType, tensor_type
from blu.dialects.core.fields import CAPTURED_SLOTS, SEGMENTS, check_number, slots
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import end_of, operations_in
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ParseError, ShapeError, TraceError

BodyFunction = Callable[..., "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True)
class RegionType:
    """What a body takes, without what it reads from above, and what it gives: `infer` gets one for each region."""

    arguments: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


# What a region takes: types, or what they are, given the types of the regions before it.
Takes = Sequence[TensorType] | Callable[[dict[str, RegionType]], Sequence[TensorType]]


def taken(takes: Takes, known: dict[str, RegionType]) -> Sequence[TensorType]:
    """The types that a region takes, those of other regions being known."""
    return takes(known) if callable(takes) else takes


@dataclass(frozen=True)
class TracedBodies:
    """Bodies on their way into an op: their blocks by region, and the values from above that they read."""

    blocks: dict[str, ir.Block]
    captured: list[ir.Value]

    @property
    def types(self) -> dict[str, RegionType]:
        """What each takes and gives."""
        return {name: body_type(block, len(self.captured)) for name, block in self.blocks.items()}

    def move_to(self, operation: ir.Operation) -> None:
        """Make them the bodies of an op that has as many regions."""
        for block, region in zip(self.blocks.values(), operation.regions, strict=True):
            block.append_to(region)


@contextmanager
def tracing_bodies(
    op_name: str, functions: Mapping[str, BodyFunction], takes: Sequence[Takes], location: ir.Location
) -> Iterator[TracedBodies]:
    """Run each function once on tensors of the types that its region takes, and keep what it computes as a body.

    Until they are moved, bodies stay where they are traced, so that calls of functions of the module may be in them.
    TraceError for a function that does not return tensors, or that reads tensors of a body which it is not in.
    """
    holder = ir.Operation.create(op_name, regions=len(functions), loc=location)
    try:
        blocks: dict[str, ir.Block] = {}
        for (name, function), types, region in zip(functions.items(), takes, holder.regions, strict=True):
            known = {before: body_type(block, 0) for before, block in blocks.items()}
            blocks[name] = _traced(name, function, taken(types, known), region)
        captured = close_over(list(blocks.values()))
        _check_captured(captured, holder.block)
        yield TracedBodies(blocks, captured)
    except BaseException:
        holder.detach_from_parent()  # not erased: somebody may hold tensors of it
        raise
    holder.erase()


def _traced(name: str, function: BodyFunction, takes: Sequence[TensorType], region: ir.Region) -> ir.Block:
    location, types = region.owner.location, [type_.to_mlir() for type_ in takes]
    block = region.blocks.append(*types, arg_locs=[location] * len(types))
    with ir.InsertionPoint(block):
        given = function(*map(Tensor, block.arguments))
        results: list[Any] = list(given) if isinstance(given, list | tuple) else [given]
        for result in results:
            if not isinstance(result, Tensor):
                raise TraceError(f"{name} gives a {type(result).__name__}, which is no tensor")
        check_number(len(results), CAPTURED_SLOTS, f"that {name} gives")
        encoded = {SEGMENTS: slots([len(results)], [CAPTURED_SLOTS])}
        ir.Operation.create(YIELD, operands=[item.value for item in results], attributes=encoded, loc=location)
    return block


def close_over(blocks: Sequence[ir.Block]) -> list[ir.Value]:
    """Make arguments, of each block, of the values that any of them uses from outside (what Python closures hold).

    They come after the arguments that there are, in the order in which they are returned.
    """
    outside: dict[ir.Value, ir.Location] = {}
    uses: list[tuple[int, ir.Operation, int, ir.Value]] = []
    for number, block in enumerate(blocks):
        known = set(block.arguments)
        for operation in (item.operation for item in block.operations):
            for index, operand in enumerate(operation.operands):
                if operand not in known:
                    outside.setdefault(operand, operation.location)
                    uses.append((number, operation, index, operand))
            known.update(operation.results)
    added = [{value: block.add_argument(value.type, place) for value, place in outside.items()} for block in blocks]
    for number, operation, index, operand in uses:
        operation.operands[index] = added[number][operand]
    return list(outside)


def _check_captured(values: Iterable[ir.Value], block: ir.Block) -> None:
    around = list(_blocks_around(block))
    for value in values:
        owner = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
        # What a function of the module reads of another, which is being traced as well, becomes its argument later.
        if owner not in around and owner.owner.operation.name != "func.func":
            advice = "Return it from there, and use what the op gives."
            raise TraceError(f"a tensor of another body is used, {tensor_type(value.type)}", advice=advice)


def refuse_escapes(root: ir.Operation) -> None:
    """TraceError for a tensor of a body that is used elsewhere than there, at the line where it is."""
    for operation in (item for item in operations_in(root) if len(item.regions) and item.name != "func.func"):
        for block in (block for region in operation.regions for block in region.blocks):
            made = chain(block.arguments, chain.from_iterable(item.operation.results for item in block.operations))
            for user in (use.owner.operation for value in made for use in value.uses):
                if user.block != block:
                    advice = "Return it from the function that computes it there, and use what the op gives."
                    raise TraceError(
                        f"a tensor that the body of a {operation.name.removeprefix('blu.')} computes is used outside",
                        location=describe(user.location),
                        advice=advice,
                    )


def _blocks_around(block: ir.Block) -> Iterator[ir.Block]:
    """A block and those that it is in."""
    yield block
    operation = block.owner.operation
    while operation.parent is not None:
        yield operation.block
        operation = operation.parent.operation


def body_of(region: ir.Region) -> ir.Block:
    """The block of a region that is right."""
    return region.blocks[0]


def body_type(block: ir.Block, num_captured: int) -> RegionType:
    """What a body takes, without what it reads from above, and what it gives."""
    arguments = [tensor_type(argument.type) for argument in block.arguments]
    results = tuple(tensor_type(value.type) for value in end_of(block).operands)
    return RegionType(tuple(arguments[: len(arguments) - num_captured]), results)


def read_region(name: str, region: ir.Region, captured: Sequence[TensorType]) -> RegionType:
    """The type of a region of hand-written IR, whose op captures values of these types.

    ParseError for what is no body, ShapeError for a body that does not take what is captured.
    """
    blocks = list(region.blocks)
    if len(blocks) != 1 or not len(blocks[0].operations) or end_of(blocks[0]).name != YIELD:
        raise ParseError(f"the region {name} is one block that ends in {YIELD}, and this one is not")
    arguments = [tensor_type(argument.type) for argument in blocks[0].arguments]
    last = arguments[len(arguments) - len(captured) :] if captured else []
    if last != list(captured):
        raise ShapeError(f"captures {listed(captured)}, but the last arguments of {name} are {listed(last)}")
    return body_type(blocks[0], len(captured))


def check_taken(takes: Mapping[str, Takes], found: dict[str, RegionType]) -> None:
    """Whether regions take what their op says that they do. ShapeError names the first that does not."""
    for name, types in ((name, taken(item, found)) for name, item in takes.items()):
        if tuple(types) != found[name].arguments:
            raise ShapeError(f"{name} takes {listed(types)}, but its arguments are {listed(found[name].arguments)}")


def listed(types: Iterable[TensorType]) -> str:
    """Types in a sentence."""
    return ", ".join(map(str, types)) or "nothing"


def copy_block(block: ir.Block, values: dict[ir.Value, ir.Value]) -> list[ir.Value]:
    """Copy a block's operations to the insertion point, operands mapped by `values`; what it ends with, mapped."""
    for operation in (item.operation for item in block.operations):
        if operation.name in ("func.return", YIELD):
            return [values[value] for value in operation.operands]
        clone = operation.clone()
        for index, operand in enumerate(operation.operands):
            clone.operands[index] = values[operand]
        values.update(zip(operation.results, clone.results, strict=True))
    raise AssertionError("a function ends in a return, and a body in a yield")

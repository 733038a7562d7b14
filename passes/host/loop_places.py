"""Where the body of a loop finds what it works on, in each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.plan import LoopShape
from blu.passes.host.bufferize.intervals import element_bytes
from blu.plan.arguments import Advance, Argument
from blu.plan.tensors import TensorSpec


@dataclass(frozen=True)
class Surroundings:
    """What the body of a loop takes and gives, where its arena begins, and the program's arguments."""

    takes: tuple[Argument, ...]
    gives: tuple[Argument, ...]
    arena: int
    inputs: tuple[TensorSpec, ...]


def surroundings_of(
    loop: ir.Operation, number: int, places: Sequence[Argument], arena: int, inputs: tuple[TensorSpec, ...]
) -> Surroundings:
    """Those of a loop with a number, whose operands lie at these places where the step is done for the first time."""
    shape, types = LoopShape.of(loop), [ir.MemRefType(value.type) for value in loop.operands]
    num_taken = shape.carries + shape.slices
    end = len(types) - shape.given
    cells = list(zip(places, types, strict=True))[: shape.carries]
    stacked = [item in shape.stacked for item in range(shape.carries)]
    before, after = (
        tuple(
            _kept(*cell, number, shift, shape) if keeps else _cell(*cell, number, shift)
            for cell, keeps in zip(cells, stacked, strict=True)
        )
        for shift in (0, 1)
    )
    slices = [_slice(place, type_, number, shape) for place, type_ in zip(places, types, strict=True)]
    takes = (*before, *slices[shape.carries : num_taken], *places[num_taken:end])
    return Surroundings(takes, (*after, *slices[end:]), arena, inputs)


def _cell(place: Argument, type_: ir.MemRefType, number: int, shift: int) -> Argument:
    """What is carried into a step, or with a shift of 1 into the next one."""
    count, stride = type_.shape[0], _stride(type_)
    return place if count == 1 else replace(place, steps=(*place.steps, Advance(number, stride, shift, count)))


def _kept(place: Argument, type_: ir.MemRefType, number: int, shift: int, shape: LoopShape) -> Argument:
    """The same where the values of all steps have cells of their own; the first is the last one in reverse."""
    stride = _stride(type_)
    start = place.offset + (shape.count * stride if shape.reverse else 0)
    stride = -stride if shape.reverse else stride
    return replace(place, offset=start, steps=(*place.steps, Advance(number, stride, shift)))


def _slice(place: Argument, type_: ir.MemRefType, number: int, shape: LoopShape) -> Argument:
    if not type_.shape:
        return place
    stride = _stride(type_)
    start = place.offset + (max(shape.count - 1, 0) * stride if shape.reverse else 0)
    step = Advance(number, -stride if shape.reverse else stride)
    return replace(place, offset=start, steps=(*place.steps, step))


def _stride(type_: ir.MemRefType) -> int:
    """Bytes from one of the first dimension's elements to the next."""
    if 0 in type_.shape:
        return 0
    strides, _ = type_.get_strides_and_offset()
    return strides[0] * element_bytes(type_.element_type)

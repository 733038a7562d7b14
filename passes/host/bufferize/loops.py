"""The memory of loops: cells for what is carried, and slices that begin where every kernel can read them.

What a step carries on is written where the next step reads it. Where the body writes it over what it was given, that is
one cell; else there are two, which change places with every step, or one for each step where all are kept.
A loop that goes on while something is true stands between two calls of the host, which read that: what is in second
cells is copied back.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects import plan
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.passes.host.bufferize.host import Host
from blu.passes.host.bufferize.intervals import element_bytes
from blu.passes.host.bufferize.views import Root, View, contiguous_strides, whole
from blu.plan.repeating import AGAIN, BEGIN
from blu.plan.schema import ALIGNMENT


def place_loop(operation: ir.Operation, body: func.FuncOp, host: Host) -> list[View]:
    """Write a loop over memory for one over tensors; where its results are."""
    shape = plan.LoopShape.of(operation)
    operands, results = list(operation.operands), list(operation.results)
    in_place = _aliases(body)
    cells = [_Cells.of(number, value, number in in_place, shape, host) for number, value in _carried(operands, shape)]
    walked = operands[shape.carries : shape.carries + shape.slices]
    xs = [host.memref_of(_with_slices(host.views[value], value, host)) for value in walked]
    read = [host.memref_of(_as_it_is(host.views[value], host)) for value in operands[shape.carries + shape.slices :]]
    ys = [_place_of_slices(value, host) for value in results[shape.carries : shape.carries + shape.given]]
    goes_on = [host.memref_of(cells[0].at(0))] if shape.goes_on else []
    if goes_on:
        plan.host_call(BEGIN, goes_on, [], {})
    plan.loop(shape, [*(item.root.memref for item in cells), *xs, *read, *map(host.memref_of, ys)], [])
    if goes_on:
        for item in cells:
            item.go_back(host)
        plan.host_call(AGAIN, goes_on, [], {})
        return [item.at(0) for item in cells]
    kept = [cells[number].all(shift, shift + shape.count) for number, shift in shape.kept]
    return [*(item.at(shape.count) for item in cells), *ys, *kept]


def slot_of(value: ir.Value, host: Host) -> ir.Value:
    """The slot in which a check looks at a value. What a loop has carried lies in its cell, and is copied there."""
    view = host.views[value]
    if plan.is_status(view.root.memref):
        return view.root.memref
    slot = host.checked_root(value)
    assert slot is not None, "it is looked at"
    host.copy(view, whole(slot))
    return slot.memref


def _carried(operands: list[ir.Value], shape: plan.LoopShape) -> list[tuple[int, ir.Value]]:
    return list(enumerate(operands[: shape.carries]))


@dataclass(frozen=True)
class _Cells:
    """Where something that is carried lies: in as many cells as there are values at a time, or in all."""

    root: Root
    shape: tuple[int, ...]
    is_reversed: bool

    @classmethod
    def of(cls, number: int, value: ir.Value, is_in_place: bool, shape: plan.LoopShape, host: Host) -> _Cells:
        """Those of a value, with that in the first one."""
        view, room = host.views[value], _room(ir.RankedTensorType(value.type), 0)
        count = shape.count + 1 if number in shape.stacked else 1 if is_in_place else 2
        root = host.new_root([count, room], view.element_type)
        cells = cls(root, view.shape, number in shape.stacked and shape.reverse)
        host.copy(view, cells.at(0))
        return cells

    def at(self, time: int) -> View:
        """What is carried, after so many steps."""
        count, room = self.root.shape
        place = count - 1 - time if self.is_reversed else time % count
        return View(self.root, place * room, self.shape, contiguous_strides(self.shape))

    def go_back(self, host: Host) -> None:
        """Have what is carried out of the first step be carried into it again."""
        if self.root.shape[0] > 1:
            host.copy(self.at(1), self.at(0))

    def all(self, first: int, last: int) -> View:
        """What is carried between two times, by slices."""
        count, room = self.root.shape
        start = count - last if self.is_reversed else first
        strides = (room, *contiguous_strides(self.shape))
        return View(self.root, start * room, (last - first, *self.shape), strides)


def _aliases(body: func.FuncOp) -> set[int]:
    """What is carried on in the memory that it was given in."""
    ends = [item.operation for item in body.entry_block.operations if item.operation.name == "plan.alias"]
    return {ir.IntegerAttr(item.attributes["result"]).value for item in ends}


def _room(type_: ir.RankedTensorType, start: int) -> int:
    """How many elements apart values of the last dimensions from `start` on are, to begin at multiples of 64 bytes."""
    size = element_bytes(type_.element_type)
    return max(1, -(-product(type_.shape[start:]) * size // ALIGNMENT)) * ALIGNMENT // size


def _as_it_is(view: View, host: Host) -> View:
    if view.is_placed:
        return view
    target = whole(host.new_root(list(view.shape), view.element_type))
    host.copy(view, target)
    return target


def _with_slices(view: View, value: ir.Value, host: Host) -> View:
    type_ = ir.RankedTensorType(value.type)
    if view.is_placed and product(type_.shape[1:]) == _room(type_, 1):
        return view
    target = _apart(type_, host)
    host.copy(view, target)
    return target


def _place_of_slices(value: ir.Value, host: Host) -> View:
    type_ = ir.RankedTensorType(value.type)
    if product(type_.shape[1:]) == _room(type_, 1):
        return whole(host.plain_root(value))
    return _apart(type_, host)


def _apart(type_: ir.RankedTensorType, host: Host) -> View:
    """Memory where each slice begins at a multiple of 64 bytes."""
    count, *rest = type_.shape
    room = _room(type_, 1)
    root = host.new_root([count, room], type_.element_type)
    return View(root, 0, (count, *rest), (room, *contiguous_strides(rest)))

"""Loads and stores of a row kernel: lanes of a flat memref at a position, whole or cut off at the end of a row.

Lanes beyond the end repeat the first one, so that nothing is computed on made-up data (a division by such a lane cannot
trap), and they are never stored.
"""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, vector
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.rows.layout import FlatBuffer, is_bool
from blu.passes.kernels.rows.scope import LanePosition


@dataclass(frozen=True)
class Consecutive:
    """An integer that grows by one from lane to lane; `base` is that of lane 0."""

    base: ir.Value


def widen(consecutive: Consecutive, position: LanePosition) -> ir.Value:
    """The vector of a Consecutive at the current insertion point."""
    type_ = vectors.vector_type(position.lanes, consecutive.base.type)
    steps = [lane if lane < position.count else 0 for lane in range(position.lanes)]
    attributes = [ir.IntegerAttr.get(consecutive.base.type, step) for step in steps]
    steps_value = arith.constant(type_, ir.DenseElementsAttr.get(attributes, type_))
    return arith.addi(vectors.splat(consecutive.base, position.lanes), steps_value)


def load_scalar(buffer: FlatBuffer, index: ir.Value) -> ir.Value:
    """One element of a buffer."""
    return from_storage(memref.load(buffer.flat, [index]), buffer.element)


def load_lanes(buffer: FlatBuffer, index: ir.Value, stride: int, position: LanePosition) -> ir.Value:
    """The lanes that start at element `index` and are `stride` elements apart."""
    if stride != 1:
        return load_each(buffer, [vectors.offset(index, lane * stride) for lane in range(position.count)], position)
    storage = ir.MemRefType(buffer.flat.type).element_type
    type_ = vectors.vector_type(position.lanes, storage)
    if position.full:
        return from_storage(vector.load(type_, buffer.flat, [index]), buffer.element)
    first = vectors.splat(memref.load(buffer.flat, [index]), position.lanes)
    mask = vectors.tail_mask(position.lanes, position.count)
    return from_storage(vector.maskedload(type_, buffer.flat, [index], mask, first), buffer.element)


def load_each(buffer: FlatBuffer, indices: list[ir.Value], position: LanePosition) -> ir.Value:
    """One scalar load for each present lane."""
    parts = [load_scalar(buffer, index) for index in indices]
    parts += [parts[0]] * (position.lanes - len(parts))
    return vector.from_elements(vectors.vector_type(position.lanes, buffer.element), parts)


def store_scalar(value: ir.Value, buffer: FlatBuffer, index: ir.Value) -> None:
    """Write one element of a buffer."""
    memref.store(to_storage(value, buffer.element), buffer.flat, [index])


def store_lanes(value: ir.Value, buffer: FlatBuffer, index: ir.Value, stride: int, position: LanePosition) -> None:
    """Store the present lanes from element `index` on, `stride` elements apart."""
    value = to_storage(value, buffer.element)
    if stride != 1:
        for lane in range(position.count):
            memref.store(vector.extract(value, [], [lane]), buffer.flat, [vectors.offset(index, lane * stride)])
    elif position.full:
        vector.store(value, buffer.flat, [index])
    else:
        vector.maskedstore(buffer.flat, [index], vectors.tail_mask(position.lanes, position.count), value)


def from_storage(stored: ir.Value, element: ir.Type) -> ir.Value:
    """What was read from memory, where a bool takes a byte, as numbers of `element`."""
    if not is_bool(element):
        return stored
    return arith.cmpi(arith.CmpIPredicate.ne, stored, vectors.constant(stored.type, 0))


def to_storage(value: ir.Value, element: ir.Type) -> ir.Value:
    """Numbers of `element` as they are in memory."""
    if not is_bool(element):
        return value
    byte = ir.IntegerType.get_signless(8)
    wide = vectors.vector_type(ir.VectorType(value.type).shape[0], byte) if vectors.is_vector(value) else byte
    return arith.extui(wide, value)

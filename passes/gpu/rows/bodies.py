"""Bodies of linalg ops in a row kernel for GPUs: as on CPUs, with wide loads and stores, and guards around stores."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, scf, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.isa import assembly
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.rows.bodies import BodyEmitter, Lane, position_of
from blu.passes.kernels.rows.lanes import Consecutive, from_storage, load_scalar, to_storage
from blu.passes.kernels.rows.layout import FlatBuffer
from blu.passes.kernels.rows.scope import LanePosition, Scope

WIDEST = 16
"""Bytes of the widest load or store."""


@dataclass
class GuardedScope(Scope):
    """A scope of which a thread may have no share: nothing is stored where `present` (an i1) is false."""

    present: ir.Value | None = None


class GpuBodies(BodyEmitter):
    """Emits bodies for one thread. Positions of its vectors are multiples of their lanes."""

    def __init__(self, program, layout, entry: Scope):
        super().__init__(program, layout, entry)
        self._counters: set[ir.Value] = set()

    @property
    def _lane_dim(self) -> int:
        """The dimension that vectors run along, where there are vectors."""
        assert self.layout.vector_dim is not None, "a vector without a dimension"
        return self.layout.vector_dim

    def _load(self, buffer: FlatBuffer, scopes: Sequence[Scope]) -> ir.Value:
        index, position = self.linear(buffer.strides, scopes), self._position(buffer, scopes)
        if position is None:
            value = load_scalar(buffer, index)
            self.homes[value] = scopes[-1]
            return value
        dim = self._lane_dim
        alignment = alignment_of(buffer, position.lanes, dim)
        return _load_lanes(buffer, index, buffer.strides[dim], position.lanes, alignment)

    def store(self, value: ir.Value, buffer: FlatBuffer, scopes: Sequence[Scope]) -> None:
        """Write a value of the group at the innermost scope, where it is present."""
        self.put(self.lookup(value, scopes), buffer, scopes)

    def put(self, emitted: Lane, buffer: FlatBuffer, scopes: Sequence[Scope]) -> None:
        """Write what has been emitted at the innermost scope, where that is present."""
        scope = scopes[-1]
        with scope.cursor.point:
            index, position = self.linear(buffer.strides, scopes), self._position(buffer, scopes)
            lanes = self.as_scalar(emitted) if position is None else self.as_vector(emitted, scopes)
            present = scope.present if isinstance(scope, GuardedScope) else None
            if present is None:
                self._write(lanes, buffer, index, position)
                return
            branch = scf.IfOp(present)
            with ir.InsertionPoint(branch.then_block):
                self._write(lanes, buffer, index, position)
                scf.yield_([])

    def _write(self, value: ir.Value, buffer: FlatBuffer, index: ir.Value, position: LanePosition | None) -> None:
        value = to_storage(value, buffer.element)
        if position is None:
            memref.store(value, buffer.flat, [index])
            return
        dim = self._lane_dim
        stride = buffer.strides[dim]
        if stride == 1:
            vector.store(value, buffer.flat, [index], alignment=alignment_of(buffer, position.lanes, dim))
            return
        for lane in range(position.lanes):
            memref.store(vector.extract(value, [], [lane]), buffer.flat, [vectors.offset(index, lane * stride)])

    def _loop_index(self, dim: int | None, scopes: Sequence[Scope]) -> Lane:
        index = super()._loop_index(dim, scopes)
        if isinstance(index, Consecutive):
            self._counters.add(index.base)
        return index

    def _gather(self, table: ir.Value, indices: list[Lane], scopes: Sequence[Scope]) -> ir.Value:
        """Neighbours in memory are one load: a row of a table, at columns that count as the lanes do."""
        flat, steps = self.inputs[table]
        position = position_of(scopes)
        varied = [(index, step) for index, step in zip(indices, steps, strict=True) if not _is_scalar(index)]
        counts = [index.base in self._counters for index, _ in varied if isinstance(index, Consecutive)]
        if position is None or len(varied) != 1 or counts != [True] or varied[0][1] != 1:
            return super()._gather(table, indices, scopes)
        start = self._place([(self.as_scalar(index), step) for index, step in zip(indices, steps, strict=True)])
        whole = FlatBuffer(flat.flat, flat.element, dict(enumerate(steps)))
        alignment = alignment_of(whole, position.lanes, list(steps).index(1))
        return _load_lanes(flat, start, 1, position.lanes, alignment)


def _is_scalar(index: Lane) -> bool:
    return isinstance(index, ir.Value) and not vectors.is_vector(index)


def element_bytes(element: ir.Type) -> int:
    """What an element takes in memory."""
    return 8 if isinstance(element, ir.IndexType) else max(1, element.width // 8)


def alignment_of(buffer: FlatBuffer, lanes: int, lane_dim: int) -> int:
    """The alignment in bytes of every vector along `lane_dim`, at most 16; buffers begin at multiples of 16."""
    _, offset = ir.MemRefType(buffer.flat.type).get_strides_and_offset()
    steps = [step for dim, step in buffer.strides.items() if dim != lane_dim]
    return gcd(WIDEST, element_bytes(buffer.element) * gcd(offset, lanes, *steps))


def _load_lanes(buffer: FlatBuffer, index: ir.Value, stride: int, lanes: int, alignment: int) -> ir.Value:
    if stride != 1:
        parts = [load_scalar(buffer, vectors.offset(index, lane * stride)) for lane in range(lanes)]
        return vector.from_elements(vectors.vector_type(lanes, buffer.element), parts)
    stored = vectors.vector_type(lanes, ir.MemRefType(buffer.flat.type).element_type)
    return from_storage(vector.load(stored, buffer.flat, [index], alignment=alignment), buffer.element)


def hide(value: ir.Value) -> ir.Value:
    """The same value, of which nothing is known: what was computed from it before has to be computed again.

    A row that stays in registers as it was read takes less of them than all that is made from it.
    """
    words = to_words(value)
    hidden = [assembly.hidden(word) for word in words]
    return from_words(hidden, value.type)


def to_words(value: ir.Value) -> list[ir.Value]:
    """The bits of a scalar or vector in i32 words; what is smaller than a word is extended."""
    if isinstance(value.type, ir.IndexType):
        value = arith.index_cast(ir.IntegerType.get_signless(64), value)
    bits = _bits(value.type)
    if bits % 32 == 0:
        if not vectors.is_vector(value):
            value = vector.broadcast(vectors.vector_type(1, value.type), value)
        packed = vector.bitcast(vectors.vector_type(bits // 32, numbers.i32()), value)
        return [vector.extract(packed, [], [number]) for number in range(bits // 32)]
    if vectors.is_vector(value):
        count = ir.VectorType(value.type).shape[0]
        return [word for lane in range(count) for word in to_words(vector.extract(value, [], [lane]))]
    integer = ir.IntegerType.get_signless(bits)
    return [arith.extui(numbers.i32(), value if value.type == integer else arith.bitcast(integer, value))]


def count_words(element: ir.Type, lanes: int) -> int:
    """How many words the bits of so many elements are."""
    width = 64 if isinstance(element, ir.IndexType) else element.width
    return lanes * max(1, width // 32) if width * lanes % 32 else width * lanes // 32


def from_words(words: Sequence[ir.Value], type_: ir.Type) -> ir.Value:
    """The value of a type whose bits `to_words` gave."""
    if isinstance(type_, ir.IndexType):
        return arith.index_cast(type_, from_words(words, ir.IntegerType.get_signless(64)))
    bits = _bits(type_)
    if bits % 32 == 0:
        packed = vector.from_elements(vectors.vector_type(len(words), numbers.i32()), list(words))
        if isinstance(type_, ir.VectorType):
            return vector.bitcast(type_, packed)
        return vector.extract(vector.bitcast(vectors.vector_type(1, type_), packed), [], [0])
    if isinstance(type_, ir.VectorType):
        return vector.from_elements(type_, [from_words([word], type_.element_type) for word in words])
    integer = ir.IntegerType.get_signless(bits)
    narrow = arith.trunci(integer, words[0])
    return narrow if type_ == integer else arith.bitcast(type_, narrow)


def _bits(type_: ir.Type) -> int:
    if isinstance(type_, ir.VectorType):
        return type_.shape[0] * _bits(type_.element_type)
    return type_.width

"""What the threads of a block know together of runs of equal rows, in shared memory (see add_runs.py)."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir, llvm, vector
from blu.passes.gpu import numbers
from blu.passes.gpu.rows.bodies import element_bytes
from blu.passes.kernels import lanes as vectors

SLOT = 8
"""Bytes of a row and a position."""


@dataclass(frozen=True)
class RunPlaces:
    """Rows and positions of neighbouring places in shared memory."""

    address: ir.Value

    def put(self, slot: ir.Value, row: ir.Value, position: ir.Value) -> None:
        pair = vector.from_elements(vectors.vector_type(2, numbers.i32()), [row, position])
        llvm.store(pair, self._at(slot), alignment=SLOT)

    def get(self, slot: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The row and the position."""
        pair = llvm.load(vectors.vector_type(2, numbers.i32()), self._at(slot), alignment=SLOT)
        return vector.extract(pair, [], [0]), vector.extract(pair, [], [1])

    def row(self, slot: ir.Value) -> ir.Value:
        return llvm.load(numbers.i32(), self._at(slot), alignment=SLOT)

    def _at(self, slot: ir.Value) -> ir.Value:
        return _pointer(numbers.add(self.address, numbers.multiply(slot, SLOT)))


@dataclass(frozen=True)
class RunSums:
    """A value of each thread in shared memory."""

    address: ir.Value
    type_: ir.Type
    alignment: int

    def put(self, thread: ir.Value, value: ir.Value) -> None:
        llvm.store(value, self._at(thread), alignment=self.alignment)

    def get(self, thread: ir.Value) -> ir.Value:
        return llvm.load(self.type_, self._at(thread), alignment=self.alignment)

    def _at(self, thread: ir.Value) -> ir.Value:
        lanes = self.type_.shape[0] if isinstance(self.type_, ir.VectorType) else 1
        element = self.type_.element_type if isinstance(self.type_, ir.VectorType) else self.type_
        return _pointer(numbers.add(self.address, numbers.multiply(thread, lanes * element_bytes(element))))


def _pointer(address: ir.Value) -> ir.Value:
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<3>"), address)

"""Results of a kernel of rows that are constants."""

from __future__ import annotations

from blu.dialects.core.mlir import func, ir
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, projection


def spell_out_fills(kernel: func.FuncOp) -> None:
    """A result that is a linalg.fill becomes a loop that yields the constant."""
    for operation in list(kernel.entry_block.operations):
        stored = operation.operation.name == "bufferization.materialize_in_destination"
        maker = operation.operation.operands[0].owner if stored else None
        if maker is None or isinstance(maker, ir.Block) or maker.operation.name != "linalg.fill":
            continue
        fill = maker.operation
        shape = list(fill.results[0].type.shape)
        with ir.InsertionPoint(operation), fill.location:
            kinds, maps = [PARALLEL] * len(shape), [projection(len(shape), range(len(shape)))]
            start = empty(shape, fill.results[0].type.element_type)
            operation.operation.operands[0] = generic([], [start], maps, kinds, lambda _, f=fill: f.operands[0])[0]

"""Splats in memory, for the kernels that read all their operands from buffers."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.loops.fuse.loops import is_inner_insertion, loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, projection, shape_of

# How many of an op's operands, from the first, must be in memory (the others are where a contraction starts from).
READ_FROM_MEMORY = {
    "linalg.contract": 2,
    "blu.scatter_add": 3,
    "blu.settle_rows": 5,
    "blu.argsort": 1,
    "blu.arg_top_k": 1,
    "tensor.insert_slice": 2,
}


def write_splats(block: ir.Block) -> None:
    """Fills that a matrix product, a scan or an update reads become loops, which are kernels of their own.

        %1 = linalg.fill ins(%c1)                                %1 = linalg.generic { linalg.yield %c1 }
        %2 = linalg.contract ins(%x, %1) outs(%zero)     ->      %2 = linalg.contract ins(%x, %1) outs(%zero)

    Elementwise kernels repeat a fill instead of reading it.
    """
    for operation in list(block.operations):
        operation = operation.operation
        if is_inner_insertion(operation):
            continue
        for index, value in enumerate(list(operation.operands)[: _count_in_memory(operation)]):
            if not isinstance(value.owner, ir.Block) and value.owner.name == "linalg.fill":
                with ir.InsertionPoint(operation), value.owner.location:
                    operation.operands[index] = _written(value)


def _count_in_memory(operation: ir.Operation) -> int:
    nest = loop_nest(operation, 0)
    return len(nest.inputs) if nest and nest.is_scan else READ_FROM_MEMORY.get(operation.name, 0)


def _written(splat: ir.Value) -> ir.Value:
    shape = shape_of(splat)
    scalar = splat.owner.operands[0]
    maps = [projection(len(shape), range(len(shape)))]
    return generic([], [empty(shape, scalar.type)], maps, [PARALLEL] * len(shape), lambda _: scalar)[0]

"""Functions of many slices: the bodies of functions that are declared as others done for each slice of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dataclass import dataclass
from blu.dialects.batching import Batched, Slices
from blu.dialects.core.dialect import YIELD
from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import attributes_of, body_blocks_of, operands_of, operation_class, value_type
from blu.dialects.core.remat import emitting_in_place_of
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass
from blu.passes.graph.decompose import decompose_operation

BATCH_OF = "blu.batch_of"
# Which arguments there is one of for each slice, how many slices there are, and which results are the same for all.
BATCHED = "blu.batched"
SIZE = "blu.batch_size"
SAME = "blu.same_results"


def write_batched(owner: Pass, declaration: func.FuncOp, primal: func.FuncOp) -> None:
    """Write the function that is done for all slices: each op by the rule of its class."""
    size = ir.IntegerAttr(declaration.attributes[SIZE]).value
    flags = list(ir.DenseI64ArrayAttr(declaration.attributes[BATCHED]))
    same = set(ir.DenseI64ArrayAttr(declaration.attributes[SAME]))
    _decompose_what_has_no_rule(primal)
    block = declaration.add_entry_block([argument.location for argument in primal.arguments])
    with ir.InsertionPoint(block), primal.operation.location:
        given = [Slices(Tensor(value), bool(flag)) for value, flag in zip(block.arguments, flags, strict=True)]
        walk = BatchedWalk(owner, size)
        found = walk.run(primal.entry_block, given)
        for place in same:
            if found[place].is_batched:
                advice = "Let out_axes say where its slices go, or reduce over them in another way."
                message = f"vmap: result {place} has out_axes None, and is another for each slice"
                owner.fail(declaration, message, advice=advice)
        results = [item.tensor if place in same else walk.each(item) for place, item in enumerate(found)]
        func.ReturnOp([item.value for item in results])
    for name in (BATCH_OF, BATCHED, SIZE, SAME):
        del declaration.attributes[name]
    owner.count("batches")


def _decompose_what_has_no_rule(primal: func.FuncOp) -> None:
    """Composite ops without a rule are done as what they are made of."""
    while found := [item for item in operations_in(primal.operation) if _is_opaque(item)]:
        for operation in reversed(found):
            decompose_operation(operation)


def _is_opaque(operation: ir.Operation) -> bool:
    cls = operation_class(operation)
    return cls is not None and cls.batch is None and cls.decompose is not None


@dataclass(frozen=True)
class BatchedWalk:
    """A walk through a block that writes it for all slices at the insertion point."""

    owner: Pass
    size: int

    def each(self, item: Slices) -> Tensor:
        """A value with all slices along its first dimension."""
        if item.is_batched:
            return item.tensor
        return item.tensor.reshape((1, *item.shape)).broadcast_to((self.size, *item.shape))

    def run(self, block: ir.Block, arguments: Sequence[Slices]) -> list[Slices]:
        """What the block ends in."""
        values = dict(zip(block.arguments, arguments, strict=True))
        for operation in (item.operation for item in block.operations):
            if operation.name in ("func.return", YIELD):
                return [values[value] for value in operation.operands]
            if any(values[operand].is_batched for operand in operation.operands):
                results = [Slices(tensor, True) for tensor in self._batched(operation, values)]
            else:
                results = [Slices(Tensor(value), False) for value in _copied(operation, values).results]
            values.update(zip(operation.results, results, strict=True))
        raise AssertionError("a function ends in a return, and a body in a yield")

    def _batched(self, operation: ir.Operation, values: Mapping[ir.Value, Slices]) -> Sequence[Tensor]:
        cls = operation_class(operation)
        if cls is None or cls.batch is None:
            advice = "Give its class a rule (batch), or call it outside of what blu.vmap is given."
            self.owner.fail(operation, f"vmap: {operation.name} has no rule for many slices at once", advice=advice)
        bodies = {name: _Body(self, block) for name, block in body_blocks_of(operation).items()}
        operands = [on_operand(values.__getitem__, item) for item in operands_of(operation)]
        types = tuple(map(value_type, operation.results))
        with emitting_in_place_of(operation):
            return cls.batch(Batched(cls, self.size, operands, attributes_of(operation), types, bodies))


@dataclass(frozen=True)
class _Body:
    """A body for all slices."""

    walk: BatchedWalk
    block: ir.Block

    def __call__(self, *arguments: Slices) -> list[Tensor]:
        return [self.walk.each(item) for item in self.walk.run(self.block, arguments)]


def _copied(operation: ir.Operation, values: Mapping[ir.Value, Slices]) -> ir.Operation:
    clone = operation.clone()
    for index, operand in enumerate(operation.operands):
        clone.operands[index] = values[operand].tensor.value
    return clone

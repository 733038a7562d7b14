"""Re-emit the scalar body of a linalg.generic inside a kernel, with vectors or with scalars.

A body value becomes a `vector<lanes x T>`, or stays a scalar where everything it depends on is one (a bias that is the
same for all lanes, a constant): such a value is computed once and broadcast where it meets a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dialects.core.mlir import ir
from blu.passes.kernels import lanes as vectors

Gather = Callable[[ir.Operation, list[ir.Value]], ir.Value]


def inline_vector(
    block: ir.Block,
    arguments: Sequence[ir.Value],
    lanes: int,
    indices: Sequence[ir.Value] = (),
    gather: Gather | None = None,
) -> list[ir.Value]:
    """Emit `block` at the current insertion point for `lanes` elements at once; returns what it yields, as vectors.

    `arguments` holds one value per block argument (vector of `lanes`, or scalar for all lanes alike), `indices` one
    index value per loop of the generic (for the vectorised loop: see `lanes.lane_indices`). `gather(op, indices)`
    emits the load that stands for a tensor.extract; its index operands come re-emitted, each scalar or vector.
    """
    return [vectors.splat(value, lanes) for value in _Inliner(block, arguments, lanes, indices, gather).run()]


def inline_scalar(
    block: ir.Block, arguments: Sequence[ir.Value], indices: Sequence[ir.Value] = (), gather: Gather | None = None
) -> list[ir.Value]:
    """The same for one element: all values are scalars."""
    return _Inliner(block, arguments, 1, indices, gather).run()


class _Inliner:
    """One walk over a body: `values` maps what the body names to what has been emitted."""

    def __init__(
        self,
        block: ir.Block,
        arguments: Sequence[ir.Value],
        lanes: int,
        indices: Sequence[ir.Value],
        gather: Gather | None,
    ):
        assert len(arguments) == len(block.arguments), f"{len(arguments)} values for {len(block.arguments)} arguments"
        self.block = block
        self.lanes = lanes
        self.indices = indices
        self.gather = gather
        self.values: dict[ir.Value, ir.Value] = dict(zip(block.arguments, arguments, strict=True))

    def run(self) -> list[ir.Value]:
        for operation in self.block.operations:
            operation = operation.operation
            if operation.name == "linalg.yield":
                return [self.value(operand) for operand in operation.operands]
            self.emit(operation)
        raise AssertionError("a linalg body without linalg.yield")

    def value(self, original: ir.Value) -> ir.Value:
        """What stands for a value of the body; constants from outside of it are emitted again."""
        if original not in self.values:
            owner = original.owner
            outside = isinstance(owner, ir.Operation | ir.OpView) and owner.operation.name == "arith.constant"
            assert outside, f"a linalg body uses {original} from outside, which is not a constant"
            self.emit(owner.operation)
        return self.values[original]

    def emit(self, operation: ir.Operation) -> None:
        """Emit one operation of the body and record its results."""
        if operation.name == "linalg.index":
            self.values[operation.results[0]] = self.indices[operation.attributes["dim"].value]
            return
        operands = [self.value(operand) for operand in operation.operands if not _is_tensor(operand)]
        if operation.name == "arith.extf" and _element_of(operands[0]) == operation.results[0].type:
            self.values[operation.results[0]] = operands[0]  # given in more bits
            return
        if operation.name == "tensor.extract":
            assert self.gather, "a linalg body gathers, but the kernel emitter gave no way to do it"
            self.values[operation.results[0]] = self.gather(operation, operands)
            return
        emitted = clone_operation(operation, operands)
        self.values.update(zip(operation.results, emitted.results, strict=True))


def _element_of(value: ir.Value) -> ir.Type:
    return ir.VectorType(value.type).element_type if vectors.is_vector(value) else value.type


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


def clone_operation(operation: ir.Operation, operands: Sequence[ir.Value]) -> ir.Operation:
    """The same operation on other operands; on vectors as soon as one of them is a vector."""
    types = [result.type for result in operation.results]
    lanes = next((ir.VectorType(value.type).shape[0] for value in operands if vectors.is_vector(value)), None)
    if lanes is not None:
        operands = [vectors.splat(value, lanes) for value in operands]
        types = [vectors.vector_type(lanes, type_) for type_ in types]
    attributes = {name: operation.attributes[name] for name in operation.attributes}
    return ir.Operation.create(
        operation.name, results=types, operands=operands, attributes=attributes, loc=operation.location
    )

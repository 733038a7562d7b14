"""A kernel as the emitters receive it (linalg on tensors between memrefs), and the func they put in its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from blu.dialects.mlir import func, ir, scf
from blu.passes.cpu import lanes as vectors


@dataclass(frozen=True)
class KernelBody:
    """What a kernel computes: `buffers` maps input tensors to memrefs, `outputs` pairs result tensors with memrefs.

    The memrefs are arguments of the func `replacement`, whose grid of blocks is still empty.
    """

    function: func.FuncOp
    replacement: func.FuncOp
    buffers: dict[ir.Value, ir.Value]
    outputs: list[tuple[ir.Value, ir.Value]]

    @property
    def operations(self) -> list[ir.Operation]:
        """The operations on tensors, in order, without constants and the edges to memrefs."""
        edges = ("bufferization.", "func.return", "arith.constant", "tensor.empty")
        return [op.operation for op in self.function.body.blocks[0] if not op.operation.name.startswith(edges)]

    @property
    def scratch(self) -> list[ir.Value]:
        """The buffers that ReserveScratch asked for: the last arguments before the range of blocks."""
        attributes = self.replacement.operation.attributes
        count = len(ir.ArrayAttr(attributes["blu.scratch"])) if "blu.scratch" in attributes else 0
        arguments = list(self.replacement.arguments)[:-2]
        return arguments[len(arguments) - count :]

    @contextmanager
    def grid(self, blocks: int, chunk: int = 1) -> Iterator[ir.Value]:
        """Fill the replacement: inside, operations are emitted for the yielded block index. Erases the old func."""
        i64 = ir.IntegerType.get_signless(64)
        attributes = self.replacement.operation.attributes
        attributes["blu.blocks"] = ir.IntegerAttr.get(i64, blocks)
        attributes["blu.chunk"] = ir.IntegerAttr.get(i64, chunk)
        *_, begin, end = self.replacement.arguments
        entry = self.replacement.body.blocks[0]
        with ir.InsertionPoint(entry):
            loop = scf.ForOp(begin, end, vectors.index(1))
            func.return_([])
        with ir.InsertionPoint(loop.body):
            yield loop.induction_variable
            scf.yield_([])
        self.function.operation.erase()


def open_kernel(function: func.FuncOp) -> KernelBody:
    """Read a kernel, and create beside it the func with the two extra arguments `begin` and `end`."""
    index = ir.IndexType.get()
    types = [*function.type.inputs, index, index]
    with ir.InsertionPoint(function.operation), function.operation.location:
        replacement = func.FuncOp(function.name.value, ir.FunctionType.get(types, []))
    for name in function.operation.attributes:
        if name not in ("sym_name", "function_type"):
            replacement.operation.attributes[name] = function.operation.attributes[name]
    replacement.add_entry_block([function.operation.location] * len(types))
    memrefs = dict(zip(function.arguments, replacement.arguments, strict=False))
    buffers, outputs = {}, []
    for operation in function.body.blocks[0]:
        operands = operation.operation.operands
        if operation.operation.name == "bufferization.to_tensor":
            buffers[operation.operation.results[0]] = memrefs[operands[0]]
        elif operation.operation.name == "bufferization.materialize_in_destination":
            outputs.append((operands[0], memrefs[operands[1]]))
    return KernelBody(function, replacement, buffers, outputs)


@contextmanager
def scratch_scope(replacement: func.FuncOp) -> Iterator[None]:
    """Emit at the start of the func, before the grid: the place for memref.alloca and constants."""
    with ir.InsertionPoint.at_block_begin(replacement.body.blocks[0]):
        yield


@contextmanager
def for_range(
    begin: ir.Value | int, end: ir.Value | int, step: int = 1, carried: list[ir.Value] | None = None
) -> Iterator[scf.ForOp]:
    """An scf.for from `begin` to `end`; with `carried` values the caller ends the body by scf.yield_."""
    bounds = [value if isinstance(value, ir.Value) else vectors.index(value) for value in (begin, end, step)]
    loop = scf.ForOp(*bounds, carried or [])
    with ir.InsertionPoint(loop.body):
        yield loop
        if carried is None:
            scf.yield_([])

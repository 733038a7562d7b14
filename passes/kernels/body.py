"""A kernel as the emitters receive it (linalg on tensors between memrefs), and the func they put in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.passes.framework.families import SCRATCH, WRITTEN_OVER


@dataclass(frozen=True)
class Kernel:
    """What a kernel computes: `buffers` maps input tensors to memrefs, `outputs` pairs result tensors with memrefs.

    The memrefs are arguments of the func `replacement`, which is still empty.
    """

    function: func.FuncOp
    replacement: func.FuncOp
    buffers: dict[ir.Value, ir.Value]
    outputs: list[tuple[ir.Value, ir.Value]]

    @classmethod
    def open(cls, function: func.FuncOp, more_arguments: Sequence[ir.Type] = (), name: str = "") -> Self:
        """Read a kernel, and create before it the func for its code, with more arguments at the end."""
        types = [*function.type.inputs, *more_arguments]
        with ir.InsertionPoint(function.operation), function.operation.location:
            replacement = func.FuncOp(name or function.name.value, ir.FunctionType.get(types, []))
        for attribute in function.operation.attributes:
            if attribute not in ("sym_name", "function_type"):
                replacement.operation.attributes[attribute] = function.operation.attributes[attribute]
        replacement.add_entry_block([function.operation.location] * len(types))
        return cls._between(function, replacement)

    @classmethod
    def read(cls, function: func.FuncOp) -> Self:
        """The same of a kernel for which no code is written: its own memrefs."""
        return cls._between(function, function)

    @classmethod
    def _between(cls, function: func.FuncOp, replacement: func.FuncOp) -> Self:
        memrefs = dict(zip(function.arguments, replacement.arguments, strict=False))
        buffers, outputs = {}, []
        for operation in function.body.blocks[0]:
            operands = operation.operation.operands
            if operation.operation.name == "bufferization.to_tensor":
                buffers[operation.operation.results[0]] = memrefs[operands[0]]
            elif operation.operation.name == "bufferization.materialize_in_destination":
                outputs.append((operands[0], memrefs[operands[1]]))
        return cls(function, replacement, buffers, outputs)

    @property
    def operations(self) -> list[ir.Operation]:
        """The operations on tensors, in order, without constants and the edges to memrefs."""
        edges = ("bufferization.", "func.return", "arith.constant", "tensor.empty")
        return [op.operation for op in self.function.body.blocks[0] if not op.operation.name.startswith(edges)]

    @property
    def written_over(self) -> set[ir.Value]:
        """The results that are written over what the kernel reads: all of that is to be read before."""
        attributes = self.replacement.operation.attributes
        numbers = ir.DenseI64ArrayAttr(attributes[WRITTEN_OVER]) if WRITTEN_OVER in attributes else ()
        read = set(self.buffers.values())
        return {value for value, memref in self.outputs if memref in read} | {self.outputs[n][0] for n in numbers}

    @property
    def scratch(self) -> list[ir.Value]:
        """The buffers that ReserveScratch asked for: the last arguments that the kernel was read with."""
        attributes = self.replacement.operation.attributes
        count = len(ir.ArrayAttr(attributes[SCRATCH])) if SCRATCH in attributes else 0
        arguments = list(self.replacement.arguments)[: len(self.function.arguments)]
        return arguments[len(arguments) - count :]

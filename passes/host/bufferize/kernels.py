"""Kernels over buffers: a tensor-level kernel with the memory layouts of one call fixed, merged with its equals."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import bufferization, func, ir, tensor
from blu.dialects.core.modules import code_text
from blu.passes.framework.families import (
    MAKES_ROWS,
    ROWS,
    SCHEDULE,
    SCRATCH,
    UNTUNED,
    WRITTEN_OVER,
    Family,
    family_of,
    mark,
)
from blu.passes.host.bufferize.in_place import KernelAnswers, walks_again
from blu.passes.host.bufferize.views import View
from blu.passes.loops.fuse.fuse import clone_into
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, fill, generic, projection

# What a kernel on buffers says as the kernel on tensors does. Where two say it differently, they are not equal.
_SAID = (SCRATCH, SCHEDULE, UNTUNED, MAKES_ROWS)


@dataclass(frozen=True)
class KernelMemory:
    """The memory of a call: types of memrefs, and which of them are one.

    `in_place` are the inputs that are changed, each with the output whose memory it has. `written_over` are the outputs
    that the kernel writes over what else it reads, where it matters in which order it does that.
    """

    inputs: tuple[ir.Type, ...]
    outputs: tuple[ir.Type, ...]
    in_place: tuple[tuple[int, int], ...] = ()
    written_over: tuple[int, ...] = ()


@dataclass
class KernelTable:
    """All kernels of a module by their text, so that equal ones are kept once."""

    module: ir.Module
    by_text: dict[str, str] = field(default_factory=dict)
    # Names of kernels by what they were specialised from and for.
    by_types: dict[tuple, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def specialise(self, kernel: func.FuncOp, memory: KernelMemory) -> str:
        """The name of the kernel with this memory."""
        key = (kernel.name.value, memory)
        if key not in self.by_types:
            self.by_types[key] = self._specialise(kernel, memory)
        return self.by_types[key]

    def _specialise(self, kernel: func.FuncOp, memory: KernelMemory) -> str:
        outputs, in_place = memory.outputs, dict(memory.in_place)
        read = [type_ for index, type_ in enumerate(memory.inputs) if index not in in_place]
        family = family_of(kernel)
        function, block = self._open(family, [*read, *outputs, *scratch_types(kernel)], kernel.operation.location)
        for name in _SAID:
            if name in kernel.attributes:
                function.attributes[name] = kernel.attributes[name]
        if memory.written_over:
            function.attributes[WRITTEN_OVER] = ir.DenseI64ArrayAttr.get(memory.written_over)
        with ir.InsertionPoint(block), kernel.operation.location:
            arguments = iter(block.arguments)
            results = list(block.arguments)[len(read) : len(read) + len(outputs)]
            values = {}
            for index, argument in enumerate(kernel.arguments):
                buffer = results[in_place[index]] if index in in_place else next(arguments)
                values[argument] = to_tensor(buffer, argument.type, writable=index in in_place)
            self._fill(kernel, values, results)
        return self._keep_if_unseen(function, family.name)

    def _fill(self, kernel: func.FuncOp, values: dict[ir.Value, ir.Value], results: Sequence[ir.Value]) -> None:
        operations = [operation.operation for operation in kernel.entry_block.operations]
        for operation in operations[:-1]:
            clone_into(operation, values)
        for value, memory in zip(operations[-1].operands, results, strict=True):
            materialize(values[value], memory)
        func.ReturnOp([])

    def copy(self, source: ir.Type, target: ir.Type, location: ir.Location) -> str:
        """The name of a kernel that copies between two layouts."""
        function, block = self._open(ROWS, [source, target], location)
        shape, element = ir.MemRefType(source).shape, ir.MemRefType(source).element_type
        with ir.InsertionPoint(block), location:
            value = to_tensor(block.arguments[0], ir.RankedTensorType.get(shape, element))
            empty = tensor.EmptyOp(list(shape), element).result
            maps = [projection(len(shape), range(len(shape)))] * 2
            (moved,) = generic([value], [empty], maps, [PARALLEL] * len(shape), lambda element, _: element)
            materialize(moved, block.arguments[1])
            func.ReturnOp([])
        return self._keep_if_unseen(function, "copy")

    def fill(self, constant: ir.Operation, target: ir.Type, location: ir.Location) -> str:
        """The name of a kernel that writes one scalar constant everywhere."""
        function, block = self._open(ROWS, [target], location)
        shape = ir.MemRefType(target).shape
        with ir.InsertionPoint(block), location:
            scalar = constant.clone().results[0]
            materialize(fill(scalar, shape), block.arguments[0])
            func.ReturnOp([])
        return self._keep_if_unseen(function, "fill")

    def _open(self, family: Family, types: Sequence[ir.Type], location: ir.Location) -> tuple[func.FuncOp, ir.Block]:
        with ir.InsertionPoint(self.module.body), location:
            function = func.FuncOp("kernel", (list(types), []), visibility="private")
            mark(function, family)
            return function, function.add_entry_block([location] * len(types))

    def _keep_if_unseen(self, function: func.FuncOp, prefix: str) -> str:
        text = code_text(function)
        if text in self.by_text:
            function.operation.erase()
            return self.by_text[text]
        number = self.counts.get(prefix, 0)
        name = f"{prefix}_{number}"
        self.counts[prefix] = number + 1
        self.by_text[text] = name
        function.attributes["sym_name"] = ir.StringAttr.get(name)
        return name


def to_tensor(memory: ir.Value, type_: ir.Type, *, writable: bool = False) -> ir.Value:
    """The tensor that is in a buffer."""
    operation = bufferization.ToTensorOp(type_, memory, restrict=True)
    if writable:
        operation.operation.attributes["writable"] = ir.UnitAttr.get()
    return operation.result


def materialize(value: ir.Value, memory: ir.Value) -> None:
    """Write a tensor into a buffer."""
    bufferization.MaterializeInDestinationOp(None, value, memory, restrict=True, writable=True)


def scratch_types(kernel: func.FuncOp) -> list[ir.Type]:
    """The memrefs that a kernel takes beside inputs and outputs."""
    if SCRATCH not in kernel.attributes:
        return []
    return [ir.TypeAttr(item).value for item in ir.ArrayAttr(kernel.attributes[SCRATCH])]


def updated_inputs(kernel: func.FuncOp) -> dict[int, int]:
    """The arguments that a kernel writes into, by number, each with the result that it becomes."""
    name, operand = family_of(kernel).updates or ("", 0)
    *operations, end = (item.operation for item in kernel.entry_block.operations)
    updates = [operation for operation in operations if operation.name == name]
    arguments, results = list(kernel.arguments), list(end.operands)
    return {arguments.index(item.operands[operand]): results.index(item.results[0]) for item in updates}


def written_over(
    kernel: func.FuncOp, inputs: Sequence[View], outputs: Sequence[View], facts: KernelAnswers
) -> tuple[int, ...]:
    """The outputs that are donated arguments, which the kernel reads in another walk than that in which it writes."""
    if not facts.ask(walks_again, kernel):
        return ()
    read = {view.root for view in inputs if view.root.input is not None}
    return tuple(number for number, view in enumerate(outputs) if view.root in read)

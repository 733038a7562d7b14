"""The body of a scan (see lower_to_linalg/scan.py) taken apart, so that its parts may run in another order.

    ^bb0(%element: f16, %before: f32, %_: f16):
      %term = arith.extf %element            what an element brings: `lift`
      %after = arith.addf %before, %term     how that joins what is carried: `combine`, which is associative
      %rounded = arith.truncf %after         what is written: `finish`
      linalg.yield %after, %rounded

Parts are emitted on scalars or on vectors. `combine` never gets more than what `lift` or itself has given, so that a
scan may begin anywhere in a row and needs no value that changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, memref
from blu.dialects.core.modules import end_of
from blu.errors import PassError
from blu.passes.kernels.inline import clone_operation
from blu.passes.loops.fuse.loops import LoopNest, loop_nest

Values = dict[ir.Value, ir.Value]


@dataclass(frozen=True)
class ScanBody:
    """What a scan does at each step. Lists of values have one for each that is carried, or for each result."""

    nest: LoopNest

    @classmethod
    def of(cls, kernel: func.FuncOp) -> ScanBody:
        """The scan of a kernel. PassError where its parts cannot be told apart."""
        for item in kernel.entry_block.operations:
            nest = loop_nest(item.operation, 0)
            if nest is not None and nest.is_scan:
                return cls(nest)._checked()
        raise AssertionError("a kernel of the family 'scan' holds a scan")

    def _checked(self) -> ScanBody:
        if len(self.terms) != len(self._before) or not all(map(self._is_finished, self._written)):
            raise PassError(
                f"a scan carries {len(self._before)} values, its elements bring {len(self.terms)}, or it writes others",
                advice="What is carried joins something that does not depend on it; what is written is made of that.",
            )
        return self

    def read_starts(self, buffers: Mapping[ir.Value, ir.Value], row: Sequence[ir.Value]) -> list[ir.Value]:
        """Emit what is carried into a row: scalars, from memory or the same for all rows."""
        values = []
        for tensor in self.starts:
            if tensor in buffers:
                values.append(memref.load(buffers[tensor], list(row)))
            else:
                scalar = tensor.owner.operation.operands[0]
                values.append(arith.constant(scalar.type, scalar.owner.operation.attributes["value"]))
        return values

    @property
    def block(self) -> ir.Block:
        return self.nest.operation.regions[0].blocks[0]

    @cached_property
    def carried(self) -> list[int]:
        """The numbers of the results that are carried, and not written at every step."""
        rows = tuple(range(len(self.nest.sizes) - 1))
        kept = self.nest.dims[len(self.nest.inputs) :]
        return [number for number, dims in enumerate(kept) if dims == rows]

    @cached_property
    def written(self) -> list[int]:
        """The numbers of the results that have an element for each step."""
        return [number for number in range(len(self.nest.outputs)) if number not in self.carried]

    @property
    def types(self) -> list[ir.Type]:
        """What is carried."""
        return [value.type for value in self._before]

    @property
    def starts(self) -> list[ir.Value]:
        """The tensors that hold what is carried into each row."""
        return [self.nest.outputs[number] for number in self.carried]

    @cached_property
    def terms(self) -> list[ir.Value]:
        """What the elements bring, in the order of what it joins."""
        found: dict[ir.Value, None] = {}
        waiting = list(reversed(self._after))
        while waiting:
            value = waiting.pop()
            if self._depends(value):
                operands = () if value in self._before else value.owner.operation.operands
                waiting.extend(reversed(list(operands)))
            elif not _is_constant(value):
                found[value] = None
        return list(found)

    def lift(self, elements: Sequence[ir.Value], indices: Sequence[ir.Value]) -> list[ir.Value]:
        """What elements bring; `indices` are those of the loops."""
        known: Values = dict(zip(self.block.arguments, elements, strict=False))
        for item in self.block.operations:
            if item.operation.name == "linalg.index":
                known[item.operation.results[0]] = indices[item.operation.attributes["dim"].value]
        return [_emitted(value, known) for value in self.terms]

    def combine(self, before: Sequence[ir.Value], after: Sequence[ir.Value]) -> list[ir.Value]:
        """What two neighbouring parts of a row have come to together."""
        known: Values = {**dict(zip(self._before, before, strict=True)), **dict(zip(self.terms, after, strict=True))}
        return [_emitted(value, known) for value in self._after]

    def finish(self, totals: Sequence[ir.Value]) -> list[ir.Value]:
        """What is written where this is what has been come to."""
        known: Values = dict(zip(self._after, totals, strict=True))
        return [_emitted(value, known) for value in self._written]

    @cached_property
    def _before(self) -> list[ir.Value]:
        arguments = list(self.block.arguments)[len(self.nest.inputs) :]
        return [arguments[number] for number in self.carried]

    @cached_property
    def _after(self) -> list[ir.Value]:
        return [self._yielded[number] for number in self.carried]

    @cached_property
    def _written(self) -> list[ir.Value]:
        return [self._yielded[number] for number in self.written]

    @cached_property
    def _yielded(self) -> list[ir.Value]:
        return list(end_of(self.block).operands)

    @cached_property
    def _dependent(self) -> set[ir.Value]:
        found = set(self._before)
        for item in self.block.operations:
            if any(operand in found for operand in item.operation.operands):
                found.update(item.operation.results)
        return found

    def _depends(self, value: ir.Value) -> bool:
        """Whether a value of the body depends on what is carried."""
        return value in self._dependent

    def _is_finished(self, value: ir.Value) -> bool:
        """Whether a value is computed from nothing but what is carried on."""
        if value in self._after or _is_constant(value):
            return True
        return not isinstance(value.owner, ir.Block) and all(
            self._is_finished(operand) for operand in value.owner.operation.operands
        )


def _is_constant(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"


def _emitted(value: ir.Value, known: Values) -> ir.Value:
    """A value of the body, emitted with all it needs that is not known yet."""
    if value not in known:
        operation = value.owner.operation
        operands = [_emitted(operand, known) for operand in operation.operands]
        known.update(zip(operation.results, clone_operation(operation, operands).results, strict=True))
    return known[value]

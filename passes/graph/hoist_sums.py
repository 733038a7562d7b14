"""The pass that forms after a loop what the loop only adds up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, body_blocks_of, emitting_at, operands_of, value_type
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find
from blu.passes.framework.bodies import blocks_of
from blu.passes.graph.simplify.rules import Site, emit, made_by

_LINEAR = ("transpose", "reshape", "convert")
"""Ops of shares that are as well done with their sum."""
Make = Callable[[], Tensor]


@dataclass(frozen=True)
class HoistSums(Pass):
    """Sums over all steps of a loop of products of slices that are in memory anyway are one product after the loop.

        %w, %ys = "blu.scan"(%w0, %xs) ({
        ^bb0(%sum, %x):  ...  %t = "blu.transpose"(%x)  %p = "blu.matmul"(%t, %y)  %n = "blu.add"(%sum, %p)
          "blu.yield"(%n, %y)
        })

    becomes, where %x and %y have rows of k numbers and there are l steps,

        %ys = "blu.scan"(%xs) (...)
        %x = "blu.reshape"(%xs) {shape = [l * k, m]}  %y = "blu.reshape"(%ys) {shape = [l * k, n]}
        %p = "blu.matmul"("blu.transpose"(%x), %y)  %w = "blu.add"(%w0, %p)

    So are sums of such slices along dimensions. A recurrent layer's gradients of weights are those of its steps, which
    have a few rows each: a step wrote the whole product, and read and wrote the sum. Results change by rounding only.
    What is left in the loop and read by no one, `TrimLoops` takes away.
    """

    level = "blu"

    def run(self, module: ir.Module) -> None:
        for block in [block for function in find(module, func.FuncOp) for block in blocks_of(function)]:
            operations = [item.operation for item in block.operations]
            for operation, following in pairwise(operations):
                if operation.name == "blu.scan":
                    self._hoist(_Loop(operation), following)

    def _hoist(self, loop: _Loop, following: ir.Operation) -> None:
        """Put sums in front of the op that follows a loop."""
        for place, start in enumerate(loop.carry):
            result = loop.operation.results[place]
            total = loop.total(place) if _is_read(result) else None
            if total is not None:
                with ir.InsertionPoint(following), emitting_at(loop.operation.location):
                    result.replace_all_uses_with((Tensor(start) + total()).value)
                self.count("sums")


class _Loop:
    """A scan, and which values of its body have their slices of all steps in memory."""

    def __init__(self, operation: ir.Operation):
        self.operation = operation
        self.carry, xs, _ = operands_of(operation)
        self.length = attributes_of(operation)["length"]
        block = body_blocks_of(operation)["body"]
        count = len(self.carry)
        self._arguments = list(block.arguments)
        self._given = list(list(block.operations)[-1].operation.operands)
        self._stacks = dict(zip(self._arguments[count:], xs, strict=False))
        results = list(operation.results)[count:]
        self._stacks |= {
            slices: stack for slices, stack in zip(self._given[count:], results, strict=True) if _is_read(stack)
        }

    def total(self, place: int) -> Make | None:
        """What the steps add to what is carried there; None where they do anything else, or lack slices for it."""
        argument, added = self._arguments[place], made_by(self._given[place], "add")
        if added is None or argument not in added.operands or not added.type.dtype.is_float:
            return None
        if any(len(list(value.uses)) != 1 for value in (argument, self._given[place])):
            return None
        (share,) = (value for value in added.operands if value != argument)
        return self._sum_of(share) if value_type(share) == value_type(argument) else None

    def _sum_of(self, share: ir.Value) -> Make | None:
        """The sum of a value of the body over all steps."""
        site = None if isinstance(share.owner, ir.Block) else Site(share.owner)
        if site is None:
            return None
        if site.name in _LINEAR and site.source_type.dtype.is_float:
            inner = self._sum_of(site.operands[0])
            return inner and (lambda: Tensor(emit(site.name, inner().value, **site.attributes)))
        rules = {"matmul": self._product, "sum": self._reduction}
        return rules[site.name](site) if site.name in rules else None

    def _product(self, site: Site) -> Make | None:
        """The sum of products x^T y of rows."""
        turned = made_by(site.operands[0], "transpose")
        if turned is None or len(turned.type.shape) != 2 or len(value_type(site.operands[1]).shape) != 2:
            return None
        left, right = (self._rows(value) for value in (turned.operands[0], site.operands[1]))
        if left is None or right is None:
            return None
        return lambda: Tensor(emit("matmul", left().swapaxes(0, 1).value, right().value, **site.attributes))

    def _rows(self, value: ir.Value) -> Make | None:
        """The rows of a value in all steps, one below the other."""
        stack, (rows, width) = self._stack(value), value_type(value).shape
        return stack and (lambda: stack().reshape(self.length * rows, width))

    def _reduction(self, site: Site) -> Make | None:
        stack, type_ = self._stack(site.operands[0]), site.type
        axes = (0, *(axis + 1 for axis in site.attributes["axes"]))
        return stack and (lambda: Tensor(emit("sum", stack().value, axes=axes, keepdims=False)).reshape(*type_.shape))

    def _stack(self, value: ir.Value) -> Make | None:
        """The slices of a value in all steps, where they are in memory, or some of the same elements are."""
        if value in self._stacks:
            return lambda: Tensor(self._stacks[value])
        site = made_by(value, "reshape")
        inner = self._stack(site.operands[0]) if site else None
        return inner and (lambda: inner().reshape(self.length, *value_type(value).shape))


def _is_read(value: ir.Value) -> bool:
    return bool(list(value.uses))

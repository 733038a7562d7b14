"""The pass that forms after a loop what the loop only adds up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import f16
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import end_of
from blu.dialects.core.op import attributes_of, body_blocks_of, emitting_at, operands_of, value_type
from blu.dialects.core.regions import copy_block
from blu.dialects.ops.control.scan import Scan
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

    Slices that are smaller than such a product are kept for it, where they are no more than what the loop walks along.
    So are sums of slices in memory along dimensions. A recurrent layer's gradients of weights are those of its steps,
    which have a few rows each: a step wrote the whole product, and read and wrote the sum. Results change by rounding
    only. What is left in the loop and read by no one, `TrimLoops` takes away.
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
        totals = loop.totals()
        loop.widen()
        for place, total in totals.items():
            with ir.InsertionPoint(following), emitting_at(loop.operation.location):
                value = (Tensor(loop.carry[place]) + total()).value
            loop.operation.results[place].replace_all_uses_with(value)
            self.count("sums")


class _Loop:
    """A scan, and which values of its body have their slices of all steps in memory."""

    def __init__(self, operation: ir.Operation):
        self.operation = operation
        self.carry, self._xs, self._captured = operands_of(operation)
        self.length = attributes_of(operation)["length"]
        self._block = body_blocks_of(operation)["body"]
        count = len(self.carry)
        self._arguments = list(self._block.arguments)
        self._given = list(end_of(self._block).operands)
        # By values of the body: what has the slices of all steps. What is missing comes when the loop gives it as well.
        self._stacks = dict(zip(self._arguments[count:], self._xs, strict=False))
        results = zip(self._given[count:], list(operation.results)[count:], strict=True)
        self._stacks |= {slices: stack for slices, stack in results if _is_read(stack)}
        self._missing: list[ir.Value] = []
        self._room = sum(value_type(value).size for value in self._xs)

    def totals(self) -> dict[int, Make]:
        """What the steps add to what is carried, by its place, where that can be formed after the loop."""
        found: dict[int, Make] = {}
        for _ in ("products", "sums of slices that they read"):
            for place in range(len(self.carry)):
                if place not in found and _is_read(self.operation.results[place]) and (total := self.total(place)):
                    found[place] = total
        return found

    def widen(self) -> None:
        """Put a scan that gives what is missing as well in the place of this one."""
        if not self._missing:
            return
        count = len(self._arguments) - len(self._captured)

        def step(*tensors: Tensor) -> list[Tensor]:
            values = dict(zip(self._arguments[:count], (tensor.value for tensor in tensors), strict=True))
            values |= dict(zip(self._arguments[count:], self._captured, strict=True))
            given = copy_block(self._block, values)
            return [Tensor(value) for value in (*given, *(values[value] for value in self._missing))]

        settings = attributes_of(self.operation) | {"saved": 0}
        with ir.InsertionPoint(self.operation), emitting_at(self.operation.location):
            carry, xs = (list(map(Tensor, values)) for values in (self.carry, self._xs))
            results = [tensor.value for tensor in Scan(carry, xs, body=step, **settings)]
        self._take_over(results)

    def _take_over(self, results: list[ir.Value]) -> None:
        """Have the results of a wider scan read instead of this one's."""
        added = dict(zip(self._missing, results[len(self._given) :], strict=True))
        replaced = dict(zip(self.operation.results, results, strict=False))
        self._stacks = {slices: replaced.get(stack, stack) for slices, stack in self._stacks.items()} | added
        for result, other in replaced.items():
            result.replace_all_uses_with(other)
        self.operation.erase()
        self.operation = results[0].owner

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
        if site.name in _LINEAR and site.source_type.dtype.is_float and not _widens_range(site):
            inner = self._sum_of(site.operands[0])
            return inner and (lambda: Tensor(emit(site.name, inner().value, **site.attributes)))
        rules = {"matmul": self._product, "sum": self._reduction}
        return rules[site.name](site) if site.name in rules else None

    def _product(self, site: Site) -> Make | None:
        """The sum of products x^T y of rows."""
        turned = made_by(site.operands[0], "transpose")
        if turned is None or len(turned.type.shape) != 2 or len(value_type(site.operands[1]).shape) != 2:
            return None
        factors = turned.operands[0], site.operands[1]
        self._have(factors, value_type(site.operation.results[0]).size)
        left, right = map(self._rows, factors)
        if left is None or right is None:
            return None
        return lambda: Tensor(emit("matmul", left().swapaxes(0, 1).value, right().value, **site.attributes))

    def _have(self, factors: Sequence[ir.Value], size: int) -> None:
        """Have the loop give slices of factors that are missing, where they are smaller than a product of theirs and
        all of them are no more than it walks along."""
        missing = [value for value in factors if self._stack(value) is None]
        needed = sum(value_type(value).size for value in missing)
        read = self._arguments[len(self.carry) + len(self._xs) :]
        if needed < size and self.length * needed <= self._room and not any(value in read for value in missing):
            self._missing += missing
            self._room -= self.length * needed

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
        if value in self._stacks or value in self._missing:
            return lambda: Tensor(self._stacks[value])
        site = made_by(value, "reshape")
        inner = self._stack(site.operands[0]) if site else None
        return inner and (lambda: inner().reshape(self.length, *value_type(value).shape))


def _widens_range(site: Site) -> bool:
    """Whether an op has room for sums of many f16, which would overflow as one f16."""
    return site.source_type.dtype == f16 and site.type.dtype != f16


def _is_read(value: ir.Value) -> bool:
    return bool(list(value.uses))

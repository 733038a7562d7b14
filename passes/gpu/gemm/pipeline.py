"""The loop over k of a block: while one stage of shared memory is multiplied, the next ones are filled."""

from __future__ import annotations

from collections.abc import Callable

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.copy import FactorLoader
from blu.passes.gpu.isa import barrier, cp_async

Range = tuple[ir.Value, ir.Value]
"""The first step of k of a block, and the first that is not its own (i32)."""
Multiply = Callable[[ir.Value, ir.Value, list[ir.Value]], list[ir.Value]]
"""Adds the products of a step to the sums: (number of the step, address of its stage, sums)."""


@dataclass(frozen=True)
class StageRing:
    """`stages` stages of `stage_bytes` bytes from the shared address `base` on, which is a multiple of 128."""

    loaders: tuple[FactorLoader, FactorLoader]
    stages: int
    stage_bytes: int
    base: ir.Value

    def run(self, steps: Range, sums: list[ir.Value], multiply: Multiply) -> list[ir.Value]:
        """The sums after all steps; then nobody reads or fills a stage any more."""
        first, end = steps
        for number in range(self.stages - 1):
            target = numbers.add(self.base, number * self.stage_bytes)
            self._end(self._begin(numbers.add(first, number), end, target), target)
        index = ir.IndexType.get()
        bounds = [arith.index_cast(index, value) for value in (first, end)]
        start = [numbers.number(0), numbers.number((self.stages - 1) * self.stage_bytes)]
        loop = scf.ForOp(*bounds, arith.constant(index, 1), [*start, *sums])
        with ir.InsertionPoint(loop.body):
            number, (read, write, *sums) = numbers.as_number(loop.induction_variable), loop.inner_iter_args
            cp_async.wait_group(self.stages - 2)
            barrier.sync()
            target = numbers.add(self.base, write)
            pending = self._begin(numbers.add(number, self.stages - 1), end, target)
            sums = multiply(number, numbers.add(self.base, read), sums)
            self._end(pending, target)
            scf.yield_([self._following(read), self._following(write), *sums])
        cp_async.wait_group(0)
        barrier.sync()
        return list(loop.results)[2:]

    def _following(self, stage: ir.Value) -> ir.Value:
        """The offset of the stage after this one."""
        last = numbers.is_equal(stage, (self.stages - 1) * self.stage_bytes)
        return arith.select(last, numbers.number(0), numbers.add(stage, self.stage_bytes))

    def _begin(self, number: ir.Value, end: ir.Value, target: ir.Value) -> list[list[ir.Value]]:
        """Start to copy a tile where there is one; what is to be stored later."""
        types = [loader.result_types() for loader in self.loaders]
        branch = scf.IfOp(numbers.is_below(number, end), [type_ for each in types for type_ in each], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.yield_([value for loader in self.loaders for value in loader.begin(number, target)])
        with ir.InsertionPoint(branch.else_block):
            scf.yield_([numbers.number(0) for each in types for _ in each])
        cp_async.commit_group()
        values = list(branch.results)
        return [values[: len(types[0])], values[len(types[0]) :]]

    def _end(self, pending: list[list[ir.Value]], target: ir.Value) -> None:
        for loader, values in zip(self.loaders, pending, strict=True):
            loader.end(values, target)

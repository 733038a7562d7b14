"""What the launches of attention's gradient share: operands, and D = P * (g V^T - inner) in a warp's registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir
from blu.dialects.core.op import operands_of
from blu.passes.gpu.attention.operands import AttentionOperand, Problem, operand_of, read_operand, read_problem
from blu.passes.gpu.attention.row_sums.ranges import row_sums_of
from blu.passes.gpu.attention.scores import Sums
from blu.passes.gpu.kernel import GpuKernel


@dataclass(frozen=True)
class Gradient:
    """A blu.attention_gradient in a launch: `logarithms` and `inner` are the first scratch memory [heads, queries].

    Where the forward has left its logarithms, those to base e, they are `given` [.., heads, queries]. `sums` are, by
    the number of a gradient, where the sums of its ranges of rows go [.., heads, ranges, columns].
    """

    problem: Problem
    g: AttentionOperand
    result: AttentionOperand
    of_query: AttentionOperand
    of_key: AttentionOperand
    of_value: AttentionOperand
    logarithms: AttentionOperand
    inner: AttentionOperand
    given: AttentionOperand | None = None
    sums: Mapping[int, AttentionOperand] = field(default_factory=dict)

    @property
    def outputs(self) -> tuple[AttentionOperand, ...]:
        """The gradients, in the op's order."""
        return self.of_query, self.of_key, self.of_value

    @classmethod
    def read(cls, operation: ir.Operation, frame: GpuKernel) -> Gradient:
        """Read the op at the current insertion point."""
        g, query, key, value, result, mask, offset, logarithms = operands_of(operation)
        outputs = dict(frame.outputs)
        written = [operand_of(outputs[item]) for item in operation.results]
        scratch = [operand_of(item) for item in frame.scratch[:2]]
        problem = read_problem(operation, frame, (query, key, value, mask, offset))
        given = None if logarithms is None else read_operand(logarithms, frame)
        sums = {number: operand_of(outputs[item.results[0]]) for number, item in row_sums_of(operation).items()}
        operands = [read_operand(item, frame) for item in (g, result)]
        return cls(problem, *operands, *written, *scratch, given=given, sums=sums)


def slopes(weights: Sums, of_weights: Sums, inner: Sequence[Sequence[ir.Value]]) -> Sums:
    """weights * (of_weights - inner), all [strips][blocks of 8][4]; `inner` is [strips * blocks] rows of four."""
    each = iter(inner)
    return [
        [
            [
                arith.mulf(weight, arith.subf(slope, shift))
                for weight, slope, shift in zip(*values, next(each), strict=True)
            ]
            for values in zip(*strips, strict=True)
        ]
        for strips in zip(weights, of_weights, strict=True)
    ]

"""What the launches of attention's gradient share: operands, and D = P * (g V^T - inner) in a warp's registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blu.dialects.core.mlir import arith, ir
from blu.dialects.core.op import operands_of
from blu.passes.gpu.attention.operands import AttentionOperand, Problem, operand_of, read_operand, read_problem
from blu.passes.gpu.attention.scores import Sums
from blu.passes.gpu.kernel import GpuKernel


@dataclass(frozen=True)
class Gradient:
    """A blu.attention_gradient in a launch: `logarithms` and `inner` are the scratch memory [heads, queries].

    Where the forward has left its logarithms, those to base e, they are `given` [.., heads, queries].
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

    @classmethod
    def read(cls, operation: ir.Operation, frame: GpuKernel) -> Gradient:
        """Read the op at the current insertion point."""
        g, query, key, value, result, mask, offset, logarithms = operands_of(operation)
        outputs = dict(frame.outputs)
        written = [operand_of(outputs[item]) for item in operation.results]
        scratch = [operand_of(item) for item in frame.scratch]
        problem = read_problem(operation, frame, (query, key, value, mask, offset))
        given = None if logarithms is None else read_operand(logarithms, frame)
        return cls(problem, read_operand(g, frame), read_operand(result, frame), *written, *scratch, given)


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

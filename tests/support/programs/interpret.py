"""Runs a traced `blu` module with NumPy, op by op, through the ops' references: what the program means."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blu.dialects.core.evaluation import evaluate_operation
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import value_type

Evaluate = Callable[[ir.Operation, dict[ir.Value, np.ndarray]], list[np.ndarray]]


def interpret(module: ir.Module, inputs: Sequence[np.ndarray], evaluated: Evaluate | None = None) -> list[np.ndarray]:
    """The results of `@main` for these inputs; `evaluated` gives an op's results in place of its reference."""
    [main] = [item.operation for item in module.body.operations]
    block = main.regions[0].blocks[0]
    values: dict[ir.Value, np.ndarray] = dict(zip(block.arguments, map(np.asarray, inputs), strict=True))
    for operation in block.operations:
        if operation.operation.name == "func.return":
            return [values[operand] for operand in operation.operands]
        results = (evaluated or evaluate_operation)(operation.operation, values)
        for result, array in zip(operation.results, results, strict=True):
            kind = value_type(result)
            assert array.shape == kind.shape, f"{operation.operation.name} gives {array.shape}, declared {kind}"
            values[result] = array.astype(kind.dtype.numpy, copy=False)
    raise AssertionError("main has no return")

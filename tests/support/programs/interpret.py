"""Runs a traced `blu` module with NumPy, op by op, through the ops' references: what the program means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import blu
from blu.dialects.core.evaluation import evaluate_operation
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import value_type
from blu.frontend import tree

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


def meaning_of(function: Callable[..., Any], *arguments: Any) -> list[np.ndarray]:
    """All results, in a row, of a function of trees of arrays: what it means once derivatives and bodies are inlined.

    Rules of ops are held to this for all their samples; to compile each sample as well takes ten times as long.
    """
    traced = blu.jit(function).trace(*arguments)
    module = traced.lower(stop="blu-inline").module
    arrays = [leaf for leaf in tree.leaves(arguments) if leaf is not None]
    with module.context:
        return interpret(module, [*arrays, *traced.traced.captured])

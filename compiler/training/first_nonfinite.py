"""Which op of a training step first gives a number that is not finite: the step again, op by op, in NumPy. Slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from blu.compiler.training.programs import TrainingRequest


def first_nonfinite(request: TrainingRequest, names: Sequence[str], values: Mapping[str, np.ndarray]) -> str:
    """A sentence on the first op whose result is not finite, though all that it reads is; else on the first input.

    `names` are the program's inputs in their order, `values` their arrays. Empty where everything is finite: NumPy
    computes in f64 between roundings, and may come through where the program does not.
    """
    lowered = request.trace().lower(stop="blu-inline")  # gradients are ops by then, calls are gone
    [main] = [item.operation for item in lowered.module.body.operations]
    block = main.regions[0].blocks[0]
    assert len(block.arguments) == len(names), "the program has other inputs than the module"
    found = _walk(block, dict(zip(block.arguments, (values[name] for name in names), strict=True)))
    if found:
        return found
    wrong = [name for name in names if _count(values[name])]
    return f"{wrong[0]} was not finite before the step" if wrong else ""


def _walk(block: Any, values: dict[Any, np.ndarray]) -> str:
    """Run the ops of a block in order, as far as the first that is to blame."""
    from blu.dialects.core.evaluation import evaluate_operation

    for view in block.operations:
        operation = view.operation
        if operation.name == "func.return":
            break
        results = evaluate_operation(operation, values)
        values.update(zip(operation.results, results, strict=True))
        counts = [_count(result) for result in results]
        if any(counts) and len(operation.operands) and not any(_count(values[item]) for item in operation.operands):
            return _sentence(operation, results[np.argmax(counts)])
    return ""


def _count(array: np.ndarray) -> int:
    """How many elements are NaN or infinite."""
    return 0 if array.dtype.kind in "biu" else int((~np.isfinite(array.astype(np.float64))).sum())


def _sentence(operation: Any, result: np.ndarray) -> str:
    from blu.dialects.core.locations import describe

    where = describe(operation.location) or "an unknown place"
    kind = "NaN" if np.isnan(result.astype(np.float64)).any() else "infinite"
    return f"first {kind}: {operation.name} at {where}, {_count(result)} of {result.size} elements of its result"

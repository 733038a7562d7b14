"""Writes a function as a `blu` module in one shared context, and runs it by the references: nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from blu.dialects.core.context import make_context
from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.evaluation import array_type
from blu.dialects.core.mlir import func, ir
from blu.dialects.tensor.tensor import Tensor
from tests.support.programs.interpret import interpret

# Where all ops of a traced function say that they are.
FILE, LINE = "model.py", 7


@cache
def shared_context() -> ir.Context:
    return make_context()


def traced(function: Callable[..., Any], types: Sequence[TensorType]) -> ir.Module:
    """A module whose @main takes tensors of these types and returns what the function gives: a tensor or several."""
    with shared_context(), ir.Location.file(FILE, LINE, 1):
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([type_.to_mlir() for type_ in types], []))
        block = main.add_entry_block()
        with ir.InsertionPoint(block):
            results = function(*map(Tensor, block.arguments))
            results = list(results) if isinstance(results, tuple | list) else [results]
            func.ReturnOp([tensor.value for tensor in results])
        outputs = [tensor.value.type for tensor in results]
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([argument.type for argument in block.arguments], outputs)
        )
        assert module.operation.verify()
    return module


def evaluated(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """What a function of tensors gives for these arrays: an array, or a list where it returns several."""
    module = traced(function, [array_type(np.asarray(array)) for array in arrays])
    with shared_context():
        results = interpret(module, arrays)
    return results[0] if len(results) == 1 else results

"""What an op means, in numbers: its NumPy reference with Blu's rules of rounding around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from blu.dialects.core.dialect import YIELD
from blu.dialects.core.dtypes import TensorType, as_dtype
from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, Op, attributes_of, body_blocks_of, operands_of, value_type


def array_type(array: np.ndarray) -> TensorType:
    """The tensor type of an array."""
    return TensorType(array.shape, as_dtype(array.dtype))


def evaluate(cls: type[Op], operands: tuple[Any, ...], attributes: dict[str, Any]) -> list[np.ndarray]:
    """The results of an op on arrays. Floats are computed in f64 and rounded once, to the result's dtype."""
    types = cls.infer_all([on_operand(array_type, item) for item in operands], attributes)
    return _evaluate(cls, operands, attributes, types)


def evaluate_operation(operation: ir.Operation, values: Mapping[ir.Value, np.ndarray]) -> list[np.ndarray]:
    """The results of an op in IR, given the arrays that its operands are. References call bodies as functions."""
    cls = OPS[operation.name.removeprefix("blu.")]
    operands = tuple(on_operand(values.__getitem__, item) for item in operands_of(operation))
    bodies = {name: partial(_evaluate_body, block) for name, block in body_blocks_of(operation).items()}
    return _evaluate(cls, operands, attributes_of(operation) | bodies, [value_type(item) for item in operation.results])


def _evaluate_body(block: ir.Block, *arguments: np.ndarray) -> list[np.ndarray]:
    """What a body gives for arrays, which are rounded to the dtypes that it takes."""
    pairs = zip(block.arguments, arguments, strict=True)
    values = {argument: array.astype(value_type(argument).dtype.numpy) for argument, array in pairs}
    for operation in (item.operation for item in block.operations):
        if operation.name == YIELD:
            return [values[value] for value in operation.operands]
        values.update(zip(operation.results, evaluate_operation(operation, values), strict=True))
    raise AssertionError("a body ends in a yield")


def _evaluate(
    cls: type[Op], operands: tuple[Any, ...], keywords: dict[str, Any], types: Sequence[TensorType]
) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        found = cls.reference(*(on_operand(_widened, item) for item in operands), **keywords)
        results = list(found) if isinstance(found, tuple) else [found]
        return [_rounded(np.asarray(result), type_) for result, type_ in zip(results, types, strict=True)]


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if as_dtype(array.dtype).is_float else array


def _rounded(result: np.ndarray, type_: TensorType) -> np.ndarray:
    assert result.shape == type_.shape, f"the reference gives shape {result.shape}, infer says {type_}"
    assert type_.dtype.is_float == as_dtype(result.dtype).is_float, f"the reference gives {result.dtype}, not {type_}"
    return result.astype(type_.dtype.numpy)

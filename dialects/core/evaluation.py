"""What an op means, in numbers: its NumPy reference with Blu's rules of rounding around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from blu.dialects.core.dialect import YIELD
from blu.dialects.core.dtypes import TensorType, as_dtype
from blu.dialects.core.fields import on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, Op, attributes_of, body_blocks_of, operands_of, value_type
from blu.dialects.tensor.tensor import Tensor


def array_type(array: np.ndarray) -> TensorType:
    """The tensor type of an array."""
    return TensorType(array.shape, as_dtype(array.dtype))


def evaluate(cls: type[Op], operands: tuple[Any, ...], attributes: dict[str, Any]) -> list[np.ndarray]:
    """The results of an op on arrays. Floats are computed in f64 and rounded once, to the result's dtype."""
    given = [on_operand(array_type, item) for item in operands]
    if not cls.region_fields():
        return _evaluate(cls, operands, attributes, cls.infer_all(given, attributes))
    with _written(cls, given, attributes) as operation:
        arrays = chain.from_iterable(item if isinstance(item, list) else [item] for item in operands)
        return evaluate_operation(operation, dict(zip(operation.operands, arrays, strict=True)))


def types_of(cls: type[Op], operands: Sequence[Any], attributes: Mapping[str, Any]) -> tuple[TensorType, ...]:
    """The types of the results of an op on operands of some types, regions being given as functions of tensors."""
    if not cls.region_fields():
        return cls.infer_all(operands, dict(attributes))
    with _written(cls, operands, attributes) as operation:
        return tuple(map(value_type, operation.results))


@contextmanager
def _written(cls: type[Op], operands: Sequence[Any], attributes: Mapping[str, Any]) -> Iterator[ir.Operation]:
    """An op on operands of some types, its regions traced, in a module of its own."""
    from blu.dialects.core.context import kept_context

    with kept_context(), ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            given = [on_operand(_argument, item) for item in operands]
            (first, *_) = cls(*given, **attributes)
            yield first.value.owner.operation


def _argument(type_: TensorType) -> Tensor:
    return Tensor(ir.Operation.create("builtin.unrealized_conversion_cast", results=[type_.to_mlir()]).results[0])


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

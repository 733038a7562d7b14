"""How much work an op is, roughly: enough to weigh computing a value again against keeping it."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.contraction import parse_equation
from blu.dialects.dtypes import product
from blu.dialects.mlir import ir
from blu.dialects.op import attributes_of, value_type

# Ops whose result is their operand in another order, or a part of it: as good to keep as the operand.
VIEWS = ("blu.reshape", "blu.transpose", "blu.slice", "blu.barrier")
# What passes over memory cost, in multiplications for each element that is read or written.
PER_ELEMENT = 16


def work_of(operation: ir.Operation) -> int:
    """About how many multiplications an op is as much work as."""
    if operation.name in VIEWS:
        return 0
    if operation.name in _MULTIPLICATIONS:
        return _MULTIPLICATIONS[operation.name](operation)
    return PER_ELEMENT * sum(value_type(value).size for value in (*operation.operands, *operation.results))


def _of_matmul(operation: ir.Operation) -> int:
    return value_type(operation.results[0]).size * value_type(operation.operands[0]).shape[-1]


def _of_einsum(operation: ir.Operation) -> int:
    labels = parse_equation(attributes_of(operation)["equation"])
    lhs, rhs = (value_type(value).shape for value in operation.operands)
    return product((dict(zip(labels.lhs, lhs, strict=True)) | dict(zip(labels.rhs, rhs, strict=True))).values())


def _of_attention(operation: ir.Operation) -> int:
    query, key = (value_type(value) for value in list(operation.operands)[:2])
    return 2 * query.size * key.shape[-2]


_MULTIPLICATIONS: dict[str, Callable[[ir.Operation], int]] = {
    "blu.matmul": _of_matmul,
    "blu.einsum": _of_einsum,
    "blu.attention": _of_attention,
}

"""How much work an op is, roughly: enough to weigh computing a value again against keeping it."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.dialect import YIELD
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import OPS, attributes_of, value_type
from blu.dialects.ops.contraction import parse_equation
from blu.dialects.ops.pointwise import Pointwise
from blu.passes.graph.remat.storage import is_view

# Ops beside the elementwise ones that need one row at a time, so that a kernel of rows does them on the way.
_OF_ROWS = ("layer_norm", "rms_norm", "softmax", "log_softmax")
_ELEMENTWISE = ("where", "convert", "reduce_precision", "nearest_byte", "gelu", "silu", "broadcast_to", "constant")
_ROW_REDUCTIONS = ("sum", "max", "min")
# What passes over memory cost, in multiplications for each element that is read or written.
PER_ELEMENT = 16


def work_of(operation: ir.Operation) -> int:
    """About how many multiplications an op is as much work as."""
    if is_view(operation):
        return 0
    if len(operation.regions):  # how often they run is known to the op alone
        return sum(work_of(inner) for inner in operations_in(operation) if inner.name != YIELD)
    if operation.name in _MULTIPLICATIONS:
        return _MULTIPLICATIONS[operation.name](operation)
    return PER_ELEMENT * sum(value_type(value).size for value in (*operation.operands, *operation.results))


def is_cheap(operation: ir.Operation) -> bool:
    """Whether an op is a part of some pass over rows that reads and writes memory anyway, and adds little to it."""
    name = operation.name.removeprefix("blu.")
    if name in _ROW_REDUCTIONS:
        last = len(value_type(operation.operands[0]).shape) - 1
        return attributes_of(operation)["axes"] == (last,)
    if name in _OF_ROWS:
        last = len(value_type(operation.operands[0]).shape) - 1
        return attributes_of(operation).get("axis", last) == last
    return name in _ELEMENTWISE or issubclass(OPS[name], Pointwise) or is_view(operation)


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

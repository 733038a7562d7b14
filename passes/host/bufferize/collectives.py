"""What the host program is told of a collective, besides its memory."""

from __future__ import annotations

from blu.dialects.core.dtypes import dtype_of_mlir
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of
from blu.passes.framework.kernels import UNSIGNED

_IN_PLACE = ("blu.all_reduce", "blu.broadcast")
_AMOUNTS = ("root", "shift")


def works_in_place(operation: ir.Operation) -> bool:
    """Whether a collective may write its result over its operand."""
    return operation.name in _IN_PLACE


def fields_of(operation: ir.Operation) -> dict[str, str | int]:
    """The attributes of `plan.start`."""
    kind = operation.name.removeprefix("blu.")
    given = attributes_of(operation)
    amount = next((given[name] for name in _AMOUNTS if name in given), 0)
    fields = {"kind": kind, "axis": given["axis"], "ranks": given["ranks"], "dtype": _dtype_of(operation)}
    return {**fields, "reduction": given.get("reduction", ""), "amount": amount}


def _dtype_of(operation: ir.Operation) -> str:
    value = operation.operands[0] if len(operation.operands) else operation.results[0]
    name = dtype_of_mlir(ir.RankedTensorType(value.type).element_type).name
    return f"u{name.removeprefix('i')}" if UNSIGNED in operation.attributes else name

"""What attention is on every target: the sizes of a problem, as its emitters name them, and how it is read."""

from __future__ import annotations

from typing import Protocol

from blu.dialects.core.mlir import arith, ir
from blu.passes.kernels import lanes as vectors


class Shaped(Protocol):
    """An operand: [*heads, rows, columns]."""

    @property
    def shape(self) -> tuple[int, ...]: ...


class AttentionSizes:
    """Sizes of one attention; shapes are [*leading, heads, rows, columns], as in blu.dialects.ops.attention."""

    query: Shaped
    key: Shaped
    value: Shaped

    @property
    def heads(self) -> tuple[int, ...]:
        """Leading dimensions and heads of the queries."""
        return self.query.shape[:-2]

    @property
    def key_heads(self) -> tuple[int, ...]:
        """Leading dimensions and heads of the keys."""
        return self.key.shape[:-2]

    @property
    def queries(self) -> int:
        return self.query.shape[-2]

    @property
    def keys(self) -> int:
        return self.key.shape[-2]

    @property
    def depth(self) -> int:
        """Columns of queries and keys."""
        return self.key.shape[-1]

    @property
    def width(self) -> int:
        """Columns of values."""
        return self.value.shape[-1]

    @property
    def groups(self) -> int:
        """Query heads per key head."""
        return self.query.shape[-3] // max(1, self.key.shape[-3])

    def cut_offset(self, offset: ir.Value) -> ir.Value:
        """The position of the first query among the keys (an integer), cut to where it still makes a difference."""
        low, high = (vectors.constant(offset.type, bound) for bound in (-self.queries, self.keys))
        return arith.maxsi(arith.minsi(offset, high), low)


def splat_of(tensor: ir.Value) -> tuple[ir.Value, ir.Type]:
    """What a tensor that the kernel fills itself is everywhere (a bool as i8), and its element type."""
    fill = tensor.owner
    assert fill.name == "linalg.fill", f"attention reads {tensor}, which is neither a buffer nor a splat"
    scalar = fill.operands[0].owner
    value = ir.Operation.create(scalar.name, [scalar.result.type], [], {"value": scalar.attributes["value"]}).result
    element = value.type
    if isinstance(element, ir.IntegerType) and element.width == 1:
        value = arith.extui(ir.IntegerType.get_signless(8), value)
    return value, element

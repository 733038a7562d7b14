"""What attention is on every target: the sizes of a problem, as its emitters name them."""

from __future__ import annotations

from typing import Protocol


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

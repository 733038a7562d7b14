"""The sizes of an attention, by which its schedule on a GPU is chosen and checked."""

from __future__ import annotations

from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of, operands_of


@dataclass(frozen=True)
class ScheduleSizes:
    """What a schedule is chosen by: heads in all, rows and columns of `size` bytes, and whether there is a mask."""

    heads: int
    queries: int
    keys: int
    columns: tuple[int, int]
    masked: bool
    size: int
    is_split: bool
    causal: bool
    leading: int = 0

    @classmethod
    def of(cls, operation: ir.Operation) -> ScheduleSizes:
        """Those of a blu.attention, a piece of one, or a blu.attention_gradient."""
        operands = operands_of(operation)[operation.name == "blu.attention_gradient" :]
        query, key, value = (ir.RankedTensorType(item.type) for item in operands[:3])
        place = {"blu.attention": 3, "blu.attention_gradient": 5}.get(operation.name)
        mask = None if place is None else operands_of(operation)[place]
        heads, columns = prod(query.shape[:-2]), (query.shape[-1], value.shape[-1])
        size = query.element_type.width // 8
        attributes = attributes_of(operation)
        is_split = size == 4 and attributes["precision"] != "tf32"
        causal = attributes["causal"]
        leading = sum(length > 1 for length in query.shape[:-2])
        return cls(heads, query.shape[-2], key.shape[-2], columns, mask is not None, size, is_split, causal, leading)

    @property
    def widest(self) -> int:
        return max(self.columns)

"""What is read and written of a tile of gradients of what was standardized (row_gradients.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.gpu.gemm.boxes.exchange import CLUSTERS, FREE, ROWS, SUMS
from blu.passes.gpu.gemm.boxes.plan import BoxPlan, ClusterPlan, adds_columns, has_boxes
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from blu.passes.gpu.isa import wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.kernels.contraction import IndexedBuffer
from blu.passes.kernels.epilogue import Dims, Epilogue, is_rounding, is_row_sum

UNIT_ROWS = 8
SIDES = 2
"""Tensors of which a unit has rows."""


@dataclass(frozen=True)
class GradientPlan(ClusterPlan):
    """What is read and written of a tile: `standard` in boxes, `others` and the results in units."""

    @property
    def whole_dims(self) -> Dims:
        return self.product.contraction.result_dims

    @cached_property
    def rounded(self) -> ir.Value | None:
        """The result of the product, in halves, that all others are made of."""
        (result,) = self.product.contraction.operation.results
        users = {use.owner.operation for use in result.uses}
        return users.pop().results[0] if len(users) == 1 else None

    @cached_property
    def sums(self) -> list[ir.Value]:
        """The sums along rows."""
        return list(filter(is_row_sum, self.epilogue.row_numbers))

    @cached_property
    def standard(self) -> list[tuple[ir.Value, Dims]]:
        """What sums are made of, beside the product."""
        made = [] if self.rounded is None else [(self.rounded, self.whole_dims)]
        outputs = [(tensor, IndexedBuffer(self._any_buffer, self.row_dims)) for tensor in self.sums]
        return replace(self.epilogue, outputs=outputs, sums=(), made=made).reads

    @cached_property
    def last(self) -> Epilogue:
        """What is done when rows have their sums: the `exact` numbers, then the results."""
        numbers_of_rows = [(tensor, self.row_dims) for tensor in self.epilogue.row_numbers]
        rounded = [] if self.rounded is None else [(self.rounded, self.whole_dims)]
        made = [*numbers_of_rows, *rounded, *self.standard]
        exact = [(tensor, IndexedBuffer(self._any_buffer, self.whole_dims)) for tensor in self.exact]
        return replace(self.epilogue, outputs=[*exact, *self.results], sums=(), made=made)

    @cached_property
    def exact(self) -> list[ir.Value]:
        """What is added up down columns or rounded for a result, in f32."""
        return list(dict.fromkeys([*(item.terms for item in self.epilogue.sums), *self.roundings.values()]))

    @cached_property
    def roundings(self) -> dict[ir.Value, ir.Value]:
        """What is rounded for a result, by the result."""
        made = ((tensor, tensor.owner.operation) for tensor, _ in self.results)
        return {tensor: operation.operands[0] for tensor, operation in made if is_rounding(operation)}

    @cached_property
    def others(self) -> list[tuple[ir.Value, Dims]]:
        """Those of which each element of a result reads its own, beside the product and what was standardized."""
        return self.last.whole_reads

    @cached_property
    def results(self) -> list[tuple[ir.Value, IndexedBuffer]]:
        return [item for item in self.epilogue.outputs if len(item[1].dims) > 1]

    @cached_property
    def tile(self) -> BoxPlan:
        """The boxes of x."""
        return BoxPlan(self.product, replace(self.epilogue, outputs=self.results), self.schedule, FREE)

    @property
    def units(self) -> int:
        return SIDES * self.tile.count

    @property
    def map_count(self) -> int:
        """How many tensors are read and written."""
        return len(self.standard) + len(self.others) + len(self.results)

    def maps(self, arguments: Sequence[ir.Value]) -> list[TileMap]:
        """The tensor maps of what is read, x first, then of the results."""
        buffers = [self.buffer_of(key) for key in (*self.standard, *self.others)]
        made = [self.tile.map_of(item, arguments) for item in (*buffers, *(target for _, target in self.results))]
        first, *units = (replace(item, dtype="bf16") if item.dtype == "i16" else item for item in made)
        return [first, *(replace(item, box=(item.box[0], UNIT_ROWS)) for item in units)]

    def buffer_of(self, key: tuple[ir.Value, Dims]) -> IndexedBuffer:
        """Where something lies that is read."""
        return IndexedBuffer(self.epilogue.buffers[key[0]], key[1])

    @property
    def _any_buffer(self) -> ir.Value:
        return next(iter(self.epilogue.buffers.values()))


def misfit(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> str:
    """Why no cluster finds the gradients that follow a product; "" where one does."""
    plan = GradientPlan(product, epilogue, schedule)
    is_cut = product.columns in [schedule.columns * size for size in CLUSTERS] and schedule.split == 1
    if not is_cut or (schedule.rows, product.outer) != (ROWS // 2 * wgmma.ROWS, 1) or epilogue.row_sums:
        return "a cluster of two or four blocks has 128 whole rows of one product"
    if len(plan.sums) != SUMS or plan.rounded is None:
        return f"rows have {SUMS} sums, of a product in halves"
    if (len(plan.standard), len(plan.others), len(plan.results)) != (1, SIDES, SIDES):
        return f"one tensor is read for sums of rows, {SIDES} others for as many results"
    buffers = [*map(plan.buffer_of, (*plan.standard, *plan.others)), *(target for _, target in plan.results)]
    if not all(has_boxes(product, item) and item.element.width == 16 for item in buffers):
        return "rows of tensors of 16 bits begin at multiples of 16 bytes"
    is_added = not epilogue.sums or adds_columns(product, epilogue, schedule)
    return "" if is_added else "sums down columns are those of a warp's rows"

"""The pass that never has the largest values whole: some of their rows are computed, used and forgotten at a time."""

from __future__ import annotations

from collections.abc import Iterator

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import value_type
from blu.passes.framework.base import Pass, find
from blu.passes.gpu.rows.chunks import Chunks, NotByRowsError
from blu.passes.graph.exponentials_in_products import GROWTH
from blu.passes.graph.remat.storage import stored_bytes

MOST_CHUNKS = 16


@dataclass(frozen=True)
class ChunkRows(Pass):
    """A product that is too large is formed some rows at a time, with all that is computed from it row by row.

        %logits = "blu.matmul"(%x, %w)                          (more than `largest_bytes`)
        %loss = "blu.cross_entropy"(%logits, %targets)
        %g = ...                                                (the gradient, as large)
        %dx = "blu.matmul"(%g, %w_transposed)
        %dw = "blu.matmul"(%x_transposed, %g)

    becomes, with all of it but %w cut into ranges of rows,

        %logits_0 = "blu.matmul"(%x_0, %w)     %loss_0 = ...    %dx_0 = ...    %dw_0 = ...
        %logits_1 = "blu.matmul"(%x_1, %w)     %loss_1 = ...    %dx_1 = ...    %dw_1 = %dw_0 + ...
        %loss = "blu.concatenate"(%loss_0, %loss_1)     %dx = "blu.concatenate"(%dx_0, %dx_1)

    What a barrier kept apart is close together now: a part's loss and its gradient read %logits_0 in one kernel. Losses
    and the gradient of %x keep their bits; sums over all rows are added up in another order. Chunks are parts of
    the first dimension, as few as are needed.
    """

    level = "blu"
    largest_bytes: int = 1 << 30

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            left: set[ir.Operation] = set()
            while not function.is_external and (found := self._next_product(function, left)) is not None:
                product, count = found
                left.add(product)
                try:
                    chunks = Chunks.of(product, product.block, count)
                except NotByRowsError as reason:
                    self.count(f"products left whole: {reason}")
                    continue
                chunks.write()
                self.count("products in chunks")

    def _next_product(self, function: func.FuncOp, left: set[ir.Operation]) -> tuple[ir.Operation, int] | None:
        """A product that is too large, and the number of chunks that it should have."""
        for product in find(function, "blu.matmul"):
            operation = product.operation
            size, shape = _stored_bytes(operation.results[0]), value_type(operation.results[0]).shape
            if size <= self.largest_bytes or operation in left:
                continue
            counts = [count for count in range(2, MOST_CHUNKS + 1) if shape[0] % count == 0]
            count = next((count for count in counts if size <= count * self.largest_bytes), max(counts, default=0))
            if count and value_type(operation.results[0]).size >= GROWTH * value_type(operation.operands[0]).size:
                return operation, count
        return None


def _stored_bytes(value: ir.Value) -> int:
    """The bytes of a value, or of what is stored of it where nobody else reads it."""
    kept = list(dict.fromkeys(_kept(value)))
    is_halved = bool(kept) and all(_is_half(item) for item in kept)
    return stored_bytes(kept[0] if is_halved else value)


def _is_half(value: ir.Value) -> bool:
    return value_type(value).dtype.bits == 16 or value.owner.name == "blu.reduce_precision"


def _kept(value: ir.Value) -> Iterator[ir.Value]:
    """What is stored of a value: what it is rounded to, once elementwise ops are done, and nothing for sums of rows."""
    for user in (use.owner.operation for use in value.uses):
        if user.name in ("blu.reduce_precision", "blu.convert") and _is_half(user.results[0]):
            yield user.results[0]
        elif user.name in ("blu.subtract", "blu.exp", "blu.reshape"):
            yield from _kept(user.results[0])
        elif user.name != "blu.sum":
            yield value

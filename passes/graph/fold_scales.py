"""The pass that lets the weights behind a layer norm have its scale and shift."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of, value_type
from blu.dialects.core.remat import emitting_in_place_of
from blu.dialects.ops.contraction import Matmul
from blu.dialects.ops.normalization import LayerNorm
from blu.dialects.ops.precision import ReducePrecision
from blu.dialects.tensor.arrangement import reshape
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find


@dataclass(frozen=True)
class FoldScales(Pass):
    """Where products in bf16 alone read a layer norm, their weights are scaled and their results shifted, not its rows.

        %n = "blu.layer_norm"(%x, %s, %t)
        %r = "blu.reduce_precision"(%n) {dtype = bf16}
        %v = "blu.reduce_precision"(%w) {dtype = bf16}
        %p = "blu.matmul"(%r, %v)
        %q = "blu.add"(%p, %b)

    becomes

        %n = "blu.layer_norm"(%x)
        %r = "blu.reduce_precision"(%n) {dtype = bf16}
        %v = "blu.reduce_precision"(%w * %s) {dtype = bf16}         (a row of %w by a number of %s)
        %p = "blu.matmul"(%r, %v)
        %q = "blu.add"(%p, %b + %c)                                 (%c: the sum over the rows of %w * %t)

    So rows are stored once, as the norm's gradient reads them, rather than twice, and the gradients of %s and %t are
    sums over a weight's gradient, not over rows. As many numbers are rounded as before: here a row, and a weight with
    its scale. A weight is looked at once more, so the rows have at least `least_bytes` as halves, and are four times
    as many as a weight's.
    """

    level = "blu"
    least_bytes: int = 16 << 20

    def run(self, module: ir.Module) -> None:
        for norm in [item.operation for item in find(module, "blu.layer_norm")]:
            rounding = _only_reader(norm.results[0], "reduce_precision")
            if rounding is None or str(attributes_of(rounding)["dtype"]) != "bf16" or len(norm.operands) != 3:
                continue
            products = [use.owner.operation for use in rounding.results[0].uses]
            if all(self._takes(item, rounding.results[0]) for item in products):
                _fold(norm, rounding, products)
                self.count("norms")

    def _takes(self, product: ir.Operation, rows: ir.Value) -> bool:
        """Whether an op multiplies rows by a matrix in halves, of which there are few."""
        if product.name != "blu.matmul" or list(product.operands).index(rows) != 0:
            return False
        weight, shape = product.operands[1], value_type(rows).shape
        if isinstance(weight.owner, ir.Block) or weight.owner.name != "blu.reduce_precision" or len(shape) < 2:
            return False
        size = Tensor(rows).size
        is_large = size * 2 >= self.least_bytes and size >= 4 * Tensor(weight).size
        return is_large and len(value_type(weight).shape) == 2


def _only_reader(value: ir.Value, name: str) -> ir.Operation | None:
    readers = [use.owner.operation for use in value.uses]
    return readers[0] if len(readers) == 1 and readers[0].name == f"blu.{name}" else None


def _fold(norm: ir.Operation, rounding: ir.Operation, products: list[ir.Operation]) -> None:
    source, scale, shift = map(Tensor, norm.operands)
    with ir.InsertionPoint(norm), emitting_in_place_of(norm):
        standard = LayerNorm(source, None, None, **attributes_of(norm))
    norm.results[0].replace_all_uses_with(standard.value)
    norm.erase()
    for product in products:
        _scale(product, scale, shift)


def _scale(product: ir.Operation, scale: Tensor, shift: Tensor) -> None:
    """Scale the rows of a product's matrix, and add to its result what they give for a shift."""
    rounding = product.operands[1].owner.operation
    weight, attributes = Tensor(rounding.operands[0]), attributes_of(rounding)
    width = weight.shape[0]
    addition = _only_reader(product.results[0], "add")
    with ir.InsertionPoint(product), emitting_in_place_of(product):
        scaled = ReducePrecision(weight * reshape(scale, width, 1), **attributes)
        moved = (weight * reshape(shift, width, 1)).sum(axis=0)
        result = Matmul(Tensor(product.operands[0]), scaled, **attributes_of(product))
    if addition is not None and len(value_type(addition.operands[1]).shape) == 1:
        with ir.InsertionPoint(addition), emitting_in_place_of(addition):
            total = result + (Tensor(addition.operands[1]) + moved)
        addition.results[0].replace_all_uses_with(total.value)
        addition.erase()
    else:
        with ir.InsertionPoint(product), emitting_in_place_of(product):
            total = result + moved
        product.results[0].replace_all_uses_with(total.value)
    product.erase()

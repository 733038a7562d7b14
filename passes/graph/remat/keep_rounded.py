"""The pass that has gradients find what they need of layer norms and of GELU in halves and in bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import f32
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import value_type
from blu.dialects.core.remat import Mark, budget_of
from blu.dialects.ops.pointwise import NearestByte
from blu.dialects.ops.precision import ReducePrecision
from blu.dialects.tensor.arrangement import reshape, transpose
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find
from blu.passes.graph.differentiate.differentiate import FORWARD
from blu.passes.graph.remat.ahead import Closure, LateOps, writing_after, writing_before
from blu.passes.graph.remat.saved import LONGEST_WAY
from blu.passes.graph.remat.storage import stored_dtype

# Slopes of GELU are between -0.13 and 1.13: bytes are multiples of 1/200 from -27/200 on.
_STEPS, _ZERO = 200, 27


@dataclass(frozen=True)
class KeepRounded(Pass):
    """Where results are halves, the forward pass rounds what gradients of layer norms and GELU need, and keeps that.

        %y = "blu.layer_norm"(%x, %w, %b)                (rounded to halves, as %g is)
        %g = "blu.gelu"(%u)
        ...                                             (here the backward pass begins)
        %s = ...                                        (%x, less its mean, by its deviation)
        %t = ...                                        (the slope of GELU at %u)

    becomes

        %s = ...
        %h = "blu.reduce_precision"(%s) {dtype = bf16, rounds_gradient = false}
        %y = "blu.layer_norm"(%x, %w, %b)
        %t = ...                                        (what rounded %u is not, which nobody stores any more)
        %c = "blu.nearest_byte"(%t * 200) {above = 27}
        %g = "blu.gelu"(%u)
        ...                                             (%h in place of %s, %h * %w + %b in place of %y)
        %d = ...                                        (%c * 0.005 - 0.135, in place of %t)

    Where the columns of %y are multiplied (a weight's gradient) by what is also summed (a bias's), the product has the
    columns of %h, is scaled by %w, and %b times that sum is added to it: then nobody makes %y again.

    A norm's gradient reads halves, not f32, and neither GELU nor its slope is computed again, for three bytes an
    element rather than two. A slope is at most 1/400 off. With a budget of memory, slopes are not kept.

    Results of norms that have fewer than `least_bytes` are made again all the same: a bias's sum that a product waits
    for is a launch of its own, where it is not with those of other layers.
    """

    level = "blu"
    least_bytes: int = 16 << 20

    def run(self, module: ir.Module) -> None:
        has_budget = budget_of(module) > 0
        for function in find(module, func.FuncOp):
            if FORWARD not in function.attributes:
                continue
            ahead = LateOps(function.entry_block, ir.IntegerAttr(function.attributes[FORWARD]).value)
            operations = list(ahead.early)
            self.count("norms", sum(self._keep_norm(ahead, item) for item in _named(operations, "layer_norm")))
            if not has_budget:
                self.count("slopes", sum(_keep_slope(ahead, item) for item in _named(operations, "gelu")))
            i64 = ir.IntegerType.get_signless(64)
            function.attributes[FORWARD] = ir.IntegerAttr.get(i64, ahead.num_forward)

    def _keep_norm(self, ahead: LateOps, norm: ir.Operation) -> bool:
        kept = _keep_standardized(ahead, norm)
        if kept is None or kept.again is kept.standard:
            return kept is not None
        if kept.again.size * stored_dtype(kept.again.value).bits // 8 >= self.least_bytes:
            for product in list(_products_of(kept.again.value)):
                _multiply_standardized(product, kept.standard, *map(Tensor, list(norm.operands)[1:]))
        return True


def _named(operations: Iterable[ir.Operation], name: str) -> Iterator[ir.Operation]:
    return (operation for operation in operations if operation.name == f"blu.{name}")


@dataclass(frozen=True)
class _Kept:
    """What a norm has standardized, in halves, and its result, made of that again."""

    standard: Tensor
    again: Tensor


def _keep_standardized(ahead: LateOps, norm: ir.Operation) -> _Kept | None:
    source, *scale = norm.operands
    rounding, closure = _rounding_of(norm), _closure_beside(ahead, norm)
    if rounding is None or closure is None or value_type(source).dtype != f32 or len(scale) == 1:
        return None
    result, half = rounding.results[0], stored_dtype(rounding.results[0])
    wide = [value for value in closure.given if value_type(value) == value_type(source)]
    if len(wide) != 1 or ahead.distance(result) <= LONGEST_WAY or not ahead.late_readers(result):
        return None
    ahead.move(closure, norm)
    with writing_before(norm):
        standard = ReducePrecision(Tensor(wide[0]), dtype=half, rounds_gradient=False)
    ahead.replace_late(wide[0], standard.value)
    if not scale:  # the result is what was standardized
        result.replace_all_uses_with(standard.value)
        return _Kept(standard, standard)
    with writing_before(rounding):
        weight, bias = map(Tensor, scale)
        again = ReducePrecision(standard * weight + bias, dtype=half, rounds_gradient=False)
    ahead.replace_late(result, again.value)
    return _Kept(standard, Tensor(again.value))


def _products_of(value: ir.Value) -> Iterator[ir.Operation]:
    """The products of a value's columns: gradients of weights."""
    rows = [value, *(item.results[0] for item in _readers(value, "reshape"))]
    for columns in (item.results[0] for row in rows for item in _readers(row, "transpose")):
        shape = value_type(columns).shape
        if len(shape) == 2 and shape[0] == value_type(value).shape[-1]:
            yield from (item for item in _readers(columns, "matmul") if item.operands[0] == columns)


def _readers(value: ir.Value, name: str) -> list[ir.Operation]:
    return [use.owner.operation for use in value.uses if use.owner.operation.name == f"blu.{name}"]


def _multiply_standardized(product: ir.Operation, standard: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Let a product have the columns of what was standardized, and its result be scaled and shifted as a norm does."""
    total = _column_sum(product.operands[1], product)
    if total is None:
        return
    result, uses = product.results[0], list(product.results[0].uses)
    with writing_before(product):
        width, length = value_type(product.operands[0]).shape
        product.operands[0] = transpose(reshape(standard, length, width), 1, 0).value
    with writing_after(product):
        scaled = Tensor(result) * reshape(weight, width, 1) + reshape(bias, width, 1) * Tensor(total)
    for use in uses:
        use.owner.operation.operands[use.operand_number] = scaled.value


def _column_sum(value: ir.Value, before: ir.Operation) -> ir.Value | None:
    """The sum of a value's rows that an op has made before another one: the gradient of a bias."""
    while not isinstance(value.owner, ir.Block):
        for total in _readers(value, "sum"):
            axes = list(ir.DenseI64ArrayAttr(total.attributes["axes"]))
            if axes == list(range(len(value_type(value).shape) - 1)) and total.is_before_in_block(before):
                return total.results[0] if len(value_type(total.results[0]).shape) == 1 else None
        maker = value.owner.operation
        if maker.name not in ("blu.reshape", "blu.reduce_precision"):
            return None
        value = maker.operands[0]
    return None


def _keep_slope(ahead: LateOps, gelu: ir.Operation) -> bool:
    source, result = gelu.operands[0], gelu.results[0]
    rounding, closure = _rounding_of(gelu), _closure_beside(ahead, gelu)
    stored = [source, result if rounding is None else rounding.results[0]]
    if closure is None or len(closure.given) != 1 or any(stored_dtype(value).bits != 16 for value in stored):
        return False
    slope = closure.given[0]
    if value_type(slope) != value_type(source).with_dtype(f32):
        return False
    ahead.move(closure, gelu)
    _read_unrounded(source, {gelu, *closure.operations})
    with writing_before(gelu):
        code = NearestByte(Tensor(slope) * float(_STEPS), above=_ZERO)
    with writing_before(ahead.late_readers(slope)[0]):
        again = code.astype(f32) * (1 / _STEPS) - _ZERO / _STEPS
    ahead.replace_late(slope, again.value)
    return True


def _read_unrounded(value: ir.Value, readers: set[ir.Operation]) -> None:
    """Have these read what a product gives as it is, not in halves: if nobody else reads it, nobody stores it."""
    if value.owner.name == "blu.reduce_precision" and {use.owner.operation for use in value.uses} <= readers:
        value.replace_all_uses_with(value.owner.operands[0])


def _rounding_of(operation: ir.Operation) -> ir.Operation | None:
    """The op that rounds a result to halves, where nothing else reads it."""
    readers = [use.owner.operation for use in operation.results[0].uses]
    return readers[0] if len(readers) == 1 and readers[0].name == "blu.reduce_precision" else None


def _closure_beside(ahead: LateOps, operation: ir.Operation) -> Closure | None:
    """What late ops compute of the operand of an op alone, unless `blu.checkpoint` says what is to be kept of it."""
    source = operation.operands[0]
    if isinstance(source.owner, ir.Block) or Mark.of(operation) is not None:
        return None
    return ahead.closure_of(source)

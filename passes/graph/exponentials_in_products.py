"""The pass that lets a product of logits make the exponentials that its loss's gradient is made of."""

from __future__ import annotations

from collections.abc import Callable
from math import exp

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import bf16, f32
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, emitting_at, is_pure, value_type
from blu.dialects.ops.index_check import CheckedIndex
from blu.dialects.ops.indexing import Take
from blu.dialects.ops.loss import LARGEST_LOSS, SettleRows
from blu.dialects.ops.precision import ReducePrecision
from blu.dialects.tensor.arithmetic import matmul, where
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find

ALIGNED = 8
"""Rows of so many halves are copied as kernels that add up rows of exponentials want them."""
SMALLEST_SUM = 1e-30
"""Rounded sums of more than this are no 0."""
GROWTH = 8
"""A product is large compared to what it is the product of from this ratio on."""


@dataclass(frozen=True)
class ExponentialsInProducts(Pass):
    """What is computed from logits for a cross entropy and its gradient is begun by the product that makes them.

        %logits = "blu.matmul"(%x, %w)                              (of bf16, and rounded to that)
        %loss = "blu.cross_entropy"(%logits, %targets)
        %g = ...                                                    (softmax less 1 at the target, times %share)
        %dx = "blu.matmul"(%g, %w_transposed)
        %dw = "blu.matmul"(%x_transposed, %g)

    becomes, with the targets' logits, %reference, computed before,

        %e = exp(%logits - %reference)
        %terms, %sums, %loss = "blu.settle_rows"(%e, sum of %e, ..)
        %scale = %share / %sums
        %dx = "blu.matmul"(%terms, %w_transposed) * %scale
        %dw = "blu.matmul"((%x * %scale) transposed, %terms)

    so that no kernel reads all logits to write a gradient of that size: the product's own one has each number only once
    before it is rounded, and sums of rows are small. Only of products of bf16, which holds such exponentials, with more
    than `smallest_bytes` of them, and whose logits nobody else reads.
    """

    level = "blu"
    smallest_bytes: int = 1 << 28

    def run(self, module: ir.Module) -> None:
        for function in find(module, func.FuncOp):
            for loss in [] if function.is_external else find(function, "blu.cross_entropy"):
                head = LogitsHead.of(loss.operation, self.smallest_bytes)
                if head is not None:
                    head.write()
                    self.count("gradients of losses begun in products")


@dataclass(frozen=True)
class LogitsHead:
    """A product `x w^T`, the loss of it, and the gradient of the logits [N, V]: `share` [N, 1] times softmax less one.

    `x` and `w` are rounded; `of_x` and `of_w` are products of the gradient. `end` is the op that makes it.
    """

    product: ir.Operation
    loss: ir.Operation
    end: ir.Operation
    share: ir.Value
    x: ir.Value
    w: ir.Value
    of_x: list[ir.Operation]
    of_w: list[ir.Operation]

    @classmethod
    def of(cls, loss: ir.Operation, smallest_bytes: int) -> LogitsHead | None:
        """What there is around a loss; None where it is not of that form."""
        product = _behind(loss.operands[0], _is_view)
        if product is None or product.name != "blu.matmul" or not _is_large(product, smallest_bytes):
            return None
        turned = _behind(product.operands[1], _is_barrier)
        if turned is None or turned.name != "blu.transpose":
            return None
        gradient = _gradient_of(product, loss)
        if gradient is None:
            return None
        end, share = gradient
        x, w = _origin(product.operands[0]), _origin(turned.operands[0])
        found = _readers(end.results[0])
        of_x = [item for item in found if _is_product_with(item, w)]
        of_w = [item for item in found if _is_product_of_turned(item, x)]
        if not found or not _is_rounded(x) or not _is_rounded(w) or len(of_x) + len(of_w) != len(found):
            return None
        return cls(product, loss, end, share, x, w, of_x, of_w)

    def write(self) -> None:
        """Write the other form, and drop this one."""
        with emitting_at(self.loss.location):
            with ir.InsertionPoint(self.loss):
                terms, sums, others, loss = self._settled()
            with ir.InsertionPoint(self.end):
                share = Tensor(self.share)
                scale = share * (_unrounded(others) / sums).reshape(share.shape)
                wide = terms.astype(f32)
        for operation in self.of_x:
            with ir.InsertionPoint(operation), emitting_at(operation.location):
                # bf16 has the exponents of f32, so rows need no factor before they are rounded.
                made = matmul(wide, Tensor(operation.operands[1]), "bf16")
                scaled = ReducePrecision(made, dtype=bf16, rounds_gradient=False) * scale
            operation.results[0].replace_all_uses_with(scaled.value)
            _drop_roundings(scaled.value)
        for operation in self.of_w:
            with ir.InsertionPoint(operation), emitting_at(operation.location):
                x = ReducePrecision(self._x * scale, dtype=bf16, rounds_gradient=False)
                made = matmul(x.transpose(1, 0), wide, "bf16")
            operation.results[0].replace_all_uses_with(made.value)
        self.loss.results[0].replace_all_uses_with(loss.value)
        for operation in (*self.of_x, *self.of_w, self.loss):
            _drop(operation)

    @property
    def _x(self) -> Tensor:
        """The rows [N, K]."""
        x = Tensor(self.x)
        return x.reshape((x.size // x.shape[-1], x.shape[-1]))

    def _settled(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Terms, their sums, those without targets' as they were before rows were settled, and losses of all rows."""
        logits, given = Tensor(self.loss.operands[0]), Tensor(self.loss.operands[1])
        is_kept = given != attributes_of(self.loss)["ignore_index"]
        targets = where(is_kept, given, 0)
        checked = CheckedIndex([targets], sizes=(logits.shape[1],), from_end=False, reported_as="cross_entropy")
        x, w = self._x.astype(bf16), Tensor(self.w).astype(bf16)
        picked = Take(w, checked, axis=0).astype(f32)
        reference = (x.astype(f32) * picked).sum(axis=1)
        product = Tensor(self.product.results[0]).reshape(logits.shape)
        powers = (product - reference.expand_dims(1)).exp()
        others = (powers.sum(axis=1) - 1.0).maximum(0.0)
        terms, sums, loss = SettleRows(powers.astype(bf16), others, x, w, targets)
        return terms, sums, others, where(is_kept, loss, 0.0)


def _unrounded(others: Tensor) -> Tensor:
    """What the term at a row's target is to be multiplied by, so that it is as large as it was before it was rounded.

    It is by far the largest of most rows. Of those that are formed again, and of none, it is 1.
    """
    rounded = ReducePrecision(others, dtype=bf16, rounds_gradient=False)
    ratio = where(others > SMALLEST_SUM, others / rounded, 1.0)
    return where(others <= exp(LARGEST_LOSS), ratio, 1.0)


def _drop(operation: ir.Operation) -> None:
    """Erase an op that nothing reads, and what only it has read."""
    made = list(dict.fromkeys(filter(None, map(_maker, operation.operands))))
    operation.erase()
    for maker in made:
        if is_pure(maker) and not any(list(result.uses) for result in maker.results):
            _drop(maker)


def _drop_roundings(value: ir.Value) -> None:
    """Let what rounds a value to bf16 pass it on: it is made of what is rounded, and nobody stores it."""
    for operation in (use.owner.operation for use in list(value.uses)):
        if _is_view(operation):
            _drop_roundings(operation.results[0])
            if not _is_moved(operation):
                operation.results[0].replace_all_uses_with(operation.operands[0])
                operation.erase()


def _is_large(product: ir.Operation, smallest_bytes: int) -> bool:
    given, made = value_type(product.operands[0]), value_type(product.results[0])
    is_of_halves = attributes_of(product)["precision"] == "bf16" and made.dtype == f32
    is_aligned = not given.shape[-1] % ALIGNED and not made.shape[-1] % ALIGNED
    return is_of_halves and is_aligned and 2 * made.size > smallest_bytes and made.size >= GROWTH * given.size


def _is_barrier(operation: ir.Operation) -> bool:
    return operation.name == "blu.barrier"


def _is_moved(operation: ir.Operation) -> bool:
    return operation.name in ("blu.reshape", "blu.barrier")


def _is_view(operation: ir.Operation) -> bool:
    """Whether an op gives the same numbers, or those rounded to bf16."""
    is_rounded = operation.name == "blu.reduce_precision" and attributes_of(operation)["dtype"] == bf16
    return is_rounded or _is_moved(operation)


def _maker(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _made_by(value: ir.Value, name: str) -> ir.Operation | None:
    """The op of that name that makes a value."""
    maker = _maker(value)
    return maker if maker is not None and maker.name == f"blu.{name}" else None


def _origin(value: ir.Value, is_passed: Callable[[ir.Operation], bool] = _is_moved) -> ir.Value:
    """A value before ops of some kinds."""
    while (maker := _maker(value)) is not None and is_passed(maker):
        value = maker.operands[0]
    return value


def _behind(value: ir.Value, is_passed: Callable[[ir.Operation], bool]) -> ir.Operation | None:
    """What makes a value, before ops of some kinds."""
    return _maker(_origin(value, is_passed))


def _is_rounded(value: ir.Value) -> bool:
    rounding = _made_by(value, "reduce_precision")
    return rounding is not None and _is_view(rounding)


def _readers(value: ir.Value) -> list[ir.Operation]:
    """What reads a value, or that reshaped, rounded or behind a barrier."""
    found = []
    for operation in (use.owner.operation for use in value.uses):
        found += _readers(operation.results[0]) if _is_view(operation) else [operation]
    return list(dict.fromkeys(found))


def _only_reader(value: ir.Value, name: str) -> ir.Operation | None:
    users = [use.owner.operation for use in value.uses]
    return users[0] if len(users) == 1 and users[0].name == f"blu.{name}" else None


def _gradient_of(product: ir.Operation, loss: ir.Operation) -> tuple[ir.Operation, ir.Value] | None:
    """The op that makes the gradient of logits as a cross entropy's, and what its rows are multiplied by [N, 1]."""
    others = [item for item in _readers(product.results[0]) if item != loss]
    if sorted(item.name for item in others) != ["blu.max", "blu.subtract"]:
        return None
    largest, shifted = sorted(others, key=lambda item: item.name)
    if shifted.operands[1] != largest.results[0] or not _is_by_rows(largest):
        return None
    weights = _only_reader(shifted.results[0], "exp")
    readers = [] if weights is None else [use.owner.operation for use in weights.results[0].uses]
    if weights is None or sorted(item.name for item in readers) != ["blu.multiply", "blu.sum"]:
        return None
    scaled, total = sorted(readers, key=lambda item: item.name)
    ratio = _only_reader(total.results[0], "divide")
    end = _only_reader(scaled.results[0], "subtract")
    if ratio is None or end is None or not _is_by_rows(total) or ratio.operands[1] != total.results[0]:
        return None
    share = ratio.operands[0]
    is_scaled = list(scaled.operands) == [weights.results[0], ratio.results[0]]
    is_gradient = is_scaled and end.operands[0] == scaled.results[0] and _is_at_target(end.operands[1], share, loss)
    return (end, share) if is_gradient else None


def _is_by_rows(operation: ir.Operation) -> bool:
    attributes = attributes_of(operation)
    return tuple(attributes["axes"]) == (1,) and attributes["keepdims"]


def _is_at_target(value: ir.Value, share: ir.Value, loss: ir.Operation) -> bool:
    """Whether a value is a row's share at its target, and 0 elsewhere."""
    choice = _made_by(value, "where")
    if choice is None or choice.operands[1] != share:
        return False
    compared, nothing = _made_by(choice.operands[0], "equal"), _made_by(choice.operands[2], "constant")
    if compared is None or nothing is None or attributes_of(nothing)["value"].any():
        return False
    counted, (rows,) = _made_by(compared.operands[0], "iota"), value_type(loss.operands[1]).shape
    is_counted = counted is not None and attributes_of(counted)["axis"] == 1
    is_column = value_type(compared.operands[1]).shape == value_type(share).shape == (rows, 1)
    return is_counted and is_column and _origin(compared.operands[1]) == _origin(loss.operands[1])


def _is_product_with(operation: ir.Operation, w: ir.Value) -> bool:
    """Whether rows of the gradient are multiplied by the weights."""
    return operation.name == "blu.matmul" and _origin(operation.operands[1]) == w and _is_of_rows(operation)


def _is_of_rows(operation: ir.Operation) -> bool:
    return len(value_type(operation.operands[0]).shape) == 2 and attributes_of(operation)["precision"] == "bf16"


def _is_product_of_turned(operation: ir.Operation, x: ir.Value) -> bool:
    """Whether it is x^T times the gradient."""
    if operation.name != "blu.matmul" or not _is_of_rows(operation):
        return False
    turned = _behind(operation.operands[0], _is_barrier)
    if turned is None or turned.name != "blu.transpose":
        return False
    return _origin(turned.operands[0]) == x and len(value_type(turned.operands[0]).shape) == 2

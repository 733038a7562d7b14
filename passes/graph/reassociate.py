"""Sums put in another order, where that takes less memory or time: results change by rounding only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import computing_dtype, f32, f64, product
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, emitting_at, is_pure, operands_of, value_type
from blu.dialects.tensor.tensor import Tensor
from blu.passes.framework.base import Pass, find
from blu.passes.framework.bodies import blocks_of
from blu.passes.graph.simplify.narrowing import narrow_before_copies
from blu.passes.graph.simplify.rules import Site, emit, made_by, splat_of
from blu.passes.graph.simplify.shapes import transpose_of_parts
from blu.passes.graph.split_reductions import LONG, REDUCTIONS, SEARCHES, reduced, split, split_dot

# Sums of all elements of tensors from this size on are formed in two steps, the first of which has many rows.
LARGE_SUM = 1 << 14
# A product is large compared to the sum that it runs over from this ratio of its sizes to that one.
LARGE_PRODUCT = 4
# Parts that are looked for in a tree of sums.
MOST_PARTS = 8
Rule = Callable[[ir.Operation], ir.Value | None]


@dataclass(frozen=True)
class Reassociate(Pass):
    """The gradient of a shared table is added to in place, and norms of products do without the product.

        %1 = "blu.scatter_add"(%zeros, %indices, %updates)
        %2 = "blu.add"(%0, %1)

    becomes

        %2 = "blu.scatter_add"(%0, %indices, %updates)

    The squares of a product over few terms, |A B|^2 with A [m, k] and B [k, n], are those of its Gram matrices,
    sum(A^T A * B B^T), formed in f64, so that more digits are right than in a sum of f32 squares. A weight's gradient
    is such a product: where only the optimizer is left to read it, it can be formed inside of the update, and gradients
    need never be in memory together. Sums of all elements of a large tensor are sums of the sums of rows. Parts
    that are padded with zeros and added are put side by side. Reductions of few rows of `longest` elements or more are
    cut into parts (see `split_reductions`).
    """

    level = "blu"
    longest: int = LONG

    def run(self, module: ir.Module) -> None:
        rules: dict[str, Rule] = {"blu.add": _add}
        rules |= {f"blu.{name}": self._cut for name in (*REDUCTIONS, *SEARCHES, "matmul")}
        rules |= {f"blu.{name}": _of_parts for name in ("transpose", "convert")}
        for block in [block for function in find(module, func.FuncOp) for block in blocks_of(function)]:
            for operation in [item.operation for item in block.operations if item.name in rules]:
                with ir.InsertionPoint(operation), emitting_at(operation.location):
                    value = rules[operation.name](operation)
                if value is not None:
                    operation.results[0].replace_all_uses_with(value)
                    operation.erase()
                    self.count("sums")
            _erase_unused(block)

    def _cut(self, operation: ir.Operation) -> ir.Value | None:
        """A sum of all elements in two steps; a reduction of few long rows in parts."""
        if operation.name == "blu.sum" and (total := _sum_of_all(operation, self.longest)) is not None:
            return total
        return (split_dot if operation.name == "blu.matmul" else split)(operation, self.longest)


def _erase_unused(block: ir.Block) -> None:
    for operation in reversed([item.operation for item in block.operations]):
        if is_pure(operation) and not any(list(result.uses) for result in operation.results):
            operation.erase()


def _add(operation: ir.Operation) -> ir.Value | None:
    added = _add_into(operation)
    return _side_by_side(operation) if added is None else added


def _side_by_side(operation: ir.Operation) -> ir.Value | None:
    """Parts that are padded with zeros and added, as gradients of slices are: concatenated where they fill the sum."""
    parts = _padded_parts(operation)
    if not parts:
        return None
    target = value_type(operation.results[0]).shape
    cut = {axis for part in parts for axis, size in enumerate(part.source_type.shape) if size != target[axis]}
    if len(cut) != 1:
        return None
    (axis,) = cut
    parts.sort(key=lambda part: part.attributes["low"][axis])
    end = 0
    for part in parts:
        if part.attributes["low"][axis] != end:
            return None
        end += part.source_type.shape[axis]
    return emit("concatenate", [part.operands[0] for part in parts], axis=axis) if end == target[axis] else None


def _of_parts(operation: ir.Operation) -> ir.Value | None:
    """What is done with parts that were put side by side just now is done with each."""
    site = Site(operation)
    return (transpose_of_parts if site.name == "transpose" else narrow_before_copies)(site)


def _padded_parts(operation: ir.Operation) -> list[Site]:
    """The pads by zeros that a tree of sums adds; none where it adds anything else."""
    parts: list[Site] = []
    waiting = list(operation.operands)
    while waiting:
        value = waiting.pop()
        pad, inner = made_by(value, "pad"), made_by(value, "add")
        if not _is_used_once(value) or value_type(value) != value_type(operation.results[0]):
            return []
        if pad is not None and splat_of(pad.operands[1]) == 0:
            parts.append(pad)
        elif inner is not None and len(parts) < MOST_PARTS:
            waiting.extend(inner.operands)
        else:
            return []
    return parts


def _add_into(operation: ir.Operation) -> ir.Value | None:
    """Add to rows of a value rather than to zeros which are then added to it."""
    for base, share in (operation.operands, reversed(list(operation.operands))):
        scattered = made_by(share, "scatter_add")
        if scattered is None or value_type(base) != value_type(share) or not _is_used_once(share):
            continue
        zeros, indices, updates = scattered.operands
        if splat_of(zeros) == 0 and _is_used_once(base):
            return emit("scatter_add", base, indices, updates, **scattered.attributes)
    return None


def _is_used_once(value: ir.Value) -> bool:
    return len(list(value.uses)) == 1


def _sum_of_all(operation: ir.Operation, longest: int) -> ir.Value | None:
    (operand,) = operands_of(operation)
    type_, attributes = value_type(operand), attributes_of(operation)
    is_full = len(attributes["axes"]) == type_.ndim and not attributes["keepdims"]
    if not is_full or type_.ndim < 2 or type_.size < LARGE_SUM or not type_.dtype.is_float:
        return None
    if (norm := _norm_of_product(operand)) is not None:
        return norm
    wide = Tensor(operand).astype(computing_dtype(type_.dtype))
    rows = reduced("sum", wide, (type_.ndim - 1,), longest)
    return reduced("sum", rows, tuple(range(type_.ndim - 1)), longest).astype(type_.dtype).value


def _norm_of_product(squares: ir.Value) -> ir.Value | None:
    """The sum of the squares of a product over few terms, without the product."""
    square = made_by(squares, "square")
    product_ = square and made_by(square.operands[0], "matmul")
    if not product_ or product_.type.ndim != 2 or product_.type.dtype != f32:
        return None
    left, right = (Tensor(value) for value in product_.operands)
    terms = left.shape[-1]
    if left.ndim != 2 or right.ndim != 2 or not 0 < LARGE_PRODUCT * terms <= min(product_.type.shape):
        return None
    left, right = left.astype(f64), right.astype(f64)
    grams = (left.swapaxes(0, 1) @ left) * (right @ right.swapaxes(0, 1))
    assert product(grams.shape) == terms * terms
    # Rounding may leave a sum that should be 0 below it.
    return emit("maximum", grams.sum().astype(f32).value, emit("constant", value=np.zeros((), np.float32)))

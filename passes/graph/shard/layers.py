"""Ops that kernels take whole: their rows, batches and heads may be split, what they look at together may not."""

from __future__ import annotations

from blu.dialects.sharding import Sharding, Splits
from blu.passes.graph.decompose import decompose_operation
from blu.passes.graph.shard.placed import Placed
from blu.passes.graph.shard.rules import Case, everywhere, shards


class DecomposedError(Exception):
    """The op was written in simpler ones, which are to be sharded in its place."""


@shards("softmax", "log_softmax", "argmax", "argmin", "cumsum", "gelu", "silu", "layer_norm", "rms_norm")
def shard_rows(case: Case) -> list[Placed]:
    """The first operand may be split in all dimensions but that which the op goes along; the others are whole."""
    case.sum_up()
    value = case.present[0]
    axis = case.attributes.get("axis", value.type.ndim - 1)
    goes_along = case.cls.name not in ("gelu", "silu") and value.type.ndim > 0
    wanted = value.sharding.with_dim(axis, ()) if goes_along else value.sharding
    case.bring(lambda item, number: wanted if number == 0 else Sharding.whole(item.type.ndim))
    types = case.cls.infer_all(case.types, case.attributes)
    if types[0].ndim == value.type.ndim:
        return case.emit([wanted])
    return case.emit([Sharding((*wanted.dims[:axis], *wanted.dims[axis + 1 :]))])


@shards("cross_entropy")
def shard_cross_entropy(case: Case) -> list[Placed]:
    """Rows may be split as they are; where classes are, the loss is written in simpler ops, which find out together."""
    case.sum_up()
    logits, _ = case.operands
    rows, classes = logits.sharding.dims
    if classes:
        decompose_operation(case.operation)
        raise DecomposedError
    case.bring_one(0, Sharding((rows, ())))
    case.bring_one(1, Sharding((rows,)))
    return case.emit([Sharding((rows,))])


@shards("attention", "attention_gradient")
def shard_attention(case: Case) -> list[Placed]:
    """Batches and heads may be split, alike in queries, keys and values."""
    case.sum_up()
    tensors = [value for value in case.operands if value is not None]
    leading = [value.sharding.dims[:-2] for value in tensors[:3]]
    if any(value is not None for value in case.operands[-2:]):
        return everywhere(case)  # masks and offsets are of whole programs that write text
    wanted = _split_alike(case, leading)
    case.bring(lambda value, _: Sharding((*wanted, (), ())))
    types = case.cls.infer_all(case.types, case.attributes)
    return case.emit([Sharding((*wanted, (), ())) for _ in types])


def _split_alike(case: Case, leading: list[tuple[Splits, ...]]) -> tuple[Splits, ...]:
    """The splits of leading dimensions that fit all operands; heads of keys may be fewer than those of queries."""
    found = []
    for dim, splits in enumerate(leading[0]):
        sizes = [value.type.shape[dim] for value in case.present]
        ranks = [case.ranks(split.axis) for split in splits]
        fits = len(splits) <= 1 and all(size % count == 0 for size in sizes for count in ranks)
        found.append(splits if fits and all(split.groups == 1 for split in splits) else ())
    return tuple(found)

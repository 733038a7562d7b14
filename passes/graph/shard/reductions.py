"""Reductions and products: over what is split, each rank has a term of the result."""

from __future__ import annotations

from blu.dialects.ops.collective import AllReduce
from blu.dialects.sharding import Sharding, Splits
from blu.passes.graph.shard.placed import Placed
from blu.passes.graph.shard.rules import Case, shards


@shards("sum")
def shard_sum(case: Case) -> list[Placed]:
    """Ranks have terms of a sum over a dimension that is split."""
    [value] = case.present
    axes = case.attributes["axes"]
    over = tuple(split.axis for dim in axes for split in value.sharding.dims[dim])
    return case.emit([_reduced(case, value.sharding).with_partial((*value.sharding.partial, *over))])


@shards("max", "min")
def shard_extreme(case: Case) -> list[Placed]:
    """The largest, or smallest, of what ranks have found."""
    case.sum_up()
    [value] = case.present
    over = [split.axis for dim in case.attributes["axes"] for split in value.sharding.dims[dim]]
    [result] = case.emit([_reduced(case, value.sharding)])
    tensor = result.tensor
    for axis in over:
        tensor = AllReduce(tensor, axis=axis, ranks=case.ranks(axis), reduction=case.cls.name)
    return [Placed(tensor, result.sharding, result.type)]


@shards("Reduction")
def shard_reduction(case: Case) -> list[Placed]:
    """Other reductions are over whole dimensions."""
    case.sum_up()
    sharding = case.present[0].sharding
    for dim in case.attributes["axes"]:
        sharding = sharding.with_dim(dim, ())
    case.bring(lambda value, _: sharding)
    return case.emit([_reduced(case, sharding)])


def _reduced(case: Case, sharding: Sharding) -> Sharding:
    """What is left of a sharding when dimensions are reduced."""
    axes, keeps = case.attributes["axes"], case.attributes["keepdims"]
    dims = [() if dim in axes else splits for dim, splits in enumerate(sharding.dims)]
    return Sharding(tuple(splits for dim, splits in enumerate(dims) if keeps or dim not in axes), sharding.partial)


@shards("matmul")
def shard_matmul(case: Case) -> list[Placed]:
    """Rows, columns or the sum may be split, each over axes of its own.

    | left      | right     | result |
    |-----------|-----------|--------|
    | rows      | whole     | rows   |
    | whole     | columns   | columns |
    | k         | k         | a sum over the axis |
    | k, or whole | whole, or k | the other takes its part of k: a sum over the axis |
    | rows      | k or columns | the right side is gathered: rows |
    | rows of sequences that are split between products | k or columns | the left side is gathered: columns, or a sum |
    | k         | columns   | the left side is gathered: columns |
    """
    case.sum_up()
    left, right = case.operands
    if left.type.ndim < 2 or right.type.ndim != 2:
        return _with_whole_matrices(case)
    *rows, left_k = left.sharding.dims
    right_k, columns = right.sharding.dims
    rows = _rows_kept(case, rows, {split.axis for split in (*right_k, *columns)})
    taken = {split.axis for splits in rows for split in splits}
    right_k, columns = _without(right_k, taken), _without(columns, taken)
    taken |= {split.axis for split in columns}
    k = _without(left_k, taken) or _without(right_k, taken | {split.axis for split in left_k})
    case.bring_one(0, Sharding((*rows, k)))
    case.bring_one(1, Sharding((k, columns)))
    return case.emit([Sharding((*rows, columns), tuple(sorted(split.axis for split in k)))])


def _rows_kept(case: Case, rows: list[Splits], axes: set[str]) -> list[Splits]:
    """The splits of rows that a product keeps: not that of sequences if the weight is split over the same axis."""
    value, kept = case.operation.operands[0], []
    for dim, splits in enumerate(rows):
        between = case.movement.sequence.split_at(value, dim, splits)
        is_gathered = between is not None and between.axis in axes
        kept.append(tuple(split for split in splits if split != between) if is_gathered else splits)
    return kept


def _without(splits: Splits, axes: set[str]) -> Splits:
    """Splits, unless one is over these axes."""
    return () if {split.axis for split in splits} & axes else splits


def _with_whole_matrices(case: Case) -> list[Placed]:
    """Many products: leading dimensions that both sides have may be split, matrices not."""
    left, right = case.operands
    rank = max(left.type.ndim, right.type.ndim)
    if left.type.ndim == right.type.ndim and rank > 2 and left.type.shape[:-2] == right.type.shape[:-2]:
        leading = left.sharding.dims[:-2]
        wanted = Sharding((*leading, (), ()))
        case.bring(lambda value, _: wanted)
        return case.emit([wanted])
    case.bring(lambda value, _: Sharding.whole(value.type.ndim))
    [type_] = case.cls.infer_all(case.types, case.attributes)
    return case.emit([Sharding.whole(type_.ndim)])

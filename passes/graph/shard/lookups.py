"""Lookups in tables: a rank that has some of the rows finds those, and has zeros in place of the others."""

from __future__ import annotations

from blu.dialects.ops.index_check import CheckedIndex
from blu.dialects.sharding import Sharding, Split, Splits
from blu.dialects.tensor.arithmetic import greater_equal, less, logical_and, where
from blu.dialects.tensor.arrangement import reshape
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.shard.placed import Placed, is_zero
from blu.passes.graph.shard.rules import Case, shards


@shards("take")
def shard_take(case: Case) -> list[Placed]:
    """Indices may be split, and so may the table: in other dimensions than the one of indices, or in that one."""
    case.sum_up()
    table, indices = case.operands
    axis, taken = case.attributes["axis"], {split.axis for splits in indices.sharding.dims for split in splits}
    dims = [splits if not {split.axis for split in splits} & taken else () for splits in table.sharding.dims]
    dims[axis] = _in_order(dims[axis])
    case.bring_one(0, Sharding(tuple(dims)))
    rows = dims[axis]
    result = Sharding((*dims[:axis], *indices.sharding.dims, *dims[axis + 1 :]))
    if not rows:
        return case.emit([result])
    [split] = rows
    mine, is_mine = _own(case, indices.tensor, table.type.shape[axis], split, "take")
    case.operands[1] = Placed(mine, indices.sharding, indices.type)
    [found] = case.emit([result])
    shown = reshape(is_mine, (*(1,) * axis, *is_mine.shape, *(1,) * (table.type.ndim - axis - 1)))
    kept = where(shown, found.tensor, as_tensor(0, table.type.dtype))
    return [Placed(kept, result.with_partial((split.axis,)), found.type)]


@shards("take_along_axis")
def shard_take_along_axis(case: Case) -> list[Placed]:
    """Other dimensions are split alike; along the axis a rank finds what it has."""
    case.sum_up()
    table, indices = case.operands
    axis = case.attributes["axis"]
    others = [splits if dim != axis else () for dim, splits in enumerate(indices.sharding.dims)]
    case.bring_one(1, Sharding(tuple(others)))
    along = _in_order(table.sharding.dims[axis])
    case.bring_one(0, Sharding(tuple(others)).with_dim(axis, along))
    result = Sharding(tuple(others))
    if not along:
        return case.emit([result])
    [split] = along
    placed = case.operands[1]
    mine, is_mine = _own(case, placed.tensor, table.type.shape[axis], split, "take_along_axis")
    case.operands[1] = Placed(mine, placed.sharding, placed.type)
    [found] = case.emit([result])
    kept = where(is_mine, found.tensor, as_tensor(0, table.type.dtype))
    return [Placed(kept, result.with_partial((split.axis,)), found.type)]


@shards("scatter_add")
def shard_scatter_add(case: Case) -> list[Placed]:
    """Over updates that are split each rank adds its own: ranks have terms of the sum.

    Where the rows of what is added to are split, each rank adds what belongs to its rows; zeros are split as what the
    result will meet.
    """
    indices = case.operands[1]
    axis, count = case.attributes["axis"], indices.type.ndim
    target, updates = _split_zeros(case, range(axis, axis + count))
    case.bring_one(2, updates.sharding.with_partial(()))
    case.bring_one(1, Sharding(case.operands[2].sharding.dims[axis : axis + count]))
    over = tuple(split.axis for splits in case.operands[1].sharding.dims for split in splits)
    dims = [splits if not {split.axis for split in splits} & set(over) else () for splits in target.sharding.dims]
    dims[axis] = rows = _in_order(dims[axis])
    result = Sharding(tuple(dims), tuple(sorted({*over, *target.sharding.partial})))
    case.bring_one(0, result)
    # Of an operand that was whole in some dimension each rank takes its part; updates follow.
    lead, rest = tuple(dims[:axis]), tuple(dims[axis + 1 :])
    case.bring_one(2, Sharding((*lead, *case.operands[1].sharding.dims, *rest)))
    if set(target.sharding.partial) - set(over):
        for name in set(target.sharding.partial) - set(over):
            case.operands[2] = case.movement.as_term(case.operands[2], name)
        case.operands[2] = Placed(case.operands[2].tensor, case.operands[2].sharding.with_partial(()), updates.type)
    if rows:
        _keep_own_updates(case, rows[0], axis)
    return case.emit([result])


def _keep_own_updates(case: Case, split: Split, axis: int) -> None:
    """Let updates of rows that other ranks have be zeros, added to a row of this one."""
    target, indices, updates = case.operands
    mine, is_mine = _own(case, indices.tensor, target.type.shape[axis], split, "scatter_add")
    shown = reshape(is_mine, (*(1,) * axis, *is_mine.shape, *(1,) * (target.type.ndim - axis - 1)))
    kept = where(shown, updates.tensor, as_tensor(0, updates.type.dtype))
    case.operands[1] = Placed(mine, indices.sharding, indices.type)
    case.operands[2] = Placed(kept, updates.sharding, updates.type)


def _split_zeros(case: Case, dims: range) -> tuple[Placed, Placed]:
    """What is added to, and updates: zeros are split as what the result will meet, and whole rows are added to them."""
    target, _, updates = case.operands
    met = case.wish or case.companion
    rows = _in_order(met.dims[dims.start]) if met is not None and is_zero(target) else ()
    if rows:
        case.bring_one(0, Sharding.whole(target.type.ndim).with_dim(dims.start, rows))
        case.bring_one(2, _without_rows(updates.sharding, rows[0].axis, dims))
    return case.operands[0], case.operands[2]


def _without_rows(sharding: Sharding, axis: str, dims: range) -> Sharding:
    """The sharding without splits of these dimensions over an axis."""
    for dim in dims:
        sharding = sharding.with_dim(dim, tuple(split for split in sharding.dims[dim] if split.axis != axis))
    return sharding.with_partial(())


def _in_order(splits: Splits) -> Splits:
    """The split of rows of which each rank has one part; none where they are split in other ways."""
    return splits if len(splits) == 1 and splits[0].is_plain else ()


def _own(case: Case, indices: Tensor, size: int, split: Split, name: str) -> tuple[Tensor, Tensor]:
    """Indices in what this rank has of a dimension, 0 for those that it has not, and whether it has them."""
    checked = CheckedIndex([indices], sizes=(size,), from_end=True, reported_as=name)
    part = size // case.ranks(split.axis)
    mine = checked - case.movement.index(split.axis).astype(checked.dtype) * part
    is_mine = logical_and(greater_equal(mine, 0), less(mine, part))
    return where(is_mine, mine, as_tensor(0, checked.dtype)).astype(indices.dtype), is_mine

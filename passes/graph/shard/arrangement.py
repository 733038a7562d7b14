"""Ops that arrange elements: what is split stays so, as far as the parts of ranks are parts of the result."""

from __future__ import annotations

from dataclasses import replace

from blu.dialects.core.dtypes import product
from blu.dialects.sharding import Sharding, Splits, in_order
from blu.passes.graph.shard.placed import Placed, is_zero
from blu.passes.graph.shard.reshaping import moved_split
from blu.passes.graph.shard.rules import Case, shards


@shards("transpose")
def shard_transpose(case: Case) -> list[Placed]:
    """Splits go where their dimensions go."""
    [value] = case.present
    dims = tuple(value.sharding.dims[dim] for dim in case.attributes["permutation"])
    return case.emit([Sharding(dims, value.sharding.partial)])


@shards("reshape")
def shard_reshape(case: Case) -> list[Placed]:
    """Dimensions that become one, or several, keep a split where each rank's part still is one."""
    [value] = case.present
    shape = case.attributes["shape"]
    found: list[Splits] = [()] * len(shape)
    kept: list[Splits] = [()] * value.type.ndim
    for source, splits in enumerate(value.sharding.dims):
        for split in splits:
            place = moved_split(split, source, value.type.shape, shape, case.ranks(split.axis))
            if place is not None:
                kept[source] = (*kept[source], split)
                target, moved = place
                found[target] = in_order([*found[target], moved])
    case.bring(lambda item, _: Sharding(tuple(kept), item.sharding.partial))
    result = Sharding(tuple(found), value.sharding.partial)
    local = result.local(value.type.with_shape(shape), case.movement.mesh).shape
    return case.emit([result], shape=local)


@shards("broadcast_to")
def shard_broadcast_to(case: Case) -> list[Placed]:
    """Dimensions that are repeated are whole."""
    [value] = case.present
    shape = case.attributes["shape"]
    lead = len(shape) - value.type.ndim
    dims = ((),) * lead + value.sharding.dims
    result = Sharding(dims, value.sharding.partial)
    return case.emit([result], shape=result.local(value.type.with_shape(shape), case.movement.mesh).shape)


@shards("slice")
def shard_slice(case: Case) -> list[Placed]:
    """Of a split dimension all of it may be taken, or some of the groups that are split alike."""
    [value] = case.present
    starts, limits, strides = ([*case.attributes[name]] for name in ("starts", "limits", "strides"))
    kept, dims = [], []
    for dim, (size, splits) in enumerate(zip(value.type.shape, value.sharding.dims, strict=True)):
        taken = _taken_groups(size, splits, starts[dim], limits[dim], strides[dim])
        kept.append(splits if taken is not None else ())
        dims.append(taken or ())
        if taken:
            ranks = product(case.ranks(split.axis) for split in splits)
            starts[dim], limits[dim] = starts[dim] // ranks, limits[dim] // ranks
    case.bring(lambda item, _: Sharding(tuple(kept), item.sharding.partial))
    result = Sharding(tuple(dims), value.sharding.partial)
    return case.emit([result], starts=tuple(starts), limits=tuple(limits))


def _taken_groups(size: int, splits: Splits, start: int, limit: int, stride: int) -> Splits | None:
    """The splits of a slice of a dimension; None where it cuts what a rank has."""
    if not splits or (start == 0 and limit == size and stride == 1):
        return splits
    [split, *others] = splits
    if others or stride != 1 or split.groups == (2 if split.mirrored else 1):
        return None
    block, least = size // split.groups, 2 if split.mirrored else 1
    if start % (least * block) or limit % (least * block) or limit <= start:
        return None
    return (replace(split, groups=(limit - start) // block),)


@shards("pad")
def shard_pad(case: Case) -> list[Placed]:
    """A split dimension may get whole groups as large as its own before and behind it, which are split alike."""
    value, filling = case.operands
    low, high = [*case.attributes["low"]], [*case.attributes["high"]]
    case.bring_one(1, filling.sharding.with_partial(()))
    is_linear = is_zero(filling)
    kept, dims = [], []
    for dim, (size, splits) in enumerate(zip(value.type.shape, value.sharding.dims, strict=True)):
        padded = _padded_groups(size, splits, low[dim], high[dim])
        kept.append(splits if padded is not None else ())
        dims.append(padded or ())
        if padded and (low[dim] or high[dim]):
            ranks = case.ranks(splits[0].axis)
            low[dim], high[dim] = low[dim] // ranks, high[dim] // ranks
    partial = value.sharding.partial if is_linear else ()
    case.bring_one(0, Sharding(tuple(kept), partial))
    return case.emit([Sharding(tuple(dims), partial)], low=tuple(low), high=tuple(high))


def _padded_groups(size: int, splits: Splits, low: int, high: int) -> Splits | None:
    if not splits or (low == 0 and high == 0):
        return splits
    [split, *others] = splits
    block = size // split.groups * (2 if split.mirrored else 1)
    if others or low % block or high % block or low < 0 or high < 0:
        return None
    return (replace(split, groups=split.groups + (low + high) * split.groups // size),)


@shards("concatenate")
def shard_concatenate(case: Case) -> list[Placed]:
    """Along a whole dimension; others are split as the first operand's."""
    if len({value.sharding.partial for value in case.present}) > 1:
        case.sum_up()
    first = case.present[0].sharding
    wanted = first.with_dim(case.attributes["axis"], ())
    case.bring(lambda value, _: Sharding(wanted.dims, value.sharding.partial))
    return case.emit([wanted])


@shards("reverse")
def shard_reverse(case: Case) -> list[Placed]:
    """Dimensions that are reversed are whole."""
    [value] = case.present
    sharding = value.sharding
    for axis in case.attributes["axes"]:
        sharding = sharding.with_dim(axis, ())
    case.bring(lambda item, _: sharding)
    return case.emit([sharding])

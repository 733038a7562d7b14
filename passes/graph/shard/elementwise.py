"""Ops on elements: ranks that have the same parts of all operands need nothing of each other."""

from __future__ import annotations

from collections.abc import Callable

from blu.dialects.core.dtypes import product
from blu.dialects.sharding import Sharding, Splits
from blu.passes.graph.shard.placed import Placed, is_zero
from blu.passes.graph.shard.rules import Case, agreed, shards


@shards(
    "Pointwise",
    "where",
    "clip",
    "convert",
    "barrier",
    "stop_gradient",
    "reduce_precision",
    "nearest_byte",
    "checked_index",
)
def shard_elementwise(case: Case) -> list[Placed]:
    """Operands in one sharding: that of the first that is split. A sum over ranks stays one if the op is linear."""
    shape = case.cls.infer_all(case.types, case.attributes)[0].shape
    partial = _kept_partial(case)
    if not partial:
        case.bring(lambda value, _: _summed(value, case.wish, shape))
    taken = set(partial)
    dims = []
    for place in range(-len(shape), 0):
        candidates = [_splits_at(value, place) for value in case.present if _size_at(value, place) == shape[place]]
        dims.append(agreed([*candidates, _met_at(case, place, shape)], taken))
    result = Sharding(tuple(dims), partial)
    case.bring(lambda value, _: _under(result, value))
    return case.emit([result])


def _kept_partial(case: Case) -> tuple[str, ...]:
    """The axes over which the result may be a sum of terms that ranks have; operands are made such sums for it."""
    rule = _LINEAR.get(case.cls.name)
    if rule is None or not any(value.is_partial for value in case.present) or not rule(case):
        return ()
    return tuple(sorted({axis for value in case.present for axis in value.sharding.partial}))


def _is_sum(case: Case) -> bool:
    """Whether all operands are sums over the same axes; scalars that are none are made ones."""
    first, second = (set(value.sharding.partial) for value in case.present)
    if first == second:
        return True
    are_scalars = all(product(value.type.shape) == 1 for value in case.present)
    if are_scalars:
        axes = tuple(sorted(first | second))
        case.bring(lambda value, _: value.sharding.with_partial(axes))
    return are_scalars


def _is_choice(case: Case) -> bool:
    """Whether a condition that all ranks agree on chooses between sums over the same axes."""
    condition, *chosen = case.present
    sums = {value.sharding.partial for value in chosen if not is_zero(value)}
    return not condition.is_partial and len(sums) == 1


def _is_factor(case: Case) -> bool:
    return sum(value.is_partial for value in case.present) == 1


def _is_numerator(case: Case) -> bool:
    """A quotient is linear in its numerator; what divides is added up. So a loss travels when it is returned."""
    case.bring(lambda value, number: value.sharding.with_partial(()) if number else value.sharding)
    return True


def _is_widened(case: Case) -> bool:
    """Whether a conversion loses nothing of the terms."""
    source, target = case.present[0].type.dtype, case.attributes["dtype"]
    return target.is_float and (not source.is_float or target.bytes >= source.bytes)


_LINEAR: dict[str, Callable[[Case], bool]] = {
    "add": _is_sum,
    "subtract": _is_sum,
    "multiply": _is_factor,
    "divide": _is_numerator,
    "negative": lambda case: True,
    "barrier": lambda case: True,
    "stop_gradient": lambda case: True,
    "convert": _is_widened,
    "where": _is_choice,
}


def _met_at(case: Case, place: int, shape: tuple[int, ...]) -> Splits:
    """How a dimension is split of what the result will meet, where the op makes it of smaller ones.

    So classes are compared with those that a rank has, where logits are split.
    """
    is_made_here = all(value.type.shape != shape for value in case.present)
    return case.companion.dims[place] if case.companion is not None and is_made_here else ()


def _summed(value: Placed, wish: Sharding | None, shape: tuple[int, ...]) -> Sharding:
    """Where a sum over ranks is going to be needed in parts, only these are made of it."""
    summed = value.sharding.with_partial(())
    if not value.is_partial or wish is None or value.type.shape != shape:
        return summed
    for dim, splits in enumerate(wish.dims):
        wanted = tuple(split for split in splits if split.axis in value.sharding.partial)
        if wanted and not summed.dims[dim]:
            summed = summed.with_dim(dim, wanted)
    return summed


def _size_at(value: Placed, place: int) -> int:
    shape = value.type.shape
    return shape[place] if -place <= len(shape) else 1


def _splits_at(value: Placed, place: int) -> Splits:
    dims = value.sharding.dims
    return dims[place] if -place <= len(dims) else ()


def _under(result: Sharding, value: Placed) -> Sharding:
    """The sharding of an operand that is broadcast to the result."""
    rank = value.type.ndim
    if not rank:
        return Sharding((), value.sharding.partial)
    dims = tuple(
        splits if size != 1 else () for size, splits in zip(value.type.shape, result.dims[-rank:], strict=True)
    )
    return Sharding(dims, value.sharding.partial)

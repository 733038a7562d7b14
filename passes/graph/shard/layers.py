"""Ops that kernels take whole: their rows, batches and heads may be split, what they look at together may not."""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.dialects.core.op import operands_of
from blu.dialects.sharding import Sharding, Splits
from blu.passes.graph.decompose import decompose_operation
from blu.passes.graph.shard.placed import Placed
from blu.passes.graph.shard.ring import RingAttention
from blu.passes.graph.shard.rules import Case, everywhere, shards


class DecomposedError(Exception):
    """The op was written in simpler ones, which are to be sharded in its place."""


@shards(
    *("softmax", "log_softmax", "argmax", "argmin", "gelu", "silu", "layer_norm", "rms_norm"),
    *("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
)
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


@shards("recurrence")
def shard_recurrence(case: Case) -> list[Placed]:
    """Decays are split as their terms are, in all dimensions but that which the op goes along."""
    case.sum_up()
    wanted = case.operands[1].sharding.with_dim(case.attributes["axis"], ())
    case.bring(lambda item, number: wanted)
    return case.emit([wanted])


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


@shards("standardize")
def shard_standardize(case: Case) -> list[Placed]:
    """It is written in simpler ops, whose sums ranks find out together."""
    decompose_operation(case.operation)
    raise DecomposedError


@shards("attention")
def shard_attention(case: Case) -> list[Placed]:
    """Batches, heads and positions may be split, alike in queries, keys and values."""
    case.sum_up()
    if any(value is not None for value in case.operands[3:]):
        return everywhere(case)  # masks and offsets are of whole programs that write text
    wanted = _attended(case, *case.operands[:3])
    case.bring(lambda value, _: wanted)
    if not wanted.dims[-2]:
        return case.emit([wanted])
    # Equal ops are one later on, but not what they exchange.
    same = (*case.operation.operands, *case.attributes.items())
    if same not in case.movement.kept:
        case.movement.kept[same] = _ring(case, wanted).forward(*(value.tensor for value in case.operands[:3]))
    result, sums = case.movement.kept[same]
    case.movement.kept[case.operation.results[0]] = (wanted, sums)
    return case.placed([result], [wanted])


@shards("attention_gradient")
def shard_attention_gradient(case: Case) -> list[Placed]:
    """As attention, whose sums are used again."""
    case.sum_up()
    if any(value is not None for value in case.operands[5:]):
        return everywhere(case)
    wanted = _attended(case, *case.operands[1:4])
    case.bring(lambda value, _: wanted)
    if not wanted.dims[-2]:
        return case.emit([wanted] * 3)
    kept, sums = case.movement.kept.get(_behind_barriers(operands_of(case.operation)[4]), (None, None))
    g, query, key, value, result = (item.tensor for item in case.operands[:5])
    results = _ring(case, wanted).backward(g, query, key, value, result, sums if kept == wanted else None)
    dtype = case.cls.infer_all(case.types, case.attributes)[0].dtype
    return case.placed([item.astype(dtype) for item in results], [wanted] * 3)


def _behind_barriers(value: ir.Value) -> ir.Value:
    """What a value is that passes only keep from being computed at another time."""
    while not isinstance(value.owner, ir.Block) and value.owner.name == "blu.barrier":
        value = value.owner.operands[list(value.owner.results).index(value)]
    return value


def _ring(case: Case, wanted: Sharding) -> RingAttention:
    attributes = {name: case.attributes[name] for name in ("causal", "scale", "precision")}
    return RingAttention(case.movement, wanted.dims[-2][0], **attributes)


def _attended(case: Case, query: Placed, key: Placed, value: Placed) -> Sharding:
    """How queries, keys and values are split, and so their result."""
    leading = _split_alike(case, query, key, value)
    taken = {split.axis for splits in leading for split in splits}
    positions = query.sharding.dims[-2]
    lengths = {item.type.shape[-2] for item in (query, key)}
    is_square = len(lengths) == 1 or not case.attributes["causal"]
    if len(positions) != 1 or positions[0].axis in taken or not is_square:
        return Sharding((*leading, (), ()))
    [split] = positions
    least = 2 if split.mirrored else 1
    is_even = all(length and length % (least * case.ranks(split.axis)) == 0 for length in lengths)
    return Sharding((*leading, positions if is_even and split.groups == least else (), ()))


def _split_alike(case: Case, *tensors: Placed) -> tuple[Splits, ...]:
    """The splits of leading dimensions that fit all operands; heads of keys may be fewer than those of queries."""
    found = []
    for dim, splits in enumerate(tensors[0].sharding.dims[:-2]):
        sizes = [value.type.shape[dim] for value in tensors]
        ranks = [case.ranks(split.axis) for split in splits]
        fits = len(splits) <= 1 and all(size % count == 0 for size in sizes for count in ranks)
        found.append(splits if fits and all(split.groups == 1 for split in splits) else ())
    return tuple(found)

"""Values of a program while it is rewritten for one rank, and how they are brought from one sharding to another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from blu.dataclass import dataclass, field
from blu.dialects.core.constants import decode
from blu.dialects.core.dtypes import DType, TensorType, i32, product
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import attributes_of
from blu.dialects.ops.collective import AllGather, AllReduce, AxisIndex, ReduceScatter
from blu.dialects.ops.indexing import DynamicSlice
from blu.dialects.sharding import PERMUTE, Sharding, Split, Splits, in_order, local_groups
from blu.dialects.tensor.arithmetic import equal, where
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, flip, moveaxis, reshape
from blu.dialects.tensor.arrangement import split as split_tensor
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.passes.graph.shard.recomputed import part_of
from blu.passes.graph.shard.sequence_axis import SequenceAxis
from blu.plan.mesh import Mesh


@dataclass(frozen=True)
class Placed:
    """A value: what this rank has of it, its sharding, and the type of the whole."""

    tensor: Tensor
    sharding: Sharding
    type: TensorType

    @property
    def is_partial(self) -> bool:
        """Whether ranks have terms of a sum."""
        return bool(self.sharding.partial)

    def __repr__(self) -> str:
        return f"Placed({self.type}, '{self.sharding}')"


@dataclass
class Movement:
    """Brings values to other shardings, with collectives where ranks need what others have."""

    mesh: Mesh
    sequence: SequenceAxis
    """Where the rows of sequences are (passes/graph/shard/sequence_axis.py)."""
    rotation: str = PERMUTE
    """How keys and values come to all ranks that have queries (passes/graph/shard/rotation.py)."""
    kept: dict[Any, Any] = field(default_factory=dict)
    """What rules keep of values of the old program for others that read these."""
    _indices: dict[str, Tensor] = field(default_factory=dict)

    def index(self, axis: str) -> Tensor:
        """Which rank of an axis this one is."""
        if axis not in self._indices:
            self._indices[axis] = AxisIndex(axis=axis, ranks=self.mesh.ranks(axis))
        return self._indices[axis]

    def to(self, value: Placed, wanted: Sharding) -> Placed:
        """The value in a sharding: sums first, then what is gathered, then what is split."""
        value = self._untangled(value, wanted)
        order = [split.axis for splits in wanted.dims for split in splits]
        for axis in sorted(value.sharding.partial, key=lambda axis: order.index(axis) if axis in order else len(order)):
            if axis not in wanted.partial:
                value = self._summed(value, axis, wanted)
        for dim, split in reversed(_missing(value.sharding, wanted)):
            value = self._gathered(value, dim, split)
        for dim, split in _missing(wanted, value.sharding):
            value = self._part_of(value, dim, split)
        for axis in [axis for axis in wanted.partial if axis not in value.sharding.partial]:
            value = self.as_term(value, axis)
        assert value.sharding == wanted, f"{value} is not in '{wanted}'"
        return value

    def _untangled(self, value: Placed, wanted: Sharding) -> Placed:
        """Dimensions gathered of which a split could not go, or come, without those that lie inside of it."""
        for dim, (has, wants) in enumerate(zip(value.sharding.dims, wanted.dims, strict=True)):
            same = next((at for at, pair in enumerate(zip(has, wants, strict=False)) if pair[0] != pair[1]), None)
            same = min(len(has), len(wants)) if same is None else same
            others = {*has[same:], *wants[same:]}
            if all(self._are_apart(one, other) for one in others for other in others if one != other):
                continue
            for split in reversed(has[same:]):
                value = self._gathered(value, dim, split)
        return value

    def _are_apart(self, one: Split, other: Split) -> bool:
        """Whether each part of one of two splits of a dimension is whole groups of the other."""
        outer, inner = in_order([one, other])
        return inner.groups % (outer.groups * self.mesh.ranks(outer.axis)) == 0

    def as_term(self, value: Placed, axis: str) -> Placed:
        """A value as a sum over an axis, of which the first rank has all; zeros are a sum of zeros."""
        kept = value.tensor
        if not is_zero(value):
            kept = where(equal(self.index(axis), 0), kept, as_tensor(0, value.type.dtype))
        return replace(value, tensor=kept, sharding=value.sharding.with_partial((*value.sharding.partial, axis)))

    def _summed(self, value: Placed, axis: str, wanted: Sharding) -> Placed:
        """The sum over an axis: all of it, or only the part that is wanted."""
        rest = tuple(other for other in value.sharding.partial if other != axis)
        sharding = value.sharding.with_partial(rest)
        for dim, splits in enumerate(wanted.dims):
            for at, split in enumerate(splits):
                missing = set(splits[:at]) - set(value.sharding.dims[dim])
                if split.axis == axis and all(self._are_apart(split, other) for other in missing):
                    return self._scattered(replace(value, sharding=sharding), dim, split)
        total = AllReduce(value.tensor, axis=axis, ranks=self.mesh.ranks(axis), reduction="sum")
        return replace(value, tensor=total, sharding=sharding)

    def _scattered(self, value: Placed, dim: int, split: Split) -> Placed:
        splits = in_order([*value.sharding.dims[dim], split])
        ranks = self.mesh.ranks(split.axis)
        parts = self._in_parts(value.tensor, dim, local_groups(splits, split, self.mesh), ranks)
        parts = _mirrored(parts, dim, split)
        mine = ReduceScatter(moveaxis(parts, dim + 1, 0), axis=split.axis, ranks=ranks, reduction="sum")
        merged = _merged(reshape(mine, mine.shape[1:]), dim, 2)
        return replace(value, tensor=merged, sharding=value.sharding.with_dim(dim, splits))

    def _gathered(self, value: Placed, dim: int, split: Split) -> Placed:
        """All of a dimension that is split over an axis; what is rounded to fewer bits travels in these."""
        narrow = _rounded_to(value.tensor.value)
        if narrow is not None:
            gathered = self._gathered(replace(value, tensor=value.tensor.astype(narrow)), dim, split)
            return replace(gathered, tensor=gathered.tensor.astype(value.type.dtype))
        splits = value.sharding.dims[dim]
        groups, ranks = local_groups(splits, split, self.mesh), self.mesh.ranks(split.axis)
        rest = tuple(other for other in splits if other != split)
        local = value.tensor
        if dim == 0 and groups == 1:
            whole = AllGather(local, axis=split.axis, ranks=ranks)
            return replace(value, tensor=whole, sharding=value.sharding.with_dim(dim, rest))
        shape = (*local.shape[:dim], groups, local.shape[dim] // groups, *local.shape[dim + 1 :])
        gathered = AllGather(reshape(local, (1, *shape)), axis=split.axis, ranks=ranks)
        merged = _merged(_mirrored(moveaxis(gathered, 0, dim + 1), dim, split), dim, 3)
        return replace(value, tensor=merged, sharding=value.sharding.with_dim(dim, rest))

    def _part_of(self, value: Placed, dim: int, split: Split) -> Placed:
        """This rank's part of a dimension."""
        splits = in_order([*value.sharding.dims[dim], split])
        if is_zero(value):
            sharding = value.sharding.with_dim(dim, splits)
            return zeros(value.type, sharding, self.mesh)
        tensor = part_of(value.tensor, lambda whole: self._cut(whole, dim, splits, split))
        return replace(value, tensor=tensor, sharding=value.sharding.with_dim(dim, splits))

    def _cut(self, tensor: Tensor, dim: int, splits: Splits, split: Split) -> Tensor:
        """What a rank keeps of a dimension that is split as well."""
        parts = self._in_parts(tensor, dim, local_groups(splits, split, self.mesh), self.mesh.ranks(split.axis))
        parts = _mirrored(parts, dim, split)
        starts = [as_tensor(0, i32)] * len(parts.shape)
        starts[dim + 1] = self.index(split.axis)
        sizes = tuple(1 if at == dim + 1 else size for at, size in enumerate(parts.shape))
        return _merged(DynamicSlice(parts, starts, sizes=sizes), dim, 3)

    def _in_parts(self, tensor: Tensor, dim: int, groups: int, ranks: int) -> Tensor:
        """A dimension as three: groups, ranks, and what a rank has of a group."""
        size = tensor.shape[dim]
        inner = size // (groups * ranks)
        return reshape(tensor, (*tensor.shape[:dim], groups, ranks, inner, *tensor.shape[dim + 1 :]))


def _merged(tensor: Tensor, dim: int, parts: int) -> Tensor:
    """A tensor of which so many dimensions, from one on, become one."""
    size = product(tensor.shape[dim : dim + parts])
    return reshape(tensor, (*tensor.shape[:dim], size, *tensor.shape[dim + parts :]))


def zeros(type_: TensorType, sharding: Sharding, mesh: Mesh) -> Placed:
    """Zeros as a rank has them, of a whole of this type."""
    local = sharding.local(type_, mesh)
    return Placed(broadcast_to(as_tensor(0, type_.dtype), local.shape), sharding, type_)


def is_zero(value: Placed) -> bool:
    """Whether a value is zeros, which are a sum of zeros as well."""
    owner = value.tensor.value.owner
    while not isinstance(owner, ir.Block) and owner.name in ("blu.broadcast_to", "blu.reshape"):
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "blu.constant":
        return False
    return not decode(owner.attributes["value"]).any()


def _rounded_to(value: ir.Value) -> DType | None:
    """The dtype to which a tensor was rounded, which still has more bits."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in ("blu.reshape", "blu.transpose", "blu.barrier"):
        value = value.owner.operands[0]
    if isinstance(value.owner, ir.Block) or value.owner.name != "blu.reduce_precision":
        return None
    return attributes_of(value.owner)["dtype"]


def _mirrored(parts: Tensor, dim: int, split: Split) -> Tensor:
    """Groups x ranks in dimensions `dim` and the next: ranks of every second group in reverse order, if it is so."""
    if not split.mirrored:
        return parts
    pairs = reshape(parts, (*parts.shape[:dim], parts.shape[dim] // 2, 2, *parts.shape[dim + 1 :]))
    fronts, backs = split_tensor(pairs, 2, dim + 1)
    return reshape(concatenate([fronts, flip(backs, dim + 2)], dim + 1), parts.shape)


def _missing(sharding: Sharding, other: Sharding) -> list[tuple[int, Split]]:
    """The splits, with their dimensions, that another sharding does not have."""
    pairs = [(dim, split) for dim, splits in enumerate(sharding.dims) for split in splits]
    return [(dim, split) for dim, split in pairs if split not in other.dims[dim]]

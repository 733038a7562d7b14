"""How a tensor is laid out over the ranks of a mesh.

    "*, dp"          dimension 1 is split over axis dp: each rank has one of equal parts, in the order of ranks
    "tp/3, *"        dimension 0 is three parts, each of which is split over tp, as queries, keys and values in one
    "* + dp"         each rank has a term; the tensor is their sum over dp
    "dp tp, *"       dimension 0 is split over dp, and each part over tp
    "*, cp~"         dimension 1 is twice as many parts as ranks: the first rank has the first and the last of them,
                     the next one the second and the last but one, and so on

What is not mentioned is the same on all ranks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Protocol, Self, TypeVar

import numpy as np

from blu.dataclass import dataclass
from blu.errors import ShapeError
from blu.plan.mesh import Mesh

_SPLIT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(~)?(?:/([1-9][0-9]*))?")


class _TensorType(Protocol):
    """What shardings need to know of a type of tensors."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def ndim(self) -> int: ...

    def with_shape(self, shape: Sequence[int]) -> Self:
        """The same with another shape."""
        ...


Whole = TypeVar("Whole", bound=_TensorType)


@dataclass(frozen=True)
class Split:
    """Of each of `groups` equal parts of a dimension, each rank of an axis has an equal part, in order.

    With `mirrored`, of every second group in reverse order: there are 2 groups, or a multiple.
    """

    axis: str
    groups: int = 1
    mirrored: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether ranks have one part each, in order."""
        return self.groups == 1

    def __str__(self) -> str:
        name, least = (f"{self.axis}~", 2) if self.mirrored else (self.axis, 1)
        return name if self.groups == least else f"{name}/{self.groups}"


Splits = tuple[Split, ...]
"""Those of one dimension, the outermost first."""


@dataclass(frozen=True)
class Sharding:
    """The splits of each dimension, and the axes over which ranks have terms of a sum."""

    dims: tuple[Splits, ...]
    partial: tuple[str, ...] = ()

    @classmethod
    def whole(cls, rank: int) -> Sharding:
        """The same on all ranks."""
        return cls(((),) * rank)

    @classmethod
    def parse(cls, text: str) -> Sharding:
        """What a text says. ShapeError for what is no sharding."""
        dims, *partial = (part.strip() for part in text.split("+"))
        try:
            splits = [_parse_splits(item) for item in dims.split(",")] if dims else []
        except ValueError as error:
            raise ShapeError(f"{error} in the sharding {text!r}", advice=_ADVICE) from None
        found = cls(tuple(splits), tuple(sorted(partial)))
        twice = {axis for axis in found.axes if found.axes.count(axis) > 1}
        if twice or not all(map(str.isidentifier, partial)):
            raise ShapeError(f"the sharding {text!r} has an axis twice, or a name that is none", advice=_ADVICE)
        return found

    @property
    def axes(self) -> list[str]:
        """All axes that it mentions."""
        return [split.axis for splits in self.dims for split in splits] + list(self.partial)

    def with_dim(self, dim: int, splits: Splits) -> Sharding:
        """The same with other splits of a dimension."""
        return Sharding((*self.dims[:dim], splits, *self.dims[dim + 1 :]), self.partial)

    def with_partial(self, partial: tuple[str, ...]) -> Sharding:
        """The same with terms of a sum over other axes."""
        return Sharding(self.dims, tuple(sorted(partial)))

    def local(self, type_: Whole, mesh: Mesh) -> Whole:
        """What a rank has of a tensor. ShapeError where that cannot be split like this."""
        return type_.with_shape(self.local_shape(type_.shape, mesh, str(type_)))

    def local_shape(self, shape: Sequence[int], mesh: Mesh, name: str = "") -> tuple[int, ...]:
        """The shape of what a rank has of a tensor of this shape, which errors call by `name`."""
        if len(self.dims) != len(shape):
            name = name or f"a tensor {list(shape)}"
            raise ShapeError(f"the sharding '{self}' has {len(self.dims)} dimensions, and {name} has {len(shape)}")
        for axis in self.axes:
            if axis not in dict(mesh.axes):
                known = ", ".join(name for name, _ in mesh.axes) or "none"
                raise ShapeError(f"the sharding '{self}' has the axis {axis!r}; those of the mesh: {known}")
        return tuple(_local_size(size, splits, mesh) for size, splits in zip(shape, self.dims, strict=True))

    def indices(self, shape: Sequence[int], mesh: Mesh, rank: int) -> tuple[np.ndarray, ...]:
        """Which indices of each dimension of a whole tensor a rank has, in the order in which it has them."""
        place = mesh.coordinates(rank)
        found = []
        for size, splits in zip(shape, self.dims, strict=True):
            own = np.arange(size)
            for split in splits:
                parts = own.reshape(local_groups(splits, split, mesh), mesh.ranks(split.axis), -1)
                if split.mirrored:
                    parts = np.stack([part[::-1] if at % 2 else part for at, part in enumerate(parts)])
                own = parts[:, place.get(split.axis, 0)].reshape(-1)
            found.append(own)
        return tuple(found)

    def __str__(self) -> str:
        dims = ", ".join(" ".join(map(str, splits)) or "*" for splits in self.dims)
        return dims + "".join(f" + {axis}" for axis in self.partial)


_ADVICE = 'Write one item for each dimension, as in "dp, *", "*, tp/3" or "* + dp".'


def _parse_splits(item: str) -> Splits:
    if item.strip() == "*":
        return ()
    found = []
    for word in item.split():
        match = _SPLIT.fullmatch(word)
        if match is None:
            raise ValueError(f"{word!r} is no axis")
        mirrored = match[2] is not None
        groups = int(match[3] or (2 if mirrored else 1))
        if mirrored and groups % 2:
            raise ValueError(f"{word!r} is mirrored in an odd number of groups")
        found.append(Split(match[1], groups, mirrored))
    if not found:
        raise ValueError("a dimension says nothing")
    return in_order(found)


def first_of(shardings: Mapping[str, str], name: str) -> str | None:
    """The sharding of the first pattern that fits a name."""
    return next((text for pattern, text in shardings.items() if fnmatchcase(name, pattern)), None)


def in_order(splits: list[Split] | Splits) -> Splits:
    """Splits of a dimension, those of fewer groups first; of as many, as they are given."""
    return tuple(sorted(splits, key=lambda split: split.groups))


def local_groups(splits: Splits, split: Split, mesh: Mesh) -> int:
    """In how many parts a rank sees what `split` splits: those outside of it have taken their share."""
    outer = math.prod(mesh.ranks(other.axis) for other in splits if other.groups < split.groups)
    return max(1, split.groups // outer)


def _local_size(size: int, splits: Splits, mesh: Mesh) -> int:
    for split in splits:
        ranks = mesh.ranks(split.axis)
        parts = ranks * local_groups(splits, split, mesh)
        if size % parts:
            allowed = ", ".join(str(count) for count in range(1, 17) if size % (count * split.groups) == 0)
            raise ShapeError(
                f"a dimension of {size} elements cannot be split over {ranks} ranks of {split.axis}"
                f"{f' in {split.groups} groups' if split.groups > 1 else ''}",
                advice=f"These numbers of ranks divide it: {allowed or 'none'}.",
            )
        size //= ranks
    return size

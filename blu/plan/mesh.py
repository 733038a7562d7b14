"""A mesh: how the ranks of a program are arranged, by named axes.

    Mesh(dp=2, tp=4)            8 ranks; those of a tp axis are neighbours: 0 1 2 3 | 4 5 6 7

Ranks are counted as NumPy counts the elements of an array of this shape: the last axis goes fastest.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from blu.dataclass import dataclass
from blu.errors import ArgumentError
from blu.plan.reading import entries, natural, require, text

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_RANKS = 1 << 20


@dataclass(frozen=True, init=False)
class Mesh:
    """Named axes with their sizes, in the order in which they are given. A mesh of no axes is one rank."""

    axes: tuple[tuple[str, int], ...]

    def __init__(self, **axes: int) -> None:
        for name, size in axes.items():
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ArgumentError(f"the axis {name!r} of a mesh is a number of ranks, got {size!r}")
        if math.prod(axes.values()) > MAX_RANKS:
            raise ArgumentError(f"a mesh of {math.prod(axes.values())} ranks is more than {MAX_RANKS}")
        object.__setattr__(self, "axes", tuple(axes.items()))

    @classmethod
    def parse(cls, plan: Mapping[str, Any]) -> Mesh:
        """The mesh of a plan, where it has one. CacheError where it is damaged."""
        found: dict[str, int] = {}
        for entry in entries(plan, "mesh") if "mesh" in plan else ():
            name = text(entry.get("axis"), "an axis of the mesh")
            require(bool(_NAME.fullmatch(name)) and name not in found, f"an axis of the mesh is {name!r}")
            found[name] = natural(entry.get("ranks"), f"the ranks of the axis {name}", MAX_RANKS)
            require(found[name] >= 1, f"the axis {name} of the mesh has no ranks")
        require(math.prod(found.values()) <= MAX_RANKS, "the mesh has too many ranks")
        return cls(**found)

    def to_json(self) -> list[dict[str, Any]]:
        """What `parse` reads."""
        return [{"axis": name, "ranks": size} for name, size in self.axes]

    @classmethod
    def of_text(cls, given: str) -> Mesh:
        """The mesh that a text such as "dp=2,tp=2" says, or "" for one rank."""
        sizes: dict[str, int] = {}
        for item in filter(None, (part.strip() for part in given.split(","))):
            name, equals, size = (part.strip() for part in item.partition("="))
            if not equals or not _NAME.fullmatch(name) or not size.isdigit() or name in sizes:
                raise ArgumentError(f"a mesh is written as dp=2,tp=4, got {given!r}")
            sizes[name] = int(size)
        return cls(**sizes)

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(size for _, size in self.axes)

    def ranks(self, axis: str) -> int:
        """The size of an axis; 1 for one that the mesh does not have."""
        return dict(self.axes).get(axis, 1)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank is on each axis."""
        found, rest = {}, rank
        for name, size in reversed(self.axes):
            rest, found[name] = divmod(rest, size)
        return {name: found[name] for name, _ in self.axes}

    def first_holder(self, rank: int, axes: Iterable[str]) -> int:
        """The first of the ranks that are where `rank` is along `axes`, wherever they are along the others."""
        place = self.coordinates(rank)
        kept, found = set(axes), 0
        for name, size in self.axes:
            found = found * size + (place[name] if name in kept else 0)
        return found

    def peers(self, axis: str, rank: int) -> tuple[int, ...]:
        """The ranks along an axis through a rank, in the order of their coordinates."""
        step = 1
        for name, size in reversed(self.axes):
            if name == axis:
                first = rank - self.coordinates(rank)[axis] * step
                return tuple(range(first, first + size * step, step))
            step *= size
        return (rank,)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in self.axes)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.axes)})"

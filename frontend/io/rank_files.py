"""Arrays that several ranks have parts of, in a file for each rank, and read again in any other arrangement.

    ranks.json                  the mesh, and of each array its dtype, whole shape and sharding; the files
    rank-00000.safetensors      the parts that rank 0 has and no rank before it

A rank reads of these files (which are mapped) only what is its own, whatever ranks have written them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from blu.dataclass import dataclass, field
from blu.errors import ArgumentError, ShapeError, WeightsError
from blu.frontend.io.json_files import read_json
from blu.frontend.io.safetensors import load_file
from blu.plan.mesh import Mesh
from blu.plan.sharding import Sharding

INDEX = "ranks.json"
MAX_RANKS = 1000


def rank_file(rank: int) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:05d}.safetensors"


@dataclass(frozen=True)
class RankParts:
    """What one rank of a mesh has of arrays: its parts, and the shardings of those that are split."""

    mesh: Mesh
    rank: int
    arrays: Mapping[str, np.ndarray] = field(repr=False)
    shardings: Mapping[str, str] = field(repr=False)

    @property
    def own(self) -> dict[str, np.ndarray]:
        """The parts that no rank before this one has."""
        return {name: array for name, array in self.arrays.items() if self._holder(name) == self.rank}

    def index(self) -> dict[str, Any]:
        """What `ranks.json` says; the same on all ranks."""
        tensors = {
            name: {
                "dtype": array.dtype.name,
                "shape": list(self._whole(name, array)),
                "sharding": self.shardings.get(name, ""),
            }
            for name, array in self.arrays.items()
        }
        return {"mesh": str(self.mesh), "files": list(map(rank_file, range(self.mesh.size))), "tensors": tensors}

    def _axes(self, name: str) -> list[str]:
        return Sharding.parse(self.shardings[name]).axes if name in self.shardings else []

    def _holder(self, name: str) -> int:
        return self.mesh.first_holder(self.rank, self._axes(name))

    def _whole(self, name: str, array: np.ndarray) -> list[int]:
        sizes = list(array.shape)
        for dim, splits in enumerate(Sharding.parse(self.shardings[name]).dims if name in self.shardings else ()):
            for split in splits:
                sizes[dim] *= self.mesh.ranks(split.axis)
        return sizes


@dataclass(frozen=True)
class StoredParts:
    """An array in parts: each with the indices of each dimension that it has."""

    shape: tuple[int, ...]
    dtype: np.dtype
    parts: tuple[tuple[tuple[np.ndarray, ...], np.ndarray], ...] = field(repr=False)

    def take_parts(self, wanted: Sequence[np.ndarray]) -> np.ndarray:
        """The array at these indices of each dimension; nothing else is read."""
        found = np.empty([len(indices) for indices in wanted], self.dtype)
        for present, array in self.parts:
            pairs = [_places(*pair) for pair in zip(wanted, present, strict=True)]
            found[np.ix_(*(to for to, _ in pairs))] = array[np.ix_(*(source for _, source in pairs))]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        whole = self.take_parts([np.arange(size) for size in self.shape])
        return whole if dtype is None else whole.astype(dtype)


def _places(wanted: np.ndarray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the indices that both have are in each."""
    _, ours, theirs = np.intersect1d(wanted, present, assume_unique=True, return_indices=True)
    return ours, theirs


def load_rank_files(directory: Path, prefix: str = "") -> dict[str, StoredParts]:
    """The arrays in a directory whose names begin with `prefix`, by the rest of their names.

    Raises WeightsError, naming the file and the array, where the index and the files do not go together.
    """
    path = directory / INDEX
    index = read_json(path)
    try:
        mesh, entries = Mesh.of_text(str(index["mesh"])), dict(index["tensors"])
        files = [load_file(directory / rank_file(rank)) for rank in range(_count(path, mesh))]
        return {
            name.removeprefix(prefix): _stored(path, name, entry, mesh, files)
            for name, entry in entries.items()
            if name.startswith(prefix)
        }
    except (KeyError, TypeError, ValueError, ArgumentError, ShapeError) as error:
        raise WeightsError(f"{path}: a mesh and the tensors of its ranks were expected: {error}") from error


def _count(path: Path, mesh: Mesh) -> int:
    if mesh.size > MAX_RANKS:
        raise WeightsError(f"{path}: {mesh.size} ranks; at most {MAX_RANKS} are read")
    return mesh.size


def _stored(path: Path, name: str, entry: Any, mesh: Mesh, files: Sequence[Mapping[str, np.ndarray]]) -> StoredParts:
    shape, text = tuple(map(int, entry["shape"])), str(entry["sharding"])
    sharding = Sharding.parse(text) if text else Sharding.whole(len(shape))
    local, dtype, parts = sharding.local_shape(shape, mesh), np.dtype(str(entry["dtype"])), []
    for rank in range(mesh.size):
        if mesh.first_holder(rank, sharding.axes) != rank:
            continue
        found = files[rank].get(name)
        if found is None or found.shape != local or found.dtype != dtype:
            what = "nothing" if found is None else f"{found.dtype} {list(found.shape)}"
            raise WeightsError(f"{path}: {name} is {dtype} {list(local)} on rank {rank}, whose file has {what}")
        parts.append((sharding.indices(shape, mesh, rank), found))
    return StoredParts(shape, dtype, tuple(parts))

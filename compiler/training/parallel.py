"""How a training run is shared out among ranks: the shardings of what its programs take, and what a rank has of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from blu.dataclass import dataclass, field
from blu.errors import ArgumentError
from blu.frontend.io.gpt2 import SHARDINGS, expected_shapes, inner_width
from blu.plan.arrange import arrange
from blu.plan.mesh import Mesh
from blu.plan.sharding import Sharding

DATA_AXIS = "dp"
"""The axis of the mesh along which ranks have different sequences."""
TENSOR_AXIS = "tp"
"""That along which they share each layer."""
POSITION_AXIS = "cp"
"""That along which they have different positions of the same sequences."""
AXES = (DATA_AXIS, TENSOR_AXIS, POSITION_AXIS)
SHARDED = ("", "optimizer", "parameters")


@dataclass(frozen=True)
class RunLayout:
    """How the arrays of a run lie over the ranks of a mesh, seen from one of them.

    `sharded` says what ranks with different sequences share besides: nothing, the "optimizer"'s state (each updates a
    part of the parameters, and they are gathered), or the "parameters" with it (gathered where they are used). With
    `sequence_parallel`, ranks that share layers have parts of the positions where no product needs all of them.
    """

    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    mesh: Mesh = field(default_factory=Mesh)
    sharded: str = ""
    rank: int = 0
    sequence_parallel: bool = False

    @property
    def data_ranks(self) -> int:
        """How many parts a batch is cut into."""
        return self.mesh.ranks(DATA_AXIS)

    @cached_property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The whole parameters."""
        return expected_shapes(self.config) if self.config else {}

    @cached_property
    def shardings(self) -> dict[str, str]:
        """Those of the arrays that a run keeps and that are split, or terms of sums, by their names."""
        plain = arrange(self.shapes, self.mesh, SHARDINGS)
        split = arrange(self.shapes, self.mesh, SHARDINGS, over=DATA_AXIS)
        parameters = split if self.sharded == "parameters" else plain
        optimizer = split if self.sharded else plain
        found = {f"model.{name}": text for name, text in parameters.items()}
        found |= {f"state.{kind}.{name}": text for kind in ("m", "v") for name, text in optimizer.items()}
        return found | dict(self._sums(parameters))

    def _sums(self, parameters: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Gradients of micro-batches stay terms in the sums that each rank keeps, until the update adds them up; of
        parameters that are split over the data, each rank keeps the sum of its part."""
        axes = [axis for axis in (DATA_AXIS, POSITION_AXIS) if self.mesh.ranks(axis) > 1]
        yield "sums.loss", "".join(f" + {axis}" for axis in axes).strip()
        for name, shape in self.shapes.items():
            text = parameters.get(name, ", ".join("*" * len(shape)))
            partial = [axis for axis in axes if axis not in Sharding.parse(text).axes]
            yield f"sums.gradients.{name}", text + "".join(f" + {axis}" for axis in partial)

    def shardings_of(self, entry: str) -> dict[str, str]:
        """How the arguments of a training program lie."""
        if self.mesh.size == 1:
            return {}
        kept = {"step": ("model.", "state."), "micro": ("model.", "sums."), "evaluate": ("model.",)}
        prefixes = kept.get(entry, ("model.", "state.", "sums."))
        found = {name: text for name, text in self.shardings.items() if name.startswith(prefixes) and text}
        # Of positions, later ones have more to attend to: each rank has some of both ends.
        axes = {DATA_AXIS: DATA_AXIS, POSITION_AXIS: f"{POSITION_AXIS}~"}
        batch = ", ".join(text if self.mesh.ranks(axis) > 1 else "*" for axis, text in axes.items())
        return found if entry == "update" or batch == "*, *" else {**found, "tokens": batch, "targets": batch}

    def between_of(self, entry: str) -> dict[str, str]:
        """How rows of what a training program makes of its tokens are split between products."""
        if not self.is_sequence_split or entry == "update":
            return {}
        groups = self._positions_apart
        return {"tokens": f"*, {TENSOR_AXIS}" + (f"/{groups}" if groups > 1 else "")}

    @property
    def is_sequence_split(self) -> bool:
        """Whether ranks that share layers have parts of the positions between products."""
        return self.sequence_parallel and self.mesh.ranks(TENSOR_AXIS) > 1

    @property
    def _positions_apart(self) -> int:
        """In how many parts sequences are cut already, of which ranks of cp have two each."""
        ranks = self.mesh.ranks(POSITION_AXIS)
        return 2 * ranks if ranks > 1 else 1

    @property
    def is_split(self) -> bool:
        """Whether a rank has less than all of the parameters and of the optimizer's state."""
        kept = [text for name, text in self.shardings.items() if not name.startswith("sums.")]
        return self.mesh.size > 1 and bool(kept)

    @property
    def is_model_split(self) -> bool:
        """Whether a rank has less than all of the parameters."""
        return self.mesh.size > 1 and any(name.startswith("model.") for name in self.shardings)

    def sharding(self, name: str, dims: int) -> Sharding:
        """How an array that the run keeps lies."""
        text = self.shardings.get(name, "") if self.mesh.size > 1 else ""
        return Sharding.parse(text) if text else Sharding.whole(dims)

    def own(self, name: str, array: Any) -> np.ndarray:
        """What this rank has of a whole array: one in memory, or parts in files of which only those are read."""
        sharding = self.sharding(name, len(array.shape))
        if not any(sharding.dims):
            return np.asarray(array)
        indices = sharding.indices(array.shape, self.mesh, self.rank)
        return array.take_parts(indices) if hasattr(array, "take_parts") else np.asarray(array)[np.ix_(*indices)]

    def whole_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the whole of which each rank has this much."""
        dims = self.sharding(name, len(shape)).dims
        factors = [np.prod([self.mesh.ranks(split.axis) for split in splits], dtype=int) for splits in dims]
        return tuple(int(size * factor) for size, factor in zip(shape, factors, strict=True))

    def holder(self, name: str, rank: int) -> int:
        """The first rank that has the same part of an array as `rank`."""
        return self.mesh.first_holder(rank, self.sharding(name, 0).axes)

    def own_positions(self, batch: np.ndarray) -> np.ndarray:
        """This rank's positions of its sequences [B, T]."""
        ranks = self.mesh.ranks(POSITION_AXIS)
        if ranks == 1:
            return batch
        indices = Sharding.parse(f"*, {POSITION_AXIS}~").indices(batch.shape, self.mesh, self.rank)
        return np.ascontiguousarray(batch[:, indices[1]])

    def check(self, batch_size: int, length: int) -> None:
        """ArgumentError, with all reasons, where a run cannot be shared out like this."""
        if problems := [*self._problems(batch_size, length)]:
            message = f"the run cannot be shared out among ranks ({self.mesh}):"
            raise ArgumentError("\n    ".join((message, *problems)))

    def _problems(self, batch_size: int, length: int) -> Iterator[str]:
        unknown = [name for name, _ in self.mesh.axes if name not in AXES]
        if unknown:
            yield f"there is no axis {unknown[0]!r}: dp splits batches, tp layers, cp positions"
        if self.sharded not in SHARDED:
            yield f"{self.sharded!r} cannot be sharded: optimizer or parameters"
        if self.sharded and self.data_ranks == 1:
            yield f"the {self.sharded} can be sharded only among ranks of the axis dp, of which the mesh has one"
        yield from _divided(self.data_ranks, batch_size, "dp", "a batch of {} sequences", "take a batch of")
        positions = self.mesh.ranks(POSITION_AXIS)
        yield from _divided(positions, length, "cp", "sequences of {} tokens", "take a length of", pieces=2)
        if self.is_sequence_split:
            ranks = self.mesh.ranks(TENSOR_AXIS)
            yield from _divided(
                ranks, length, "tp", "sequences of {} tokens", "take a length of", pieces=self._positions_apart
            )
        yield from self._problems_of_layers(self.mesh.ranks(TENSOR_AXIS))

    def _problems_of_layers(self, ranks: int) -> Iterator[str]:
        config = self.config
        yield from _divided(ranks, config.get("n_head", ranks), "tp", "{} heads")
        yield from _divided(ranks, inner_width(config) if config else ranks, "tp", "an MLP of width {}")
        advice = "take a vocabulary (--vocab-size) of"
        yield from _divided(ranks, config.get("vocab_size", ranks), "tp", "a vocabulary of {}", advice)


def _divided(ranks: int, size: int, axis: str, what: str, advice: str = "", pieces: int = 1) -> Iterator[str]:
    """A line where ranks, who get so many pieces each, do not divide a size: the ranks that do, the nearest sizes."""
    parts = ranks * pieces
    if ranks == 1 or size % parts == 0:
        return
    nearest = [near for near in (size - size % parts, size + -size % parts) if near]
    counts = [count for count in range(1, min(size, 64) + 1) if count == 1 or size % (count * pieces) == 0]
    hint = f"; {advice} {' or '.join(map(str, nearest))}" if advice else ""
    can = f"{', '.join(map(str, counts))} {'ranks' if len(counts) > 1 else 'rank'} can"
    yield f"{what.format(size)} cannot be shared out among {ranks} ranks ({axis}); {can}{hint}"

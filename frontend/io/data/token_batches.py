"""Windows of tokens in batches, from a position that can be saved and restored exactly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from blu.errors import DataError
from blu.frontend.io.data.token_files import TokenFile
from blu.frontend.io.data.window_order import permuted

if TYPE_CHECKING:
    from blu.frontend.io.data.token_shards import TokenShards


class Batches(Iterator[tuple[np.ndarray, np.ndarray]]):
    """Pairs of tokens and targets, int32 [batch_size, length], without end or for some epochs.

    Windows follow each other in a file, `length` tokens apart. Every epoch visits each once: in order, or in a random
    order that `seed` and the epoch decide. A step may take the last windows of an epoch and the first of the next.
    """

    def __init__(
        self,
        shards: TokenShards,
        batch_size: int,
        length: int,
        seed: int = 0,
        shuffle: bool = True,
        epochs: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ):
        _check_sizes(batch_size, length, rank, world_size)
        self.shards, self.batch_size, self.length = shards, batch_size, length
        self.seed, self.shuffle, self.epochs = seed, shuffle, epochs
        self.rank, self.world_size = rank, world_size
        # Windows before file i: ends[i - 1].
        self._ends = np.cumsum(shards.windows_per_file(length))
        self.num_windows = int(self._ends[-1])
        self._position = 0
        self._prepared: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._check_enough()

    @property
    def windows_per_step(self) -> int:
        """The windows that one step of all ranks takes."""
        return self.batch_size * self.world_size

    @property
    def epoch(self) -> float:
        """How many times the data has been gone through so far."""
        return self._position / self.num_windows

    def state(self) -> dict[str, Any]:
        """The position after the last batch and what it refers to, as JSON."""
        return {"position": self._position, **self._identity()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken. Batch size and number of ranks may differ; the order stays the same.

        Raises one DataError that lists all differences between the data, or how it is cut and shuffled, then and now.
        """
        identity = self._identity()
        wrong = [
            f"{key}: {state.get(key)!r}, now {value!r}" for key, value in identity.items() if state.get(key) != value
        ]
        position: Any = state.get("position")
        if type(position) is not int or not 0 <= position < 1 << 60:
            wrong.append(f"position: {position!r}, expected a count of windows")
        if wrong:
            advice = "resume with the same data, length and seed, or start the data anew"
            raise DataError("the saved position belongs to other data:\n    " + "\n    ".join(wrong), advice=advice)
        self._position = position
        self._prepared.clear()

    def prepare(self, count: int = 1) -> None:
        """Read the next batches already. What cannot be read now is left to `next`, with its errors."""
        for number in range(count):
            position = self._position + number * self.windows_per_step
            if position in self._prepared or self._is_beyond(position + self.windows_per_step):
                continue
            try:
                self._prepared[position] = self._batch_at(position)
            except DataError:
                return

    def __next__(self) -> tuple[np.ndarray, np.ndarray]:
        after = self._position + self.windows_per_step
        if self._is_beyond(after):
            raise StopIteration
        found = self._prepared.pop(self._position, None) or self._batch_at(self._position)
        self._position = after
        return found

    def _is_beyond(self, position: int) -> bool:
        return self.epochs is not None and position > self.epochs * self.num_windows

    def _batch_at(self, position: int) -> tuple[np.ndarray, np.ndarray]:
        first = position + self.rank * self.batch_size
        return self._read(self._windows(first, first + self.batch_size))

    def _windows(self, begin: int, end: int) -> np.ndarray:
        """The windows at places [begin, end) of the endless sequence of epochs."""
        epochs, places = np.divmod(np.arange(begin, end, dtype=np.int64), self.num_windows)
        if not self.shuffle:
            return places
        for epoch in np.unique(epochs):
            chosen = epochs == epoch
            places[chosen] = permuted(places[chosen], self.num_windows, self.seed, int(epoch))
        return places

    def _read(self, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tokens, targets = np.empty((2, self.batch_size, self.length), np.int32)
        owners = np.searchsorted(self._ends, windows, side="right")
        for owner in np.unique(owners):
            self.shards.files[owner].check_size()
        for row, (owner, window) in enumerate(zip(owners, windows, strict=True)):
            before = int(self._ends[owner - 1]) if owner else 0
            file, begin = self.shards.files[owner], (int(window) - before) * self.length
            found = file.tokens[begin : begin + self.length + 1]
            self.shards.check_range(file, found, begin)
            tokens[row], targets[row] = found[:-1], found[1:]
        return tokens, targets

    def _identity(self) -> dict[str, Any]:
        return {
            "length": self.length,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "windows": self.num_windows,
            "fingerprint": self.shards.fingerprint,
        }

    def _check_enough(self) -> None:
        if self.num_windows >= self.windows_per_step:
            return
        ranks = f" on each of {self.world_size} ranks" if self.world_size > 1 else ""
        most = self.num_windows // self.world_size
        advice = f"give more data, or a batch of at most {most}" if most else "give more data, or a smaller length"
        raise DataError(
            f"{_names(self.shards.files)}: {self.shards.num_tokens} tokens make {self.num_windows} windows of "
            f"{self.length} tokens and their targets; a batch takes {self.batch_size}{ranks}",
            advice=advice,
        )

    def __repr__(self) -> str:
        return f"Batches([{self.batch_size}, {self.length}], {self.num_windows} windows, at {self._position})"


def _names(files: Sequence[TokenFile]) -> str:
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0].name}{more}"


def _check_sizes(batch_size: int, length: int, rank: int, world_size: int) -> None:
    for name, value in (("batch size", batch_size), ("length", length), ("number of ranks", world_size)):
        if value < 1:
            raise DataError(f"the {name} is {value}, expected at least 1")
    if not 0 <= rank < world_size:
        raise DataError(f"rank {rank} is not in [0, {world_size})")

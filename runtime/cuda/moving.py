"""Pointers that change from run to run: those into a run's arrays, among other arguments of kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from blu.dataclass import dataclass
from blu.plan.schema import Argument


@dataclass(frozen=True)
class MovingPointers:
    """For each such pointer its place among the arguments, the number of its array, and its offset there in bytes."""

    slots: np.ndarray
    arrays: np.ndarray
    offsets: np.ndarray

    @classmethod
    def among(cls, arguments: Sequence[Argument], numbers: Mapping[tuple[str, int], int]) -> MovingPointers:
        """`numbers` are those of a run's arrays, by space and index."""
        keys = [(argument.space, argument.index) for argument in arguments]
        slots = [slot for slot, key in enumerate(keys) if key in numbers]
        arrays = [numbers[keys[slot]] for slot in slots]
        offsets = [arguments[slot].offset for slot in slots]
        return cls(np.array(slots, np.int64), np.array(arrays, np.int64), np.array(offsets, np.uint64))

    def at(self, addresses: np.ndarray) -> np.ndarray:
        """What the pointers are for arrays at these addresses (u64)."""
        return addresses[self.arrays] + self.offsets

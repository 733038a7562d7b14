"""One thing to check on a GPU: a function, what it is called with, and how far it may be from the reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Case:
    """`arguments` are NumPy arrays, numbers or trees of them; a `blu.spec` in them stands for normally distributed
    numbers times `scale`, which are drawn again on the GPU machine and take no room.

    `relative_error` bounds the largest difference from the reference, divided by that's largest magnitude (or by
    `least` if that is larger), for all results or by their dtypes. The reference is what `reference` gives, or what the
    CPU computes. Parameters that `donate` names are updated in place.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    relative_error: float | Mapping[str, float]
    scale: float = 1.0
    least: float = 0.0
    donate: tuple[str, ...] = ()
    reference: Callable[[], Sequence[np.ndarray]] | None = None

    def bound(self, dtype: str) -> float:
        """The relative error that a result of a dtype may have."""
        return self.relative_error if isinstance(self.relative_error, float) else self.relative_error.get(dtype, 0.0)

"""Calls with nothing but arrays, by position: their program is found without looking at what may be nested."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from blu.compiler.eager import runner_of
from blu.dataclass import dataclass, field
from blu.runtime.array import Array, is_on_device

_ARRAYS = (np.ndarray, Array)


@dataclass
class PlainCalls:
    """What runs the programs of one function, by the arrays' shapes, dtypes and classes.

    `policy` gives the policy of `blu.autocast` that a call is under. Arrays of other libraries are known by their
    classes once one was passed that is on a GPU.
    """

    policy: Callable[[], Hashable]
    _others: set[type] = field(default_factory=set)
    _runs: dict[Hashable, Callable[[list[Any]], Any]] = field(default_factory=dict)

    def runner(self, arguments: tuple) -> Callable[[list[Any]], Any] | None:
        """What runs the program for these arguments, if there was a call like this one."""
        return self._runs.get(self._key_of(arguments))

    def keep(self, arguments: tuple, leaves: Sequence[Any], compiled: Any) -> None:
        """Keep the program of a call, unless it takes more than the arguments as they are (a default, say)."""
        self._others.update(type(value) for value in arguments if _is_of_another_library(value))
        is_plain = len(leaves) == len(arguments) and all(map(lambda one, other: one is other, leaves, arguments))
        key = self._key_of(arguments)
        if is_plain and key is not None:
            self._runs[key] = runner_of(compiled, list(leaves))

    def _key_of(self, arguments: tuple) -> Hashable:
        """None where an argument is no array."""
        kinds = []
        for value in arguments:
            if not isinstance(value, _ARRAYS) and type(value) not in self._others:
                return None
            kinds.append((value.shape, value.dtype, type(value)))
        return (*kinds, self.policy())


def _is_of_another_library(value: Any) -> bool:
    """Whether a value is an array on a GPU that says of what shape and dtype it is."""
    if isinstance(value, _ARRAYS) or not is_on_device(value):
        return False
    return hasattr(value, "shape") and hasattr(value, "dtype")

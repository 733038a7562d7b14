"""One thing to check on a GPU: a function, what it is called with, and how far it may be from the reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """`arguments` are NumPy arrays, numbers or trees of them; a `blu.spec` in them stands for normally distributed
    numbers times `scale`, which are drawn again on the GPU machine and take no room.

    `relative_error` bounds the largest difference from the CPU's result, divided by that result's largest magnitude.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    relative_error: float
    scale: float = 1.0

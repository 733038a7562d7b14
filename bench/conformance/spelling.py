"""How entries of torch.testing's table of operators are written in Blu: by which function of the same arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import blu


@dataclass(frozen=True)
class Spelling:
    """What computes an entry in Blu.

    function takes what the operator of PyTorch takes, tensors as traced ones. Where `concrete`, tensors of integers and
    booleans are NumPy arrays known at compile time. Of PyTorch's results the first `results` count (all where None).
    Where `is_random` says so of a sample's keywords, values cannot be compared, but shapes and finiteness are.
    """

    function: Callable[..., Any]
    concrete: bool = False
    results: int | None = None
    is_random: Callable[[dict[str, Any]], bool] = lambda keywords: False


SPELLINGS: dict[str, Spelling] = {}


def spells(*names: str, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: the function computes the entries of these names."""

    def note(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            assert name not in SPELLINGS, f"{name} is spelled twice"
            SPELLINGS[name] = Spelling(function, **options)
        return function

    return note


def spell_alike(names: dict[str, str], keep: int) -> None:
    """Entries whose first `keep` arguments are those of a function of blu: names there by names of entries."""
    for name, here in names.items():
        function: Any = blu
        for part in here.split("."):
            function = getattr(function, part)
        spells(name)(lambda *arguments, function=function, **_: function(*arguments[:keep]))


def sizes_of(shape: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape that may be given as several arguments or as one."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else tuple(shape)


def several(axes: Any) -> Any:
    """Axes as NumPy takes them: a number, a tuple, or None for all."""
    return axes if axes is None or isinstance(axes, int) else tuple(axes) or None


def along(x: Any, axis: int, index: Any) -> Any:
    """x[..., index, ...] at that axis."""
    return x[(slice(None),) * (axis % x.ndim) + (index,)]

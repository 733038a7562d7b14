"""Pointers as a plan says them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blu.plan.reading import natural, require

SPACES = ("input", "output", "arena", "constant", "status", "map", "table")
_WITHOUT_INDEX = ("arena", "status", "map")


@dataclass(frozen=True)
class Argument:
    """A pointer that a launch passes: `offset` bytes into buffer `index` of `space`."""

    space: str
    index: int
    offset: int

    @classmethod
    def parse(cls, entry: Any) -> Argument:
        require(isinstance(entry, list) and bool(entry) and entry[0] in SPACES, f"a kernel argument is {entry!r}")
        space, *numbers = entry
        require(len(numbers) == (1 if space in _WITHOUT_INDEX else 2), f"a kernel argument is {entry!r}")
        numbers = [natural(number, f"a number of the kernel argument {entry!r}") for number in numbers]
        index, offset = [0, 0, *numbers][-2:]
        return cls(space, index, offset)

    def to_json(self) -> list[Any]:
        """The pointer as launches and tables have it."""
        return [self.space, *(() if self.space in _WITHOUT_INDEX else (self.index,)), self.offset]

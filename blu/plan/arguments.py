"""Pointers as a plan says them."""

from __future__ import annotations

from typing import Any

from blu.dataclass import dataclass
from blu.plan.reading import listed, natural, require

SPACES = ("input", "output", "arena", "constant", "status", "map", "table")
_WITHOUT_INDEX = ("arena", "status", "map")
MAP_BYTES = 128
"""Of a tensor map on a GPU, which kernels take the address of."""


@dataclass(frozen=True)
class Advance:
    """How far an argument moves with a loop: `stride` bytes each time; `shift` times more than it was done, and after
    `period` times from the beginning again, where that is not 0."""

    loop: int
    stride: int
    shift: int = 0
    period: int = 0

    @classmethod
    def parse(cls, entry: Any) -> Advance:
        numbers = listed(entry, "a step of an argument")
        require(len(numbers) == 4 and all(type(item) is int for item in numbers), f"a step is {entry!r}")
        step = cls(*numbers)
        require(min(step.loop, step.shift, step.period) >= 0, f"a step is {entry!r}")
        return step

    def bytes_at(self, time: int) -> int:
        """How far, when the loop has been done so often."""
        return self.stride * ((time + self.shift) % self.period if self.period else time + self.shift)


@dataclass(frozen=True)
class Argument:
    """A pointer that a launch passes: `offset` bytes into buffer `index` of `space`, at first, where it moves on."""

    space: str
    index: int
    offset: int
    steps: tuple[Advance, ...] = ()

    @classmethod
    def parse(cls, entry: Any) -> Argument:
        require(isinstance(entry, list) and bool(entry) and entry[0] in SPACES, f"a kernel argument is {entry!r}")
        space, *rest = entry
        steps = tuple(Advance.parse(item) for item in rest if isinstance(item, list))
        numbers = rest[: len(rest) - len(steps)]
        require(len(numbers) == (1 if space in _WITHOUT_INDEX else 2), f"a kernel argument is {entry!r}")
        numbers = [natural(number, f"a number of the kernel argument {entry!r}") for number in numbers]
        index, offset = [0, 0, *numbers][-2:]
        return cls(space, index, offset, steps)

    def to_json(self) -> list[Any]:
        """The pointer as launches and tables have it."""
        steps = [[step.loop, step.stride, step.shift, step.period] for step in self.steps]
        return [self.space, *(() if self.space in _WITHOUT_INDEX else (self.index,)), self.offset, *steps]

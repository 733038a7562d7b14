"""A step of the host program that the host computes itself, as its plan says it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from blu.dataclass import dataclass, field
from blu.plan.arguments import Argument
from blu.plan.reading import MAX_BYTES, listed, natural, require, text
from blu.plan.repeating import AGAIN, BEGIN
from blu.plan.routines import ROUTINES
from blu.plan.tensors import DTYPES

KERNEL = "host."
"""What such steps are called, among kernels: this and the routine."""


@dataclass(frozen=True)
class HostTensor:
    """What a routine takes or gives: elements that lie in order."""

    shape: tuple[int, ...]
    dtype: str

    @classmethod
    def parse(cls, entry: Any) -> HostTensor:
        pair = listed(entry, "a tensor of the host")
        require(len(pair) == 2 and pair[0] in DTYPES, f"a tensor of the host is {entry!r}")
        shape = tuple(natural(size, "a dimension") for size in listed(pair[1], "its shape"))
        require(len(shape) <= 64 and math.prod(shape) <= MAX_BYTES // 8, f"a tensor of the host has the shape {shape}")
        return cls(shape, pair[0])

    def to_json(self) -> list[Any]:
        """The entry of a tensor."""
        return [self.dtype, list(self.shape)]

    @property
    def numpy_dtype(self) -> np.dtype:
        """The dtype as numpy knows it."""
        return DTYPES[self.dtype]

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.numpy_dtype.itemsize


@dataclass(frozen=True)
class HostLaunch:
    """A routine of `blu.plan.routines` on `operands`, which gives `results`: `args` say where they are, in this order.

    `numbers` are what it takes besides.
    """

    routine: str
    operands: tuple[HostTensor, ...]
    results: tuple[HostTensor, ...]
    args: tuple[Argument, ...]
    numbers: Mapping[str, Any] = field(default_factory=dict)
    location: str = ""

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> HostLaunch:
        routine = text(entry.get("kernel"), "a routine's name").removeprefix(KERNEL)
        require(routine in (*ROUTINES, BEGIN, AGAIN), f"there is no routine {routine!r}")
        sides = [listed(entry.get(name), f"the {name} of {routine}") for name in ("operands", "results")]
        operands, results = (tuple(map(HostTensor.parse, side)) for side in sides)
        args = tuple(map(Argument.parse, listed(entry.get("args"), f"the argument list of {routine}")))
        require(len(args) == len(operands) + len(results), f"{routine} takes {len(args)} pointers")
        numbers = entry.get("numbers", {})
        require(isinstance(numbers, dict), f"the numbers of {routine} are {numbers!r}")
        reads_bool = sides == [[HostTensor((), "bool").to_json()], []]
        require(routine in ROUTINES or reads_bool, f"{routine} takes other things than a bool")
        location = text(entry.get("location") or "", f"the location of {routine}")
        return cls(routine, operands, results, args, numbers, location)

    def to_json(self) -> dict[str, Any]:
        """The entry of a step of the host."""
        sides = {"operands": self.operands, "results": self.results}
        tensors = {name: [item.to_json() for item in side] for name, side in sides.items()}
        args = [arg.to_json() for arg in self.args]
        numbers = {"numbers": dict(self.numbers)} if self.numbers else {}
        return {"kernel": self.kernel, **tensors, **numbers, "args": args, "location": self.location}

    @property
    def kernel(self) -> str:
        """What it is called among kernels."""
        return f"{KERNEL}{self.routine}"

    @property
    def is_choice(self) -> bool:
        """Whether it computes nothing, and reads a bool by which the program goes on elsewhere."""
        return self.routine not in ROUTINES

    @property
    def size(self) -> tuple[int, ...]:
        """There are no blocks."""
        return ()

    @property
    def tensors(self) -> tuple[HostTensor, ...]:
        """What each of the arguments points to."""
        return (*self.operands, *self.results)

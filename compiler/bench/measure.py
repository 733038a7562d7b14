"""Measure a workload: each side in turns, medians with their spread, and errors against float64."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from blu.compiler.bench.clocks import Clock
from blu.compiler.bench.sides import Arguments, BluSide, TorchSide, as_it_is, with_gradients_of_torch
from blu.compiler.bench.workload import Workload
from blu.compiler.target import GPU_NAMES
from blu.dataclass import dataclass, field
from blu.errors import BluError

BLU = "blu"
PEERS = ("eager", "compile")
# Norms of errors that roundings of results and factors to a kind of numbers explain.
EXPECTED_ERRORS = {"bf16": 4e-3, "tf32": 1e-3, "f32": 1e-5}


@dataclass(frozen=True)
class Timing:
    """The median of several rounds in microseconds, and where the middle half of them lies."""

    median: float
    low: float
    high: float


@dataclass
class Measurement:
    """What was found. `errors` are norms of differences to float64's results, relative to the norms of these, the
    largest of all results; `failed` says why a side has no time."""

    workload: Workload
    bound: float
    times: dict[str, Timing] = field(default_factory=dict)
    errors: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    is_repeatable: bool = True

    def ratio(self, peer: str) -> float | None:
        """How many times faster Blu is than a peer; None where one of them has no time."""
        if BLU not in self.times or peer not in self.times:
            return None
        return self.times[peer].median / self.times[BLU].median

    @property
    def share_of_bound(self) -> float | None:
        """The roofline's time, divided by Blu's."""
        return self.bound / self.times[BLU].median if BLU in self.times else None

    @property
    def problem(self) -> str:
        """What is wrong with Blu's side, or nothing."""
        if BLU in self.failed:
            return self.failed[BLU]
        if not self.is_repeatable:
            return "two runs differ"
        others = [error for side, error in self.errors.items() if side != BLU]
        allowed = max([EXPECTED_ERRORS[self.workload.units], *(3 * error for error in others)])
        return (
            "" if self.errors[BLU] <= allowed else f"wrong: an error of {self.errors[BLU]:.1e}, at most {allowed:.1e}"
        )


class Side(Protocol):
    """Who computes it."""

    def call(self, number: int) -> Any: ...
    def results(self) -> list[Any]: ...


@dataclass(frozen=True)
class Bench:
    """Where and how workloads are measured: `target` is Blu's, `peers` of PEERS."""

    torch: Any
    target: str
    clock: Clock
    peers: Sequence[str]
    rounds: int
    seed: int

    @property
    def device(self) -> str:
        """Where PyTorch has its arrays."""
        return "cuda" if self.target in GPU_NAMES else "cpu"

    def measure(self, workload: Workload, bound: float) -> Measurement:
        """Run it on all sides."""
        arguments = Arguments(self.torch, workload, self.device, self.seed)
        found = Measurement(workload, bound)
        makers: dict[str, Callable[[], Side]] = {
            BLU: partial(BluSide, workload, self.target, arguments),
            "eager": partial(TorchSide, workload, arguments),
            "compile": partial(TorchSide, workload, arguments, partial(self.torch.compile, dynamic=False)),
        }
        sides = {}
        for name in (BLU, *self.peers):
            try:
                sides[name] = makers[name]()
            except (BluError, RuntimeError) as error:  # out of memory, or what a compiler does not take
                found.failed[name] = str(error).splitlines()[0]
        self._check(workload, arguments, sides, found)
        self._time(sides, found)
        return found

    def _check(self, workload: Workload, arguments: Arguments, sides: dict[str, Side], found: Measurement) -> None:
        torch = self.torch
        expected = with_gradients_of_torch(torch, workload, as_it_is)(*arguments.in_double())
        expected = [*expected] if isinstance(expected, tuple) else [expected]
        for name, side in sides.items():
            results = side.results()
            found.errors[name] = max(_error(a, b) for a, b in zip(results, expected, strict=True))
            if name == BLU:
                again = side.results()
                found.is_repeatable = all(torch.equal(a, b) for a, b in zip(results, again, strict=True))

    def _time(self, sides: dict[str, Side], found: Measurement) -> None:
        counts = {name: self.clock.count_for(side.call) for name, side in sides.items()}
        times: dict[str, list[float]] = {name: [] for name in sides}
        for number in range(self.rounds + 1):
            for name, side in sides.items():
                time = self.clock.microseconds(side.call, counts[name])
                if number:  # the first round warms up
                    times[name].append(time)
        found.times.update({name: _timing(values) for name, values in times.items()})


def _error(found: Any, expected: Any) -> float:
    """The norm of the difference relative to that of `expected`; where indices of equals lie is free."""
    if not expected.is_floating_point():
        return 0.0
    norm = float(expected.norm())
    return float((found - expected).norm()) / (norm or 1.0)


def _timing(values: list[float]) -> Timing:
    if len(values) < 2:
        return Timing(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Timing(median, low, high)

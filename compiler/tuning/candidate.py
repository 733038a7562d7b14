"""A kernel compiled by one schedule: it is run on random numbers, timed, and compared with another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from blu.compiler.tuning.compiling import CompiledCandidate
from blu.compiler.tuning.distance import distance
from blu.dataclass import dataclass, field
from blu.passes.kernels.schedules import Fields
from blu.plan.tensors import TensorSpec
from blu.runtime.load import load_program
from blu.runtime.runnable import Runnable

EXPECTED = {"f64": 1e-12, "f32": 2e-5, "f16": 1e-3, "bf16": 8e-3}
"""By the dtype of a result, the norm of a difference, relative to its own, that another order of sums explains: a
rounding of the result, or those of sums of some thousand terms."""
ENOUGH_SECONDS, MOST_CALLS = 0.02, 200
DRAWN = 1_000_003
"""Random numbers that are drawn: a prime number, so that no row of a matrix begins as the one before."""


@dataclass(frozen=True)
class ScheduleCandidate:
    """A kernel's program by a schedule, with the arrays that it is run on and those that it writes."""

    schedule: Fields
    program: Runnable = field(repr=False, compare=False)
    inputs: Sequence[Any] = field(repr=False, compare=False)

    @classmethod
    def load(cls, compiled: CompiledCandidate, inputs: Sequence[Any] | None = None) -> ScheduleCandidate:
        """The program on this machine. Without `inputs` they are drawn."""
        program = load_program(compiled.members)
        return cls(compiled.schedule, program, draw(program) if inputs is None else inputs)

    def __enter__(self) -> ScheduleCandidate:
        return self

    def __exit__(self, *error: object) -> None:
        self.program.close()

    def results(self) -> list[Any]:
        """What it computes, where its program leaves it."""
        return list(self.program.run(self.inputs))

    def microseconds(self) -> float:
        """What a run takes: on GPUs the sum of its launches', on processors by the clock, the mean of some in a row."""
        if (time_launches := getattr(self.program, "time_launches", None)) is not None:
            return sum(found for _, _, found in time_launches(self.inputs))
        outputs, calls = self.program.run(self.inputs), 0
        start = time.perf_counter()
        while calls < MOST_CALLS and (calls == 0 or time.perf_counter() - start < ENOUGH_SECONDS):
            self.program.run(self.inputs, outputs=outputs)
            calls += 1
        return 1e6 * (time.perf_counter() - start) / calls


def draw(program: Runnable, seed: int = 0) -> list[Any]:
    """Random numbers for what a program takes, where it takes them from; integers, which may be positions, are 0."""
    generator = np.random.default_rng(seed)
    return [program.filled(spec, _drawn(spec, generator)) for spec in program.inputs]


def _drawn(spec: TensorSpec, generator: np.random.Generator) -> np.ndarray:
    if spec.dtype not in EXPECTED:
        return np.zeros(1, spec.numpy_dtype)
    return generator.standard_normal(DRAWN, np.float32).astype(spec.numpy_dtype)


def difference(found: ScheduleCandidate, expected: Sequence[Any]) -> str:
    """What of a candidate's results is not what is expected but for roundings; "" if nothing is."""
    for number, (spec, one, other) in enumerate(zip(found.program.outputs, found.results(), expected, strict=True)):
        far, most = distance(one, other), EXPECTED.get(spec.dtype, 0.0)
        if not far <= most:
            return f"result {number} is off by {far:.1e} of its norm, of {most:.0e}"
    return ""


def compare(one: ScheduleCandidate, other: ScheduleCandidate, rounds: int) -> tuple[float, float]:
    """The medians of both in microseconds, measured in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for kept, candidate in zip(times, (one, other), strict=True):
            kept.append(candidate.microseconds())
    return statistics.median(times[0]), statistics.median(times[1])

"""Loops and choices: those of the tests, and drawn ones in each other, with gradients, against the CPU's results."""

from __future__ import annotations

from collections.abc import Iterator

import checkout  # noqa: F401 (it makes the next ones importable)

from bench.gpu.case import Case
from tests.support.programs.loop_programs import WHILE_LOOPS, DrawnLoops, X

DRAWN = range(60)
BOUNDS = {"f32": 3e-5, "f64": 1e-12}


def cases() -> Iterator[Case]:
    """All cases of this file."""
    for program in WHILE_LOOPS:
        yield Case(f"while_loop {program.__name__}", program, (X,), BOUNDS)
    for seed in DRAWN:
        loops = DrawnLoops.of(seed)
        yield Case(f"loops {loops.name}", loops.apply, loops.arrays(), BOUNDS, least=1.0)

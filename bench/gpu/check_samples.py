"""The samples of all ops against their NumPy references, and the ops' gradients against the CPU's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from typing import Any

import checkout  # noqa: F401 (it makes the next ones importable)
import numpy as np

import blu
from bench.gpu.case import Case
from blu.dialects.core.context import make_context
from blu.dialects.core.op import OPS, Op, Sample
from blu.plan.tensors import NAMES
from tests.support.programs.gradient_programs import cases_of, floats_of, is_differentiable, scalar_of
from tests.support.programs.op_programs import arrays_of, expected_of, program_of
from tests.support.tolerances import ELEMENTARY, TOLERANCES

EPSILON = {"f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7, "f8e4m3": 2.0**-3, "f8e5m2": 2.0**-2}
# Sums of products of narrow numbers are rounded where the reference rounds but once.
UNITS, UNITS_OF_GRADIENTS = 16, 64
MOST_GRADIENTS = 6
ROUNDED_FACTORS = ("attention_gradient",)
"""Ops whose kernels multiply weights that are rounded to the dtype of 16-bit operands, to results in f32."""


def cases() -> Iterator[Case]:
    """All cases of this file."""
    make_context()  # declares all ops
    for name, cls in sorted(OPS.items()):
        for factors, samples in _by_factors(name, cls).items():
            yield case_of(f"op {name} of {factors}" if factors else f"op {name}", cls, samples, factors)
    for name, cls in sorted(OPS.items()):
        if is_differentiable(cls):
            yield _gradients(name, cls)


def case_of(title: str, cls: type[Op], samples: list[Sample], factors: str = "") -> Case:
    """Samples of an op, in one program; `factors` is the 16-bit dtype that its kernel rounds factors to."""
    tolerance = TOLERANCES.get(cls.name, ELEMENTARY)
    units = UNITS if tolerance.of_terms else tolerance.units
    return Case(
        title,
        program_of(cls, samples),
        (arrays_of(samples),),
        {"f32": EPSILON[factors]} if factors else {dtype: units * epsilon for dtype, epsilon in EPSILON.items()},
        least=float(tolerance.of_terms),
        reference=partial(_reference, cls, samples),
    )


def _by_factors(name: str, cls: type[Op]) -> dict[str, list[Sample]]:
    """An op's samples by the 16-bit dtype that factors are rounded to; "" where none are."""
    found: dict[str, list[Sample]] = defaultdict(list)
    for sample in cls.samples():
        dtype = NAMES[sample.operands[0].dtype] if name in ROUNDED_FACTORS else ""
        found[dtype if dtype in ("f16", "bf16") else ""].append(sample)
    return found


def _reference(cls: Any, samples: list[Any]) -> list[np.ndarray]:
    with np.errstate(all="ignore"):
        return expected_of(cls, samples)


def _gradients(name: str, cls: Any) -> Case:
    """Gradients of some samples, in f32."""
    found = cases_of(cls)[:MOST_GRADIENTS]
    pairs = [(scalar_of(cls, case), floats_of(case.sample)) for case in found]
    points = [[array.astype(np.float32) if array.dtype == np.float64 else array for array in case.points()]
              for case in found]  # fmt: skip

    def apply(rows: list[list[Any]]) -> list[Any]:
        return [blu.grad(f, argnums=wanted)(*row) for (f, wanted), row in zip(pairs, rows, strict=True)]

    return Case(f"gradients of {name}", apply, (points,), {"f32": UNITS_OF_GRADIENTS * EPSILON["f32"]}, least=1.0)

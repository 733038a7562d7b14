"""The gradients of ops at their samples, as programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import blu
from blu.dialects.core.dtypes import DType, TensorType, as_dtype, f64
from blu.dialects.core.evaluation import types_of
from blu.dialects.core.op import Op, Sample
from tests.support.programs.op_programs import flat, regrouped

LARGEST = 400
MOST_SAMPLES = 8


def floats_of(sample: Sample) -> list[int]:
    """Which of a sample's operands, in a row, are f64."""
    return [index for index, array in enumerate(flat(sample.operands)) if array.dtype == np.float64]


def is_smooth(sample: Sample) -> bool:
    """A sample that finite differences can follow: finite ordinary numbers of f64, few of them."""
    arrays = flat(sample.operands)
    doubles = [arrays[index] for index in floats_of(sample)]
    ordinary = all(np.all(np.isfinite(array) & (np.abs(array) < 50)) for array in doubles)
    narrow = any(isinstance(value, DType) and value != f64 for value in sample.attributes.values())
    return bool(doubles) and ordinary and not narrow and sum(array.size for array in arrays) < LARGEST


def samples_of(cls: type[Op]) -> list[Sample]:
    found = [sample for sample in cls.samples() if is_smooth(sample) and gives_floats(cls, sample)]
    return found[:: max(1, len(found) // MOST_SAMPLES)][: MOST_SAMPLES + 4]


@dataclass(frozen=True)
class Case:
    """A sample; `is_view`: matrices reach the op as transposed views of what the function is given."""

    sample: Sample
    is_view: bool = False

    def points(self) -> list[np.ndarray]:
        """What the function is given."""
        arrays = flat(self.sample.operands)
        return [array.swapaxes(-1, -2).copy() if self._turns(array) else array for array in arrays]

    def operands(self, values: Sequence[Any]) -> list[Any]:
        """What the op is given."""
        return [blu.swapaxes(value, -1, -2) if self._turns(value) else value for value in values]

    def _turns(self, value: Any) -> bool:
        return self.is_view and len(value.shape) >= 2


def cases_of(cls: type[Op]) -> list[Case]:
    samples = samples_of(cls)
    matrices = [sample for sample in samples if any(a.ndim >= 2 and a.size > 1 for a in flat(sample.operands))]
    return [*map(Case, samples), *(Case(sample, is_view=True) for sample in matrices[:2])]


def gives_floats(cls: type[Op], sample: Sample) -> bool:
    types = regrouped(sample.operands, [TensorType(a.shape, as_dtype(a.dtype)) for a in flat(sample.operands)])
    return any(result.dtype.is_float for result in types_of(cls, types, sample.attributes))


def is_differentiable(cls: type[Op]) -> bool:
    """Ops with float operands and results, unless they say why they have no gradient."""
    return "vjp" not in cls.deliberate and bool(samples_of(cls))


def scalar_of(cls: type[Op], case: Case) -> Callable[..., Any]:
    """The op on a case's operands, as a weighted sum of all its float results."""
    sample = case.sample

    def apply(*values: Any) -> Any:
        results = cls(*regrouped(sample.operands, case.operands(values)), **sample.attributes)
        results = results if isinstance(results, tuple) else (results,)
        parts = []
        for number, result in enumerate(item for item in results if item.dtype.is_float):
            weights = np.random.default_rng(number).uniform(0.5, 1.5, result.shape)
            parts.append(blu.sum(result * weights))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total

    return apply

"""What a program means, and how far rounding may move its results: the references, op by op, with noise.

A program is traced, and its ops are evaluated by their references in float64. A result's bound comes from evaluating
the program again with every op's rounding made larger, at random: what the rounding of one op can become in the ops
after it, cancellation and all, is seen there, and nobody has to say it. Where those runs disagree about what is not a
question of degree (an integer, a comparison, NaN or not), nothing is asked of the result. Nor where ops of many terms,
computed in f32 as Blu does, come to something else: squares of large numbers overflow there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from blu.dialects.core.dtypes import as_dtype
from blu.dialects.core.evaluation import array_type, evaluate, on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, Op, attributes_of, operands_of
from tests.support.programs.interpret import interpret
from tests.support.tolerances import ELEMENTARY, TOLERANCES

NOISY_RUNS = 6
ROOM = 3.0
"""How much farther than the noisy runs a result may lie."""
_CHAOS = (0.2, 0.01)
"""Where noise moves a result by more than the first part of itself and the second of what is usual, it is luck."""
_ROUNDINGS = 6.0
"""Roundings of its dtype that an op of many terms may add to its result, and as many to its operands."""


@dataclass(frozen=True)
class Meaning:
    """A result, the error that it may have, and where it is certain."""

    value: np.ndarray
    bound: np.ndarray
    certain: np.ndarray

    def wrong(self, found: np.ndarray) -> np.ndarray:
        """Which elements of a result found are not what is meant."""
        assert (found.shape, found.dtype) == (self.value.shape, self.value.dtype), (
            f"{found.dtype}{list(found.shape)} instead of {self.value.dtype}{list(self.value.shape)}"
        )
        if not _is_float(found):
            return self.certain & (found != self.value)
        one, other = found.astype(np.float64), self.value.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(one - other) <= self.bound
        return self.certain & ~(near | (one == other) | (np.isnan(one) & np.isnan(other)))


@dataclass(frozen=True)
class Noise:
    """Random roundings of one run; numbers near the end of their range become `large` times what they are."""

    rng: np.random.Generator
    large: float

    @classmethod
    def of(cls, number: int) -> Noise:
        return cls(np.random.default_rng(number), 2.0**-20 if number % 2 else np.inf)


def meanings(module: ir.Module, inputs: Sequence[np.ndarray], flushes: bool = False) -> list[Meaning]:
    """The meaning of each result of a module of `blu` ops; `flushes`: exponentials below 2^-126 may be 0."""
    exact = _run(module, inputs, None)
    noisy = [_run(module, inputs, Noise.of(number)) for number in range(NOISY_RUNS)]
    narrow = _run(module, inputs, None, narrow=True)
    return [
        _meaning(value, [run[place] for run in noisy], _alike(value, narrow[place]), 2.0**-126 if flushes else 0.0)
        for place, value in enumerate(exact)
    ]


def _alike(value: np.ndarray, narrow: np.ndarray) -> np.ndarray:
    """Where a result that was computed in f32 is not altogether another."""
    if not _is_float(value):
        return narrow == value
    one, other = value.astype(np.float64), narrow.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return (one == other) | (np.isnan(one) & np.isnan(other)) | (np.abs(one - other) <= 0.02 * np.abs(one))


def _meaning(value: np.ndarray, noisy: Sequence[np.ndarray], certain: np.ndarray, least: float) -> Meaning:
    if not _is_float(value):
        for other in noisy:
            certain &= other == value
        return Meaning(value, np.zeros(value.shape), certain)
    exact, moved = value.astype(np.float64), np.zeros(value.shape)
    finite = np.isfinite(exact)
    for other in (item.astype(np.float64) for item in noisy):
        certain &= np.where(finite, np.isfinite(other), (exact == other) | (np.isnan(exact) & np.isnan(other)))
        with np.errstate(invalid="ignore"):
            moved = np.maximum(moved, np.where(finite & certain, np.abs(other - exact), 0.0))
    info, size = ml_dtypes.finfo(value.dtype), np.abs(np.where(finite, exact, 0))
    certain &= (moved <= _CHAOS[0] * size) | (moved <= _CHAOS[1] * _usual(size))
    share = _usual(np.where(certain & (size > 0), moved, 0.0) / np.where(size > 0, size, 1.0))
    # By luck, noise may cancel in some elements: what it does to most of them is allowed in all.
    least = max(4 * float(info.smallest_subnormal), least if value.dtype.itemsize <= 4 else 0.0)
    bound = ROOM * np.maximum(moved, share * size) + float(info.eps) * size + least
    return Meaning(value, bound, certain)


def _usual(numbers: np.ndarray) -> float:
    """The median of those that are not 0."""
    found = numbers[numbers > 0]
    return float(np.median(found)) if found.size else 0.0


def _run(
    module: ir.Module, inputs: Sequence[np.ndarray], noise: Noise | None, narrow: bool = False
) -> list[np.ndarray]:
    return interpret(module, inputs, lambda operation, values: _evaluated(operation, values, noise, narrow))


def _evaluated(operation: ir.Operation, values: dict, noise: Noise | None, narrow: bool) -> list[np.ndarray]:
    cls, attributes = OPS[operation.name.removeprefix("blu.")], attributes_of(operation)
    operands = tuple(on_operand(values.__getitem__, item) for item in operands_of(operation))
    units = _units(cls.name)
    if narrow and units == _ROUNDINGS:
        return _in_f32(cls, operands, attributes)
    if noise is not None and units == _ROUNDINGS:
        operands = tuple(
            on_operand(lambda array: _moved(_overflowing(array, noise), units, noise), x) for x in operands
        )
    results = evaluate(cls, operands, attributes)
    if noise is None:
        return results
    return [_moved(result, units, noise, _scale(cls.name, operands)) for result in results]


def _scale(name: str, operands: tuple) -> float:
    """How large an op's terms may be where they cancel each other, and its result is what is left of them."""
    arrays = [item.astype(np.float64) for item in operands if isinstance(item, np.ndarray) and _is_float(item)]
    sizes = [np.abs(array[np.isfinite(array)]).max(initial=1.0) for array in arrays]
    if name == "attention_gradient":
        return float(np.prod(sizes[:4]))
    return float(sizes[0]) if name in ("log_softmax", "cross_entropy") else 0.0


def _overflowing(array: np.ndarray, noise: Noise) -> np.ndarray:
    """Numbers of which some sum is beyond the range: it depends on the order of summing whether it gets there."""
    if not _is_float(array):
        return array
    wide = array.astype(np.float64)
    large = np.isfinite(wide) & (np.abs(wide) > float(ml_dtypes.finfo(array.dtype).max) / 64)
    return np.where(large, wide * noise.large, wide).astype(array.dtype)


def _in_f32(cls: type[Op], operands: tuple, attributes: dict) -> list[np.ndarray]:
    """The reference without f64, but for operands that are f64."""

    def wide(array: np.ndarray) -> np.ndarray:
        return array.astype(np.float32) if _is_float(array) and array.dtype.itemsize < 4 else array

    types = cls.infer_all([on_operand(array_type, item) for item in operands], attributes)
    with np.errstate(all="ignore"):
        found = cls.reference(*(on_operand(wide, item) for item in operands), **attributes)
        results = found if isinstance(found, tuple) else (found,)
        return [np.asarray(item).astype(type_.dtype.numpy) for item, type_ in zip(results, types, strict=True)]


def _units(name: str) -> float:
    """By how many times epsilon an op's result may move."""
    tolerance = TOLERANCES.get(name, ELEMENTARY)
    return _ROUNDINGS if tolerance.of_terms else tolerance.units


def _moved(array: np.ndarray, units: float, noise: Noise, scale: float = 0.0) -> np.ndarray:
    """Each finite element a little larger or smaller, by units of its dtype's epsilon. The sign of NaN is anybody's."""
    if not _is_float(array):
        return array
    info, wide = ml_dtypes.finfo(array.dtype), array.astype(np.float64)
    signs = noise.rng.choice([-1.0, 1.0], array.shape)
    with np.errstate(all="ignore"):
        step = units * float(info.eps) * (np.abs(wide) + scale) + units * float(info.smallest_subnormal)
        moved = wide + signs * noise.rng.uniform(0.7, 1.3, array.shape) * step if units else wide
        moved = np.where(np.isnan(wide), np.copysign(np.nan, signs), np.where(np.isinf(wide), wide, moved))
        return moved.astype(array.dtype)


def _is_float(array: np.ndarray) -> bool:
    return as_dtype(array.dtype).is_float

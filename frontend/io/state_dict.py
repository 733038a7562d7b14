"""Tensors by name: compared with what a model expects, all differences at once, and converted in dtype."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import ml_dtypes
import numpy as np

from blu.dataclass import dataclass
from blu.errors import WeightsError
from blu.frontend.tracing.host_arrays import as_host_array

FLOATS = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    # These are only stored: programs compute in the others.
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Differences:
    """What sets a state dict apart from the expected one; false when there is nothing."""

    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    mismatched: tuple[tuple[str, Shape, Shape], ...]  # name, expected, found

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.mismatched)

    def __str__(self) -> str:
        lines = [f"missing: {name}" for name in fold_layers(self.missing)]
        lines += [f"unexpected: {name}" for name in fold_layers(self.unexpected)]
        for expected, found in dict.fromkeys(item[1:] for item in self.mismatched):
            names = [name for name, *shapes in self.mismatched if shapes == [expected, found]]
            lines += [f"shape of {name}: {found}, expected {expected}" for name in fold_layers(names)]
        return "\n    ".join(lines)


def check_state_dict(
    expected: Mapping[str, Shape], found: Mapping[str, np.ndarray], *, strict: bool = True, source: str = "state dict"
) -> Differences:
    """Compare `found` with the `expected` shapes.

    With `strict`, any difference raises one WeightsError that lists all of them (`source` says where they come from);
    without, the differences are returned for the caller to report.
    """
    mismatched = [
        (name, tuple(shape), tuple(found[name].shape))
        for name, shape in expected.items()
        if name in found and tuple(found[name].shape) != tuple(shape)
    ]
    differences = Differences(
        tuple(name for name in expected if name not in found),
        tuple(name for name in found if name not in expected),
        tuple(mismatched),
    )
    if strict and differences:
        advice = "config.json and the weights must belong to the same model"
        raise WeightsError(f"{source}: does not fit the model:\n    {differences}", advice=advice)
    return differences


def fold_layers(names: Iterable[str]) -> list[str]:
    """`h.0.ln_1.bias`, `h.1.ln_1.bias` as one `h.{0,1}.ln_1.bias`, so that a list of names stays readable."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name in names:
        # Names come from files: control characters must not reach the terminal.
        before, number, after = _split_layer(name if name.isprintable() else ascii(name))
        groups.setdefault((before, after), []).append(number)
    return [
        before + (numbers[0] if len(numbers) == 1 else "{" + ",".join(numbers) + "}") + after
        for (before, after), numbers in groups.items()
    ]


def _split_layer(name: str) -> tuple[str, str, str]:
    match = re.search(r"(?<=\.)\d+(?=\.)", name)
    return (name[: match.start()], match[0], name[match.end() :]) if match else (name, "", "")


def cast(state: Mapping[str, np.ndarray], dtype: str | np.dtype | type) -> dict[str, np.ndarray]:
    """`state` with its floating-point tensors in `dtype`; others and equal ones are not copied.

    `dtype` is f16, bf16, f32 or f64, or f8e4m3 or f8e5m2, in which weights are stored but nothing is computed. Raises
    WeightsError when a finite value does not fit.
    """
    target = FLOATS[dtype] if isinstance(dtype, str) and dtype in FLOATS else np.dtype(dtype)
    if not is_float(target):
        raise WeightsError(f"weights cannot be cast to {target}", advice=f"use one of {', '.join(FLOATS)}")
    return {name: _cast_tensor(name, as_host_array(array), target) for name, array in state.items()}


def is_float(dtype: np.dtype) -> bool:
    """Whether `dtype` is one of f16, bf16, f32, f64, f8e4m3, f8e5m2."""
    return dtype in FLOATS.values()


def _cast_tensor(name: str, array: np.ndarray, target: np.dtype) -> np.ndarray:
    if array.dtype == target or not is_float(array.dtype):
        return array
    with np.errstate(over="ignore", under="ignore"):
        converted = array.astype(target)
    if target.itemsize < 4 and np.isfinite(converted).sum() < np.isfinite(array).sum():
        most = f"{float(ml_dtypes.finfo(target).max):g}"
        raise WeightsError(f"{name!r}: values beyond the largest {target}, {most}", advice="use bf16 or f32")
    return converted

"""Cases in a folder, as `pack.py` writes and `gpu_check.py` reads them: a .blu, an .npz of arrays, an entry of JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from blu.plan.tensors import DTYPES, NAMES

INDEX = "cases.json"
KEPT_ELEMENTS = 1 << 14
"""Of a longer result only every n-th element is kept to compare with, and how many elements are finite."""


@dataclass(frozen=True)
class StoredCase:
    """`program` and `values` are the stems of its files.

    `arguments` are either {"array": key} or {"seed", "shape", "dtype", "scale"}; `bounds` are the relative errors that
    results may have, whose magnitudes count as `least` if they are less; `steps` are which elements of each are kept,
    and `finite` how many of all are finite; `failure` says why there is no program."""

    name: str
    program: str = ""
    values: str = ""
    bounds: list[float] = field(default_factory=list)
    least: float = 0.0
    arguments: list[dict[str, Any]] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    finite: list[int] = field(default_factory=list)
    failure: str = ""


def draw(seed: int, shape: list[int], dtype: str, scale: float) -> np.ndarray:
    """Normally distributed numbers."""
    numbers = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return (numbers * np.float32(scale)).astype(DTYPES[dtype])


def sample_step(size: int) -> int:
    """Every how many-th element of a result is kept: a step that meets all columns and rows, whatever the shape."""
    step = max(1, math.ceil(size / KEPT_ELEMENTS))
    while math.gcd(step, size) > 1 and step > 1:
        step += 1
    return step


def finite_count(array: np.ndarray) -> int:
    """How many elements are neither NaN nor infinite."""
    return array.size if array.dtype.kind in "biu" else int(np.isfinite(array.astype(np.float32)).sum())


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an .npz; names tell the dtype, since what NumPy does not know is stored as its bits."""
    plain = {f"{key}:{NAMES[array.dtype]}": _bits(array) for key, array in arrays.items()}
    np.savez_compressed(path, **plain)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """What `save_arrays` wrote."""
    with np.load(path, allow_pickle=False) as file:
        names = {name: name.rpartition(":") for name in file.files}
        return {key: file[name].view(DTYPES[dtype]) for name, (key, _, dtype) in names.items()}


def _bits(array: np.ndarray) -> np.ndarray:
    is_known = NAMES[array.dtype] not in ("bf16", "f8e4m3", "f8e5m2")
    return array if is_known else array.view(f"u{array.itemsize}")


def save_index(folder: Path, cases: list[StoredCase]) -> None:
    """Write the entries of all cases."""
    (folder / INDEX).write_text(json.dumps([asdict(case) for case in cases], indent=1))


def load_index(folder: Path) -> list[StoredCase]:
    """The entries of all cases."""
    return [StoredCase(**entry) for entry in json.loads((folder / INDEX).read_text())]


def inputs_of(case: StoredCase, arrays: dict[str, np.ndarray]) -> list[np.ndarray]:
    """The arguments of a case's program."""
    return [arrays[item["array"]] if "array" in item else draw(**item) for item in case.arguments]


def largest_error(case: StoredCase, results: list[np.ndarray], arrays: dict[str, np.ndarray]) -> tuple[float, float]:
    """The relative error of the result that is farthest beyond its bound, or nearest to it, and that bound.

    The error is infinite where a result has another NaN or infinity.
    """
    if case.finite != [finite_count(result) for result in results]:
        return math.inf, 0.0
    errors = [
        relative_error(result.reshape(-1)[:: case.steps[index]], arrays[f"result{index}"], case.least)
        for index, result in enumerate(results)
    ]
    pairs = zip(errors, case.bounds, strict=True)
    return max(pairs, key=lambda pair: pair[0] / max(pair[1], 1e-300), default=(0.0, 0.0))


def relative_error(found: np.ndarray, expected: np.ndarray, least: float = 0.0) -> float:
    """The largest difference divided by the largest magnitude, or by `least` if that is larger.

    In whole numbers and bools all must be equal.
    """
    if expected.dtype.kind in "biu":
        return 0.0 if np.array_equal(found, expected) else math.inf
    found, expected = found.astype(np.float64), expected.astype(np.float64)
    is_finite = np.isfinite(expected)
    if not np.array_equal(found[~is_finite], expected[~is_finite], equal_nan=True):
        return math.inf
    difference = np.abs(found - expected)[is_finite]
    if not np.isfinite(difference).all():
        return math.inf
    largest = np.abs(expected[is_finite]).max(initial=least)
    return float(difference.max(initial=0.0) / largest) if largest else float(difference.max(initial=0.0))

"""Conversions from and to fp8: what is converted, and what ml_dtypes makes of it."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

NARROW = {"f8e4m3": ml_dtypes.float8_e4m3fn, "f8e5m2": ml_dtypes.float8_e5m2}
WIDE = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}


def codes(narrow: str) -> np.ndarray:
    """All 256 numbers of a format."""
    return np.arange(256, dtype=np.uint8).view(NARROW[narrow])


def halves(wide: str) -> np.ndarray:
    """All numbers of f16 or bf16."""
    return np.arange(1 << 16, dtype=np.uint16).view(WIDE[wide])


def around_midpoints(narrow: str) -> np.ndarray:
    """f32 at, next to and around the middle of each two neighbours, zero and the end of the range included; NaN, and
    numbers that are no fp8 by far."""
    finite = np.sort(codes(narrow).astype(np.float64)[np.isfinite(codes(narrow).astype(np.float64))])
    beyond = finite[-1] + (finite[-1] - finite[-2])
    ends = np.unique(np.concatenate([[-beyond], finite, [beyond]]))
    middle = ((ends[1:] + ends[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middle, np.float32(side)) for side in (-np.inf, np.inf)]
    far = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-30, 3e38, -70000, 2.0**-126], np.float32)
    return np.concatenate([middle, *near, ends.astype(np.float32), far])


def conversions(*arrays: Any) -> list[Any]:
    """What is compiled: each of both formats as all others, and f32, f64 and halves as both."""
    found = [array.astype(name) for array in arrays[:2] for name in (*WIDE, *NARROW, "i32", "bool")]
    return [*found, *(array.astype(name) for array in arrays[2:] for name in NARROW)]


def arguments(*, all_halves: bool = True) -> list[np.ndarray]:
    """What `conversions` takes; without `all_halves` some of them, for the interpreter."""
    single = np.concatenate([around_midpoints(name) for name in NARROW])
    step = 1 if all_halves else 97
    return [*map(codes, NARROW), single, single.astype(np.float64), *(halves(name)[::step] for name in ("f16", "bf16"))]


def expected(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """What ml_dtypes gives, whose integers of what is none are left out."""
    with np.errstate(all="ignore"):
        wide = [array.astype(dtype) for array in arrays[:2] for dtype in (*WIDE.values(), *NARROW.values())]
        return [*wide, *(array.astype(dtype) for array in arrays[2:] for dtype in NARROW.values())]


def is_nan(array: np.ndarray) -> np.ndarray:
    """Where there is a NaN, signalling ones included."""
    with np.errstate(invalid="ignore"):
        return np.isnan(array.astype(np.float64))


def check(found: list[np.ndarray], arrays: list[np.ndarray]) -> None:
    """All bits, but that a NaN is any NaN."""
    whole = len(WIDE) + len(NARROW) + 2
    integers = [found.pop(place) for place in (2 * whole - 1, 2 * whole - 2, whole - 1, whole - 2)]
    for one, other in zip(found, expected(arrays), strict=True):
        assert one.dtype == other.dtype
        is_number = ~is_nan(other)
        assert np.array_equal(is_number, ~is_nan(one))
        assert one[is_number].tobytes() == other[is_number].tobytes(), (other.dtype, one.shape)
    for narrow, flag, number in zip(arrays[:2], integers[2::-2], integers[3::-2], strict=True):
        wide = narrow.astype(np.float64)
        assert np.array_equal(flag, wide != 0)
        inside = np.clip(np.nan_to_num(wide, nan=0.0), -(2.0**31), 2.0**31 - 1)
        assert np.array_equal(number, np.trunc(inside).astype(np.int32))

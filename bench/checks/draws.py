"""Random sizes, dtypes and arrays by a seed, and cases of them that are compared with float64 on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import blu
from bench.gpu.case import Case

FLOATS = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f64": np.float64}
WHOLE = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u32": np.uint32}
ERRORS = {"f32": 1e-5, "bf16": 1e-2, "f16": 2e-3, "f64": 1e-12, "tf32": 3e-3}
Function = Callable[..., Any]


class Draws:
    """Random sizes, dtypes and arrays."""

    def __init__(self, seed: int, kind: str):
        self.rng = np.random.default_rng([seed, *kind.encode()])

    def size(self, least: int, most: int) -> int:
        """A size of any magnitude between these; each other time next to a multiple of a power of two."""
        size = int(np.exp(self.rng.uniform(np.log(least), np.log(most + 1))))
        if self.rng.integers(2):
            unit = 1 << int(self.rng.integers(3, 9))
            size = max(1, round(size / unit)) * unit + int(self.rng.integers(-1, 2))
        return min(max(size, least), most)

    def shape(self, most: int, *ranges: tuple[int, int]) -> tuple[int, ...]:
        """Sizes between these, of at most so many elements."""
        while True:
            shape = tuple(self.size(*item) for item in ranges)
            if np.prod(shape, dtype=np.int64) <= most:
                return shape

    def array(self, shape: Sequence[int], dtype: str) -> np.ndarray:
        """Normally distributed numbers, or small whole ones."""
        if dtype in WHOLE:
            return self.rng.integers(0, 100, shape).astype(WHOLE[dtype])
        return self.rng.standard_normal(shape).astype(FLOATS["f32" if dtype == "tf32" else dtype])

    def indices(self, count: int | tuple[int, ...], size: int) -> np.ndarray:
        """Places in a dimension."""
        return self.rng.integers(0, size, count, dtype=np.int32)

    def flag(self) -> bool:
        """True or False."""
        return bool(self.rng.integers(2))


def drawn_case(
    name: str, function: Function, arguments: Sequence[np.ndarray], error: float, exact: Function | None = None
) -> Case:
    """A case whose reference is `exact`, or the function itself, of numbers in float64 on the CPU."""
    shapes = " ".join("x".join(map(str, item.shape)) for item in arguments)
    reference = partial(_in_float64, exact or function, arguments)
    return Case(f"{name} {shapes}", function, tuple(arguments), error, reference=reference)


def _in_float64(function: Function, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    wide = [item if item.dtype.kind in "biu" else item.astype(np.float64) for item in arguments]
    compiled = blu.jit(function).trace(*wide).compile("cpu")
    return [np.array(item) for item in compiled.program.run(wide)]

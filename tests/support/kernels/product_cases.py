"""Matrix products as users write them, and how far each element of their results may be from exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, product
from typing import Any

import ml_dtypes
import numpy as np

import blu

DTYPES = {
    "bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "tf32": np.float32, "f64": np.float64,
    "i8": np.int8, "u8": np.uint8, "i32": np.int32, "i64": np.int64,
}  # fmt: skip
LAYOUTS = ("nn", "nt", "tn", "tt")
INTEGERS = ("i8", "u8", "i32", "i64")
EPILOGUES = ("none", "bias", "tanh", "cast", "two")
# Half of the distance of neighbouring numbers at 1, and of the smallest numbers.
_ROUNDING = {"bf16": (2.0**-8, 0.0), "f16": (2.0**-11, 2.0**-25), "f32": (2.0**-24, 0.0), "f64": (2.0**-53, 0.0)}


@dataclass(frozen=True)
class Case:
    """Products of rows x depth by depth x columns, `batch` times; "tf32" are f32 factors of that precision.

    `layout` says of each factor whether it lies as it is ("n") or transposed ("t"); of its rows in memory, the first
    `offset` elements are left out, and then all but every `step`-th.
    """

    dtype: str
    layout: str
    sizes: tuple[int, int, int]
    batch: tuple[int, ...] = ()
    epilogue: str = "none"
    offset: int = 0
    step: int = 1

    def __str__(self) -> str:
        parts = [self.dtype, self.layout, "x".join(map(str, self.sizes))]
        parts += [f"batch{'x'.join(map(str, self.batch))}"] if self.batch else []
        parts += [self.epilogue] if self.epilogue != "none" else []
        return "-".join(parts) + f"+{self.offset}" * bool(self.offset) + f"::{self.step}" * (self.step > 1)

    def arrays(self) -> list[np.ndarray]:
        """Factors, a bias [columns] and a residual [*batch, rows, columns]."""
        rows, columns, depth = self.sizes
        rng = np.random.default_rng([*self.sizes, *self.batch])
        factors = [(rows, depth), (depth, columns)]
        factors = [shape[::-1] if how == "t" else shape for shape, how in zip(factors, self.layout, strict=True)]
        shapes = [(*self.batch, first, self.offset + second * self.step) for first, second in factors]
        shapes += [(columns,), (*self.batch, rows, columns)]
        scale = 5 if self.dtype in INTEGERS else 1
        return [(rng.standard_normal(shape) * scale).astype(DTYPES[self.dtype]) for shape in shapes]

    def compute(self, left: blu.Tensor, right: blu.Tensor, bias: blu.Tensor, residual: blu.Tensor) -> tuple:
        """What is compiled."""
        left, right = self._seen(left, right)
        product = blu.matmul(left, right, precision="tf32" if self.dtype == "tf32" else "highest")
        if self.epilogue == "bias":
            return (product + bias,)
        if self.epilogue == "tanh":
            return (blu.tanh(product) + residual,)
        if self.epilogue == "cast":
            return (product.astype(self._other),)
        if self.epilogue == "two":
            return product, product * bias - residual
        return (product,)

    def check(self, results: Sequence[np.ndarray]) -> None:
        """Compare every element. What is of tf32 may be multiplied in f32 as well."""
        wrong = [self._wrong(results, rounds) for rounds in ((True, False) if self.dtype == "tf32" else (False,))]
        assert None in wrong, f"{self}: {wrong[0]}"

    def _wrong(self, results: Sequence[np.ndarray], rounds_tf32: bool) -> str | None:
        """What is the first wrong element."""
        for found, (expected, bound) in zip(results, self._expected(rounds_tf32), strict=True):
            assert found.shape == expected.shape, f"{self}: {found.shape}"
            far = ~(np.abs(found.astype(np.float64) - expected) <= bound)
            for at in np.argwhere(far)[:1]:
                place = tuple(map(int, at))
                return f"{far.sum()} of {far.size}; {found[place]} for {expected[place]} at {place}, +-{bound[place]}"
        return None

    @property
    def _other(self) -> str:
        """What a product is cast to."""
        return "f32" if self.dtype in ("bf16", "f16", *INTEGERS) else "bf16"

    def _seen(self, *factors: blu.Tensor) -> list[blu.Tensor]:
        """The matrices in what lies in memory."""
        parts = [x[..., self.offset :: self.step] if self.offset or self.step > 1 else x for x in factors]
        return [x.swapaxes(-1, -2) if how == "t" else x for x, how in zip(parts, self.layout, strict=True)]

    def _expected(self, rounds_tf32: bool) -> list[tuple[np.ndarray, np.ndarray]]:
        """Each result in f64, and a bound of its errors: of sums, and of each rounding of what follows."""
        *factors, bias, residual = self.arrays()
        if rounds_tf32:
            factors = [((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view("f4") for x in factors]
        left, right = self._seen(*factors)
        product, sums = _sums(left, right, self.dtype)
        bias, residual = bias.astype(np.float64), residual.astype(np.float64)
        first = sums + self._lost(product)
        if self.epilogue == "bias":
            return [(product + bias, first + self._lost(product + bias))]
        if self.epilogue == "tanh":
            curve = np.tanh(product)
            return [(curve + residual, first + 3 * self._lost(curve) + self._lost(curve + residual))]
        if self.epilogue == "cast":
            return [(product, first + _lost(product, self._other))]
        if self.epilogue == "two":
            scaled = product * bias
            lost = first * np.abs(bias) + self._lost(scaled) + self._lost(scaled - residual)
            return [(product, first), (scaled - residual, lost)]
        return [(product, first)]

    def _lost(self, numbers: np.ndarray) -> np.ndarray:
        """How much rounding to the case's dtype may change numbers."""
        return _lost(numbers, "f32" if self.dtype == "tf32" else self.dtype)


def table(
    dtypes: Sequence[str],
    sizes: Sequence[tuple[int, int, int]],
    layouts: Sequence[str] = LAYOUTS,
    **fields: Sequence[Any],
) -> list[Case]:
    """A case for every dtype and layout: sizes, and what else a case has, in turn."""
    turns = {name: cycle(values) for name, values in {"sizes": sizes, **fields}.items()}
    pairs = product(dtypes, layouts)
    return [Case(dtype, layout, **{name: next(turn) for name, turn in turns.items()}) for dtype, layout in pairs]


def random_case(seed: int, dtypes: Sequence[str], extents: Sequence[int]) -> Case:
    """A product of any kind."""
    rng = np.random.default_rng(seed)
    dtype, layout, epilogue = (str(rng.choice(names)) for names in (dtypes, LAYOUTS, EPILOGUES))
    rows, columns, depth = (int(rng.choice(extents)) for _ in range(3))
    batch = ((), (), (1,), (2,), (3, 2), (2, 0))[rng.integers(6)]
    offset, step = int(rng.choice([0, 0, 1, 2, 8])), int(rng.choice([1, 1, 2]))
    return Case(dtype, layout, (rows, columns, depth), batch, epilogue, offset, step)


def _lost(numbers: np.ndarray, dtype: str) -> np.ndarray:
    relative, smallest = _ROUNDING.get(dtype, (0.0, 0.0))
    return 1.01 * relative * np.abs(numbers) + smallest


def _sums(left: np.ndarray, right: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Exact sums of products in f64, and bounds of errors; integers wrap around.

    Sums of products of magnitude 1 are kept in f32 (of f64 in f64), cut or rounded: the largest errors that were
    seen grow as the square root of their number.
    """
    if dtype in INTEGERS:
        product = (left.astype(np.int64) @ right.astype(np.int64)).astype(DTYPES[dtype]).astype(np.float64)
        return product, np.zeros_like(product)
    left, right = left.astype(np.float64), right.astype(np.float64)
    unit = 2.0**-52 if dtype == "f64" else 2.0**-24
    count = max(1, left.shape[-1])
    return left @ right, unit * np.sqrt(count) * (np.abs(left) @ np.abs(right))

"""Attentions by shapes and masks: their operands, results and gradients in f64, and how far those of a target may be.

What is allowed is counted in roundings: each result's errors, those of rounded weights, slopes and results, are put
together as independent ones. So a row that sees one key too many, or lies in another's place, stands out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import ml_dtypes
import numpy as np

import blu
from blu.dialects.ops.attention import reference_weights
from tests.support.kernels.gpu_program import DTYPES

NAMES = ("result", "query", "key", "value")
UNITS = {"bf16": 1.0, "f16": 1.0, "f32": 3.0, "f64": 6.0}
"""What is allowed: little more than what is found. Of f64, the reference has errors of its own."""


@dataclass(frozen=True)
class Problem:
    """Shapes and masks of one attention. With `step`, operands are every so-maniest element of larger arrays."""

    name: str
    dtype: str
    query: tuple[int, ...]
    key: tuple[int, ...]
    width: int
    causal: bool = False
    scale: float = 0.25
    mask: tuple[int, ...] | None = None
    mask_dtype: str = "bool"
    offset: int | None = None
    step: int = 1
    precision: str = "highest"

    def arrays(self) -> list[np.ndarray]:
        """Query, key, value, the gradient of the result; then the mask and the offset where there are such."""
        rng = np.random.default_rng(0)
        shapes = (self.query, self.key, (*self.key[:-1], self.width), (*self.query[:-1], self.width))
        shapes = ((*shape[:-1], shape[-1] * self.step) for shape in shapes)
        arrays = [
            rng.standard_normal(shape).astype(DTYPES[self.rounding]).astype(DTYPES[self.dtype]) for shape in shapes
        ]
        if self.mask is not None and self.mask_dtype == "bool":
            flags = rng.integers(0, 2, self.mask).astype(np.bool_)
            if self.mask:
                flags[..., -1:, :] &= self.mask[-2] == 1  # the last query sees no key
            arrays.append(flags)
        elif self.mask is not None:
            arrays.append(rng.standard_normal(self.mask).astype(DTYPES[self.mask_dtype]))
        return arrays if self.offset is None else [*arrays, np.array(self.offset, np.int32)]

    @property
    def rounding(self) -> str:
        """The dtype that factors are rounded to: f16 has as many bits of fraction as tf32, of which operands are."""
        return "f16" if self.precision == "tf32" else self.dtype

    def split(self, rest: list) -> tuple:
        """The mask and the offset among the last arguments, or None."""
        rest = list(rest)
        mask = rest.pop(0) if self.mask is not None else None
        return mask, rest.pop(0) if self.offset is not None else None

    def forward(self) -> Callable:
        """The result, of all arrays."""

        def function(query, key, value, _, *rest):
            mask, offset = self.split(rest)
            query, key, value = (item[..., :: self.step] if self.step > 1 else item for item in (query, key, value))
            options = {"causal": self.causal, "offset": offset, "scale": self.scale, "precision": self.precision}
            return blu.attention(query, key, value, mask, **options)

        return function

    def backward(self) -> Callable:
        """The result and the gradients of query, key and value, of all arrays."""

        def function(query, key, value, g, *rest):
            plain = replace(self, step=1)
            operands = [item[..., :: self.step] if self.step > 1 else item for item in (query, key, value, g)]
            result, pull = blu.vjp(lambda *items: plain.forward()(*items, g, *rest), *operands[:3])
            return result, *pull(operands[3])

        return function

    def forward_kernel(self, target: str = "sm_90a") -> str:
        """The name of the kernel that `backward` has for the result: it leaves logarithms to Hopper's warpgroups."""
        columns = (self.query[-1], self.width)
        widest = {"f16": 256, "bf16": 256, "f32": 128}.get(self.dtype, 0)
        least = 32 if self.dtype == "f32" and self.precision != "tf32" else 1
        is_long = min(self.query[-2], self.key[-2]) >= 64 and least <= max(columns) <= widest
        is_taken = is_long and self.mask is None and not any(c % 8 for c in columns)
        return "attention_piece_0" if target == "sm_90a" and is_taken else "attention_0"

    def references(self) -> list[np.ndarray]:
        """The result and the three gradients, in f64."""
        return [item.value for item in self.expected]

    @cached_property
    def expected(self) -> list[Expected]:
        """The same, with what is allowed."""
        return _expected(self)

    def check(self, found: list[np.ndarray]) -> None:
        """Compare the result, or it and the three gradients, with the formula."""
        for name, array, expected in zip(NAMES, found, self.expected, strict=False):
            expected.check(f"{self.name}, {self.dtype}, {name}", array, UNITS[self.rounding])


def random_problem(seed: int) -> Problem:
    """A problem of any dtype, sizes about those of tiles, and any of the masks."""
    rng = np.random.default_rng(seed)

    def one_of(*choices):
        return choices[rng.integers(len(choices))]

    dtype, depth = one_of("f16", "bf16", "f32", "f64"), one_of(1, 3, 8, 16, 24, 33, 64, 80, 128)
    width = one_of(depth, depth, 5, 8, 24, 40)
    queries = one_of(0, 1, 2, 7, 8, 9, 31, 63, 64, 65, 127, 129)
    keys = one_of(0, 1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129)
    heads, groups, leading = one_of(1, 1, 2), one_of(1, 1, 2, 3), one_of((), (), (1,), (2,))
    causal = one_of(False, True, True)
    offset = one_of(None, None, 0, -3, 62, keys // 2, -queries - 5, 1000) if causal else None
    full = (*leading, heads * groups, queries, keys)
    mask = one_of(None, None, full, (queries, keys), (1, keys), (queries, 1), ())
    return Problem(
        f"seed {seed}", dtype, (*leading, heads * groups, queries, depth), (*leading, heads, keys, depth), width,
        causal, one_of(0.25, depth**-0.5, -0.3), mask, one_of("bool", dtype, "f32"), offset,
    )  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """An array in f64, and what one rounding of everything on the way to an element may change in it."""

    value: np.ndarray
    error: np.ndarray

    def units(self, found: np.ndarray) -> np.ndarray:
        """How far each element is off, in roundings."""
        return np.abs(found.astype(np.float64) - self.value) / self.error

    def check(self, name: str, found: np.ndarray, units: float) -> None:
        """Every element must be there, with so few roundings."""
        assert found.shape == self.value.shape, f"{name}: {found.shape} instead of {self.value.shape}"
        far = ~(self.units(found) <= units)
        if far.any():
            place = tuple(map(int, np.argwhere(far)[0]))
            raise AssertionError(
                f"{name}: {far.sum()} of {far.size} elements are wrong, in rows {np.unique(np.argwhere(far)[:, -2])}; "
                f"at {place} {found[place]} instead of {self.value[place]:.6g}, {self.units(found)[place]:.2f} units"
            )


def _expected(problem: Problem) -> list[Expected]:
    arrays = problem.arrays()
    query, key, value, g = (item[..., :: problem.step].astype(np.float64) for item in arrays[:4])
    mask, offset = problem.split(arrays[4:])
    mask = mask.astype(np.float64) if mask is not None and mask.dtype != np.bool_ else mask
    groups, scale = query.shape[-3] // key.shape[-3] if key.shape[-3] else 1, problem.scale
    keys, values = (np.repeat(heads, groups, axis=-3) for heads in (key, value))
    epsilon, computed, smallest = _roundings(problem.rounding)
    weights = reference_weights(query, keys, mask, offset, problem.causal, scale)
    scores = np.abs(query) @ _turned(np.abs(keys)) * abs(scale) + _size(mask)
    largest = np.max(scores, axis=-1, keepdims=True, initial=0)
    relative = epsilon + computed * (1 + scores + largest)
    of_weights = np.where(weights > 0, weights * relative + smallest, 0)
    result = weights @ values
    inner = (g * result).sum(axis=-1, keepdims=True)
    slopes = weights * (g @ _turned(values) - inner)
    off_inner = np.hypot(epsilon * np.sqrt(((g * result) ** 2).sum(axis=-1, keepdims=True)), computed * np.abs(inner))
    off_slopes = np.abs(slopes) * relative + weights * computed * (np.abs(g) @ _turned(np.abs(values))) + smallest
    off_slopes = np.where(weights > 0, off_slopes, 0)
    of_query = np.hypot(_spread(off_slopes, keys), off_inner * np.abs(weights @ keys)) * abs(scale)
    of_key = np.hypot(_spread(_turned(off_slopes), query), _spread(_turned(weights * off_inner), query)) * abs(scale)
    of_value = _spread(_turned(of_weights), g)
    found = [
        (result, _spread(of_weights, values)),
        (slopes @ keys * scale, of_query),
        (_by_key_head(_turned(slopes) @ query * scale, groups), np.sqrt(_by_key_head(of_key**2, groups))),
        (_by_key_head(_turned(weights) @ g, groups), np.sqrt(_by_key_head(of_value**2, groups))),
    ]
    return [Expected(item, error + epsilon * np.abs(item) + smallest) for item, error in found]


def _roundings(dtype: str) -> tuple[float, float, float]:
    """The epsilon of a dtype, that of the dtype computed in, and the smallest number."""
    info = ml_dtypes.finfo(DTYPES[dtype])
    computed = np.finfo(np.float64 if dtype == "f64" else np.float32).eps
    return float(info.eps), float(computed), float(info.smallest_subnormal)


def _size(mask: np.ndarray | None) -> np.ndarray | float:
    """What an added mask adds to scores, without its sign."""
    return 0.0 if mask is None or mask.dtype == np.bool_ else np.abs(mask)


def _turned(matrices: np.ndarray) -> np.ndarray:
    return np.swapaxes(matrices, -1, -2)


def _spread(errors: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """The errors of a product's elements, from independent ones of the terms' left factors."""
    return np.sqrt(errors**2 @ factors**2)


def _by_key_head(heads: np.ndarray, groups: int) -> np.ndarray:
    """Sums over the query heads that share a key head."""
    shape = (*heads.shape[:-3], heads.shape[-3] // groups, groups, *heads.shape[-2:])
    return heads.reshape(shape).sum(axis=-3)

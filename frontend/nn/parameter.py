"""`Parameter`: the shape, dtype and initial distribution of an array that a module needs but does not have yet."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType, as_dtype, f32
from blu.errors import ArgumentError
from blu.frontend.tracing.spec import Spec, spec
from blu.frontend.tracing.tree import is_array

KINDS = ("normal", "uniform", "constant")
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


@dataclass(frozen=True)
class Parameter(Spec):
    """Stands for an array until there is one. `kind` is "normal" (of deviation `scale`), "uniform" (in +-`scale`),
    "constant" (of value `scale`), or a function that draws the numbers for a shape with a generator of NumPy's.

    `blu.nn.init` makes parameters by the names of their distributions."""

    dtype: DType = f32
    kind: str | Draw = "normal"
    scale: float = 0.02

    def __post_init__(self) -> None:
        if is_array(self.shape):
            advice = "An array is a parameter as it is: self.weight = array."
            raise ArgumentError("a Parameter is a shape that has no numbers yet, not an array", advice=advice)
        if not callable(self.kind) and self.kind not in KINDS:
            raise ArgumentError(f"kind={self.kind!r} is no distribution: one of {', '.join(KINDS)}")
        checked = spec(self.shape, self.dtype)
        object.__setattr__(self, "shape", checked.shape)
        object.__setattr__(self, "dtype", checked.dtype)

    def sample(self, seed: int, name: str) -> np.ndarray:
        """The initial numbers; every name has a generator of its own, so no order of parameters changes them."""
        if self.kind == "constant":
            return np.full(self.shape, self.scale, self.dtype.numpy)
        generator = np.random.Generator(np.random.PCG64([seed, zlib.crc32(name.encode())]))
        if callable(self.kind):
            values = self.kind(generator, self.shape)
        elif self.kind == "normal":
            values = generator.standard_normal(self.shape, np.float32) * np.float32(self.scale)
        else:
            values = generator.uniform(-self.scale, self.scale, self.shape)
        return values.astype(self.dtype.numpy)


def normal(shape: Iterable[int], deviation: float, dtype: object = "f32") -> Parameter:
    """A parameter whose numbers start out normal around zero."""
    return Parameter(tuple(shape), as_dtype(dtype), "normal", deviation)


def uniform(shape: Iterable[int], bound: float, dtype: object = "f32") -> Parameter:
    """A parameter whose numbers start out uniform between -bound and bound."""
    return Parameter(tuple(shape), as_dtype(dtype), "uniform", bound)


def constant(shape: Iterable[int], value: float, dtype: object = "f32") -> Parameter:
    """A parameter whose numbers all start out as `value`."""
    return Parameter(tuple(shape), as_dtype(dtype), "constant", value)

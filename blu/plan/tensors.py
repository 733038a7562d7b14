"""Arguments and results of a program, as its plan describes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np

from blu.dataclass import dataclass
from blu.plan.reading import MAX_BYTES, listed, natural, require, text

DTYPES: dict[str, np.dtype] = {
    "bool": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
"""Blu's names of dtypes in this order of kinds, with numpy's dtypes."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of an argument or result.

    `donated`: the program overwrites this argument. `input`: this result is that (donated) argument, updated in place.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    donated: bool = False
    input: int | None = None

    @classmethod
    def parse(cls, entry: Mapping[str, Any], what: str) -> TensorSpec:
        dtype, source = text(entry.get("dtype"), f"the dtype of {what}"), entry.get("input")
        shape = listed(entry.get("shape"), f"the shape of {what}")
        dims = tuple(natural(dim, f"a dimension of {what}") for dim in shape)
        require(len(dims) <= 64, f"{what} has {len(dims)} dimensions")
        require(dtype in DTYPES, f"{what} has the dtype {dtype!r}")
        require(math.prod(dims) <= MAX_BYTES // 8, f"{what} has the shape {dims}")
        if source is not None:
            natural(source, f"the argument of {what}")
        name = text(entry.get("name", ""), f"the name of {what}")
        return cls(name, dims, dtype, entry.get("donated") is True, source)

    def to_json(self, is_result: bool = False) -> dict[str, Any]:
        """The entry of an argument, or of a result."""
        shown = {"shape": list(self.shape), "dtype": self.dtype}
        shown |= {"name": self.name}
        return shown | ({"input": self.input} if is_result else {"donated": self.donated})

    @cached_property
    def numpy_dtype(self) -> np.dtype:
        """The dtype as numpy knows it."""
        return DTYPES[self.dtype]

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one such tensor."""
        return math.prod(self.shape) * self.numpy_dtype.itemsize

    def __repr__(self) -> str:
        marks = " donated" if self.donated else "" if self.input is None else f" = argument {self.input}"
        return f"{self.name or '_'}: {self.dtype}[{', '.join(map(str, self.shape))}]{marks}"

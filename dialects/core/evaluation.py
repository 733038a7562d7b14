"""What an op means, in numbers: its NumPy reference with Blu's rules of rounding around it."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.dtypes import TensorType, as_dtype
from blu.dialects.core.op import Op


def array_type(array: np.ndarray) -> TensorType:
    """The tensor type of an array."""
    return TensorType(array.shape, as_dtype(array.dtype))


def on_operand(function: Any, item: Any) -> Any:
    """Apply `function` to what one operand field holds: an array or a value, a list of such, or None."""
    if item is None:
        return None
    return [function(entry) for entry in item] if isinstance(item, list) else function(item)


def evaluate(cls: type[Op], operands: tuple[Any, ...], attributes: dict[str, Any]) -> list[np.ndarray]:
    """The results of an op on arrays. Floats are computed in f64 and rounded once, to the result's dtype."""
    types = cls.infer_all([on_operand(array_type, item) for item in operands], attributes)
    with np.errstate(all="ignore"):
        found = cls.reference(*(on_operand(_widened, item) for item in operands), **attributes)
        results = list(found) if isinstance(found, tuple) else [found]
        return [_rounded(np.asarray(result), type_) for result, type_ in zip(results, types, strict=True)]


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if as_dtype(array.dtype).is_float else array


def _rounded(result: np.ndarray, type_: TensorType) -> np.ndarray:
    assert result.shape == type_.shape, f"the reference gives shape {result.shape}, infer says {type_}"
    assert type_.dtype.is_float == as_dtype(result.dtype).is_float, f"the reference gives {result.dtype}, not {type_}"
    return result.astype(type_.dtype.numpy)

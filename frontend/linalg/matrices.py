"""What functions of matrices take."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.dtypes import DType, computing_dtype
from blu.dialects.tensor.promotion import converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError


def epsilon_of(dtype: DType) -> float:
    """The distance from 1 to the next number."""
    return float(np.finfo(dtype.numpy).eps)


def matrices(*values: Any, square: bool = False) -> tuple[list[Tensor], DType]:
    """Matrices of one dtype that the host computes in, and the dtype that their results have.

    ShapeError for what has fewer than two dimensions, or, where they must be `square`, other numbers of rows than of
    columns.
    """
    tensors = promoted_floats(*values)
    for tensor in tensors:
        if tensor.ndim < 2:
            raise ShapeError(f"takes matrices, of at least two dimensions, got {tensor.type}")
        if square and tensor.shape[-1] != tensor.shape[-2]:
            raise ShapeError(f"takes square matrices, got {tensor.type}")
    dtype = tensors[0].dtype
    return [converted(tensor, computing_dtype(dtype)) for tensor in tensors], dtype

"""Products of vectors, matrices and tensors beyond matmul."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import product
from blu.dialects.tensor.arithmetic import matmul
from blu.dialects.tensor.arrangement import flatten, moveaxis, reshape
from blu.dialects.tensor.function import method, public
from blu.dialects.tensor.promotion import as_tensor, promoted
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

__all__ = [
    "dot",
    "outer",
    "tensordot",
    "trace",
    "vdot",
]


@public
def dot(x: Any, y: Any, precision: str = "highest") -> Tensor:
    """numpy.dot: matmul for one and two dimensions, a product for 0-d; otherwise x's last with y's second last."""
    left, right = promoted(x, y)
    if not left.ndim or not right.ndim:
        return left * right
    if right.ndim <= 2:
        return matmul(left, right, precision=precision)
    return tensordot(left, right, ([left.ndim - 1], [right.ndim - 2]), precision)


@public
def vdot(x: Any, y: Any) -> Tensor:
    """The sum of the products of all elements in row-major order, of complex ones with those of x conjugated."""
    return matmul(flatten(x), flatten(y))


@public
def outer(x: Any, y: Any) -> Tensor:
    """Every element of x times every element of y: [x.size, y.size]."""
    return flatten(x).expand_dims(1) * flatten(y)


@public
def tensordot(x: Any, y: Any, axes: Any = 2, precision: str = "highest") -> Tensor:
    """The sum of products over pairs of axes: the last `axes` of x with the first of y, or two lists of axes.

    ShapeError where these are not equally many, or of different sizes.
    """
    left, right = promoted(x, y)
    own, other = _paired_axes(axes, left, right)
    sizes = [left.shape[axis] for axis in own]
    if sizes != [right.shape[axis] for axis in other]:
        raise ShapeError(f"axes {own} of {left.type} and {other} of {right.type} have different sizes")
    count = product(sizes)
    left = moveaxis(left, own, range(left.ndim - len(own), left.ndim))
    right = moveaxis(right, other, range(len(other)))
    rows, columns = left.shape[: left.ndim - len(own)], right.shape[len(other) :]
    result = matmul(
        reshape(left, (product(rows), count)), reshape(right, (count, product(columns))), precision=precision
    )
    return reshape(result, (*rows, *columns))


def _paired_axes(axes: Any, left: Tensor, right: Tensor) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        axes = (range(left.ndim - axes, left.ndim), range(axes))
    own, other = ([axis] if isinstance(axis, int) else list(axis) for axis in axes)
    if len(own) != len(other):
        raise ShapeError(f"tensordot needs equally many axes of both, got {own} and {other}")
    return [normalize_axis(axis, left.ndim) for axis in own], [normalize_axis(axis, right.ndim) for axis in other]


@method
def trace(x: Any, offset: int = 0) -> Tensor:
    """The sum of the diagonal of the last two dimensions."""
    return as_tensor(x).diagonal(offset).sum(axis=-1)

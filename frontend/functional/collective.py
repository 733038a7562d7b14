"""Collectives: what the ranks of an axis of the mesh do together.

    @blu.jit(mesh=blu.Mesh(dp=4))
    def mean_over_ranks(x): return blu.all_reduce(x, "dp", "mean")

Each rank runs the program with arrays of its own. Of `dim`, others than 0 are moved there and back.
"""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.mesh import axis_size
from blu.dialects.ops import collective as ops
from blu.dialects.tensor.arrangement import moveaxis
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

__all__ = ["all_gather", "all_reduce", "all_to_all", "axis_index", "broadcast", "permute", "reduce_scatter"]


@public
def all_reduce(x: Any, axis: str, reduction: str = "sum") -> Tensor:
    """The sum (or "mean", "max", "min") of x over all ranks of an axis, on each of them; of x's shape."""
    return ops.AllReduce(as_tensor(x), axis=axis, ranks=axis_size(axis), reduction=reduction)


@public
def all_gather(x: Any, axis: str, dim: int = 0) -> Tensor:
    """x of all ranks of an axis, one after the other along `dim`, on each of them. ShapeError for a scalar."""
    tensor = as_tensor(x)
    at = _dim(tensor, dim)
    return moveaxis(ops.AllGather(moveaxis(tensor, at, 0), axis=axis, ranks=axis_size(axis)), 0, at)


@public
def reduce_scatter(x: Any, axis: str, dim: int = 0, reduction: str = "sum") -> Tensor:
    """Of the sum (or "mean", "max", "min") of x over all ranks of an axis, part i along `dim` on rank i.

    ShapeError for a scalar, or a dimension that has no such parts.
    """
    tensor = as_tensor(x)
    at = _dim(tensor, dim)
    moved = moveaxis(tensor, at, 0)
    return moveaxis(ops.ReduceScatter(moved, axis=axis, ranks=axis_size(axis), reduction=reduction), 0, at)


@public
def broadcast(x: Any, axis: str, root: int = 0) -> Tensor:
    """x of rank `root` of an axis, on all of them."""
    return ops.Broadcast(as_tensor(x), axis=axis, ranks=axis_size(axis), root=root)


@public
def all_to_all(x: Any, axis: str, split_dim: int = 0, concat_dim: int = 0) -> Tensor:
    """Part i along `split_dim` of each rank's x on rank i of an axis, one after the other along `concat_dim`.

    ShapeError for a scalar, or a dimension that has no such parts.
    """
    tensor, ranks = as_tensor(x), axis_size(axis)
    split_at, joined_at = _dim(tensor, split_dim), _dim(tensor, concat_dim)
    received = ops.AllToAll(moveaxis(tensor, split_at, 0), axis=axis, ranks=ranks)
    if split_at == joined_at:
        return moveaxis(received, 0, split_at)
    parts = received.reshape((ranks, received.shape[0] // ranks, *received.shape[1:]))
    there = moveaxis(parts, 1, 1 + split_at)  # [ranks, *shape of a part]
    beside = moveaxis(there, 0, joined_at)
    shape = list(there.shape[1:])
    shape[joined_at] *= ranks
    return beside.reshape(tuple(shape))


@public
def permute(x: Any, axis: str, shift: int = 1) -> Tensor:
    """x of the rank that lies `shift` before this one, round an axis."""
    return ops.Permute(as_tensor(x), axis=axis, ranks=axis_size(axis), shift=shift)


@public
def axis_index(axis: str) -> Tensor:
    """Which rank of an axis this one is, an i32."""
    return ops.AxisIndex(axis=axis, ranks=axis_size(axis))


def _dim(tensor: Tensor, dim: int) -> int:
    if not tensor.shape:
        raise ShapeError("a scalar has no dimension: reshape it to (1,)")
    return normalize_axis(dim, len(tensor.shape))

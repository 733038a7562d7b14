"""Gradients as a whole: their norm, clipping, whether they are finite."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.tensor.function import told
from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.tracing.tree import flatten

Tree = Any


@told
def global_norm(gradients: Tree) -> Any:
    """The Euclidean norm of all gradients together, as an f32 scalar (f64 for f64 gradients).

    ArgumentError where there is none.
    """
    leaves, _ = flatten(gradients)
    if not leaves:
        raise ArgumentError("the norm of no gradients: there is no array in what was given")
    squares = [ops.sum(ops.square(ops.astype(leaf, computing_dtype(leaf.dtype)))) for leaf in leaves]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    return ops.sqrt(total)


@told
def clip_by_global_norm(gradients: Tree, limit: float) -> tuple[Tree, Any]:
    """Gradients scaled so that their global norm is at most `limit`, and the norm they had.

    ArgumentError unless the limit is above 0.
    """
    if not limit > 0:
        raise ArgumentError(f"the limit of the gradients' norm must be positive, got {limit}")
    norm = global_norm(gradients)
    scale = ops.minimum(limit / (norm + 1e-6), 1.0)
    leaves, tree = flatten(gradients)
    return tree.unflatten([ops.multiply(leaf, ops.astype(scale, leaf.dtype)) for leaf in leaves]), norm


@told
def clip_by_value(gradients: Tree, limit: float) -> Tree:
    """Gradients whose elements are between -limit and limit (above 0, else ArgumentError); NaN stays NaN."""
    if not limit > 0:
        raise ArgumentError(f"the limit of the gradients' elements must be positive, got {limit}")
    leaves, tree = flatten(gradients)
    return tree.unflatten([ops.clip(leaf, -limit, limit) for leaf in leaves])


@told
def is_finite(*trees: Tree) -> Any:
    """A bool scalar: whether no element of any leaf is NaN or infinite.

    Of a norm or a loss it costs nothing; of gradients it reads them all. A global norm that is finite says the same of
    its gradients. ArgumentError where there are no leaves.
    """
    finite = [ops.all(ops.isfinite(leaf)) for tree in trees for leaf in flatten(tree)[0]]
    if not finite:
        raise ArgumentError("there is nothing of which to say whether it is finite")
    result = finite[0]
    for item in finite[1:]:
        result = ops.logical_and(result, item)
    return result

"""Trees of arrays of one nesting, such as parameters, their gradients and their moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.dtypes import computing_dtype
from blu.dialects.tensor.function import told
from blu.errors import ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.tracing.tree import flatten

Tree = Any


def _zeros(leaf: Any) -> np.ndarray:
    return np.zeros(tuple(leaf.shape), computing_dtype(leaf.dtype).numpy)


def without_buffers(parameters: Tree) -> Tree:
    """The same with None in the place of modules' buffers, as gradients have it."""
    leaves, tree = flatten(parameters)
    if not tree.buffers:
        return parameters
    return tree.unflatten([None if place in tree.buffers else leaf for place, leaf in enumerate(leaves)])


def with_buffers(trained: Tree, parameters: Tree) -> Tree:
    """What `without_buffers(parameters)` has become in training, with the buffers of `parameters`."""
    leaves, tree = flatten(parameters)
    if not tree.buffers:
        return trained
    others = iter(flatten(trained)[0])
    return tree.unflatten([leaf if place in tree.buffers else next(others) for place, leaf in enumerate(leaves)])


def zeros_beside(parameters: Tree) -> Tree:
    """Zeros beside each parameter, f32 beside narrower ones; nothing beside buffers."""
    leaves, tree = flatten(without_buffers(parameters))
    return tree.unflatten([_zeros(leaf) for leaf in leaves])


def aligned(parameters: Tree, *others: Tree) -> tuple[list[tuple[Any, ...]], Any]:
    """Each parameter with its partners from the other trees, which must have the same leaves."""
    leaves, tree = flatten(parameters)
    columns = [leaves]
    for other in others:
        partners, other_tree = flatten(other)
        if other_tree.names != tree.names:
            missing = sorted(set(tree.names) ^ set(other_tree.names))
            what = ", ".join(missing[:5]) or "the order of their leaves"
            raise ShapeError(f"parameters and gradients or state differ in {what}")
        columns.append(partners)
    return list(zip(*columns, strict=True)), tree


@told
def choose(condition: Any, first: Tree, second: Tree) -> Tree:
    """Where a bool scalar is true the leaves of `first`, else those of `second`, bit for bit.

    ShapeError where these differ in nesting, shape or dtype.
    """
    pairs, tree = aligned(first, second)
    return tree.unflatten([ops.where(condition, x, y) for x, y in pairs])

"""Trees of arrays of one nesting, such as parameters, their gradients and their moments."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.dialects.core.dtypes import as_dtype, computing_dtype
from blu.errors import ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.tracing.tree import flatten

Tree = Any


def _zeros(leaf: Any) -> np.ndarray:
    return np.zeros(tuple(leaf.shape), computing_dtype(as_dtype(leaf.dtype)).numpy)


def zeros_beside(parameters: Tree) -> Tree:
    """Zeros beside each parameter, f32 beside narrower ones."""
    leaves, tree = flatten(parameters)
    return tree.unflatten([_zeros(leaf) for leaf in leaves])


def aligned(parameters: Tree, *others: Tree) -> tuple[list[tuple[Any, ...]], Any]:
    """Each parameter with its partners from the other trees, which must have the same leaves."""
    leaves, tree = flatten(parameters)
    columns = [leaves]
    for other in others:
        partners, other_tree = flatten(other)
        if other_tree.names != tree.names:
            missing = sorted(set(tree.names) ^ set(other_tree.names))
            raise ShapeError(f"parameters and gradients or state differ in {', '.join(missing[:5])}")
        columns.append(partners)
    return list(zip(*columns, strict=True)), tree


def choose(condition: Any, first: Tree, second: Tree) -> Tree:
    """Where a bool scalar is true the leaves of `first`, else those of `second`, bit for bit."""
    pairs, tree = aligned(first, second)
    return tree.unflatten([ops.where(condition, x, y) for x, y in pairs])

"""Nested values by hand: models, gradients, states of optimizers, and whatever else holds arrays in containers.

Containers are modules, dicts, lists, tuples (also named ones), dataclasses, and types that `register` has made some;
everything else is a leaf, but None, which is a container of nothing.

    count = sum(leaf.size for leaf in blu.tree.leaves(model))
    halves = blu.tree.map(lambda leaf: leaf.astype("bf16"), model)
    averages = blu.tree.map(lambda old, new: 0.9 * old + 0.1 * new, averages, gradients)
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from blu import errors
from blu.errors import ArgumentError
from blu.frontend.tracing import tree as trees
from blu.frontend.tracing.tree import TreeDef

__all__ = ["flatten", "items", "leaves", "map", "register", "unflatten"]


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves in order, and the nesting, which is hashable and equal where types, keys and other values are.

    ArgumentError for a tree that holds itself.
    """
    return trees.flatten(tree)


def unflatten(nesting: TreeDef, leaves: Sequence[Any]) -> Any:
    """The tree of a nesting that `flatten` has given, around as many other leaves; else an ArgumentError."""
    if len(leaves) != nesting.num_leaves:
        raise ArgumentError(f"tree.unflatten: the tree has {nesting.num_leaves} leaves, got {len(leaves)}")
    return nesting.unflatten(leaves)


def leaves(tree: Any) -> list[Any]:
    """The leaves in order: dicts in the order of their items, modules in that of their attributes."""
    return trees.flatten(tree)[0]


def items(tree: Any) -> list[tuple[str, Any]]:
    """Each leaf with its name, the keys on the way to it with dots between: ("h.0.attn.weight", array)."""
    found, nesting = trees.flatten(tree)
    return list(zip(nesting.names, found, strict=True))


def map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """The tree with `function(leaf, *leaves of the others at the same place)` in the place of each leaf.

    The other trees have the same leaves by name, in containers of any type; else it is an ArgumentError that says which
    is missing. (Gradients have None, which is no leaf, for the buffers of a module.)
    """
    found, nesting = trees.flatten(tree)
    columns = [found]
    for other in others:
        partners, other_nesting = trees.flatten(other)
        if other_nesting.names != nesting.names:
            raise ArgumentError(f"tree.map: the trees differ: {_difference(nesting, other_nesting)}")
        columns.append(partners)
    return nesting.unflatten(list(builtins.map(function, *columns)))


def _difference(one: TreeDef, other: TreeDef) -> str:
    """Where the names of two trees' leaves differ first."""
    for present, names, which in ((one, other.names, "other"), (other, one.names, "first")):
        missing = next((name for name in present.names if name not in names), None)
        if missing is not None:
            return f"the {which} has no leaf {missing!r}"
    return "their leaves come in another order"


def register(
    kind: type,
    flatten: Callable[[Any], tuple[Mapping[Any, Any], Hashable]],
    unflatten: Callable[[dict[Any, Any], Any], Any],
) -> None:
    """Make a type and its subclasses containers, also as arguments and results of compiled functions.

    `flatten(value)` gives its children by key, and a hashable rest that programs are compiled for; `unflatten(children,
    rest)` gives the value back.
    """
    trees.register(kind, flatten, unflatten)


__getattr__ = errors.guessing(globals())

"""Arrays of a checkpoint against what the program expects: all differences at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blu.errors import CheckpointError
from blu.frontend.io.state_dict import check_state_dict, fold_layers
from blu.frontend.tracing import tree


def named_leaves(state: Any) -> dict[str, Any]:
    """The leaves of a tree by their dotted paths. Raises CheckpointError when two have the same."""
    leaves, treedef = tree.flatten(state)
    named = dict(zip(treedef.names, leaves, strict=True))
    if len(named) < len(leaves):
        twice = next(name for index, name in enumerate(treedef.names) if name in treedef.names[:index])
        raise CheckpointError(f"two leaves of the state have the path {twice!r}", advice="use no dots in dict keys")
    return named


def differences(what: str, expected: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> tuple[list[str], set[str]]:
    """What is missing, unexpected or of another shape or dtype, a line each; and the expected names that do not fit."""
    kinds = {name: _shape_and_dtype(value) for name, value in expected.items()}
    by_shape = check_state_dict({name: shape for name, (shape, _) in kinds.items()}, found, strict=False)
    wrong: dict[str, list[str]] = {}
    for name, (_, dtype) in kinds.items():
        if name in found and found[name].dtype != dtype:
            wrong.setdefault(f"{found[name].dtype}, expected {dtype}", []).append(name)
    lines = str(by_shape).split("\n    ") if by_shape else []
    lines += [f"dtype of {name}: {pair}" for pair, names in wrong.items() for name in fold_layers(names)]
    unusable = {*by_shape.missing, *(name for name, *_ in by_shape.mismatched)}.union(*wrong.values())
    return [f"{what}: {line}" for line in lines], unusable


def fit_model(template: Mapping[str, Any], found: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], list[str]]:
    """What of `found` has a place in the template, and the differences."""
    lines, unusable = differences("model", template, found)
    return {name: found[name] for name in template if name not in unusable}, lines


def fit_optimizer(template: Any, found: Mapping[str, np.ndarray]) -> tuple[Any, list[str]]:
    """The template's tree with the arrays of `found`, its own leaves where they do not fit, and the differences."""
    own = named_leaves(template)
    lines, unusable = differences("optimizer", own, found)
    leaves = [leaf if name in unusable else found[name] for name, leaf in own.items()]
    return tree.flatten(template)[1].unflatten(leaves), lines


def _shape_and_dtype(value: Any) -> tuple[tuple[int, ...], np.dtype]:
    if not tree.is_array(value):
        value = np.asarray(value)
    # Blu's own dtypes name NumPy's.
    return tuple(value.shape), np.dtype(getattr(value.dtype, "numpy", value.dtype))

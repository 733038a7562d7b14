"""One name, one class: who reads a name knows what it is."""

from __future__ import annotations

import ast

from tests.test_architecture import _modules, _none, _where

# Names that classes of several modules may have, and why.
_PER_TARGET = "the same for each target, which know nothing of each other"
_OP_AND_LAYER = "an op, named in IR, and the layer of models, named by users"
HOMONYMS = {
    "Array": "what a field of an op holds, written by who declares one, and what users get",
    "Attention": _OP_AND_LAYER,
    "Collectives": _PER_TARGET,
    "Constant": "an op, named in IR, and a constant of a plan, named in its JSON",
    "Contract": "an op, named in IR, and what one launch of a kernel was compiled for",
    "Decode": _PER_TARGET,
    "Fold": "what a kernel of rows combines, and the layer that users call by torch's name",
    "HeadMatrix": _PER_TARGET,
    "LayerNorm": _OP_AND_LAYER,
    "LogSoftmax": _OP_AND_LAYER,
    "Problem": _PER_TARGET,
    "RadixSchedule": _PER_TARGET,
    "RadixSort": _PER_TARGET,
    "RowKernel": _PER_TARGET,
    "Sigmoid": _OP_AND_LAYER,
    "Softmax": _OP_AND_LAYER,
    "Tanh": _OP_AND_LAYER,
}


def test_classes_are_named_apart() -> None:
    """By their role, where two would have one name."""
    found: dict[str, list[str]] = {}
    for module in _modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(_where(module.path, node.lineno))
    twice = {name: places for name, places in found.items() if len(places) > 1}
    _none([f"{name}: {', '.join(twice[name])}" for name in twice.keys() - HOMONYMS.keys()], "see HOMONYMS")
    assert not HOMONYMS.keys() - twice.keys(), "these are no longer two"

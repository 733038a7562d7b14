"""`blu.sharding` of an argument or a result: how a tensor of a program is laid out over the ranks of its mesh."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from blu.dialects.core.mlir import func, ir
from blu.errors import ArgumentError, ShapeError
from blu.plan.sharding import Sharding, Split, Splits, first_of, in_order, local_groups

__all__ = [
    "ALL_GATHER",
    "ALL_TO_ALL",
    "ATTRIBUTE",
    "BETWEEN",
    "PERMUTE",
    "ROTATION",
    "ROTATIONS",
    "Sharding",
    "Split",
    "Splits",
    "check_rotation",
    "first_of",
    "in_order",
    "local_groups",
    "rotation_of",
    "set_rotation",
    "set_shardings",
]

ATTRIBUTE = "blu.sharding"
BETWEEN = "blu.between"
"""Of an argument: how rows of what is made of it are split between products of which ranks have terms."""
ROTATION = "blu.rotation"
"""Of a module: the exchange by which keys and values come to all ranks that have positions of a sequence."""
PERMUTE, ALL_GATHER, ALL_TO_ALL = ROTATIONS = "permute", "all_gather", "all_to_all"


def set_shardings(module: ir.Module, shardings: Mapping[str, str], attribute: str = ATTRIBUTE) -> None:
    """Say how the arguments and results of @main lie, by patterns of their names (`model.h.*.weight`).

    The first pattern that fits counts. A result that none fits lies as the argument of its name does. With `BETWEEN`
    for an attribute, it is said of arguments alone. ShapeError for a pattern that fits no name.
    """
    if not shardings:
        return
    parsed = {pattern: str(Sharding.parse(text)) for pattern, text in shardings.items()}
    [main] = [item for item in module.body.operations if isinstance(item, func.FuncOp) and item.name.value == "main"]
    arguments, results = (_named(main, kind) for kind in ("arg_attrs", "res_attrs"))
    unused = [pattern for pattern in parsed if not any(fnmatchcase(name, pattern) for name in (*arguments, *results))]
    if unused:
        names = ", ".join([*arguments][:8])
        raise ShapeError(f"no argument or result is called {unused[0]!r}", advice=f"There are {names}, ...")
    found = {name: text for name in arguments if (text := first_of(parsed, name))}
    texts = [found.get(name) for name in arguments]
    with module.context:
        _write(main, "arg_attrs", texts, attribute)
        if attribute == ATTRIBUTE:
            _write(main, "res_attrs", [first_of(parsed, name) or found.get(name) for name in results], attribute)


def set_rotation(module: ir.Module, rotation: str) -> None:
    """Say by which exchange keys and values travel: one of `ROTATIONS`, of which the first needs not be said."""
    if rotation != PERMUTE:
        with module.context:
            module.operation.attributes[ROTATION] = ir.StringAttr.get(rotation)


def rotation_of(module: ir.Module) -> str:
    """By which exchange keys and values travel. ArgumentError for one that there is not."""
    attributes = module.operation.attributes
    return check_rotation(ir.StringAttr(attributes[ROTATION]).value if ROTATION in attributes else PERMUTE)


def check_rotation(rotation: str) -> str:
    """A rotation that there is, as it is given."""
    if rotation not in ROTATIONS:
        raise ArgumentError(f"the rotation {rotation!r} is none of {', '.join(ROTATIONS)}")
    return rotation


def _named(main: func.FuncOp, kind: str) -> list[str]:
    """The names of arguments or results, empty where they have none."""
    count = len(main.type.inputs if kind == "arg_attrs" else main.type.results)
    if kind not in main.attributes:
        return [""] * count
    items = [ir.DictAttr(item) for item in ir.ArrayAttr(main.attributes[kind])]
    return [ir.StringAttr(item["blu.name"]).value if "blu.name" in item else "" for item in items]


def _write(main: func.FuncOp, kind: str, texts: Sequence[str | None], attribute: str) -> None:
    if not any(texts):
        return
    before = [{}] * len(texts)
    if kind in main.attributes:
        before = [{n.name: n.attr for n in ir.DictAttr(item)} for item in ir.ArrayAttr(main.attributes[kind])]
    said = [{attribute: ir.StringAttr.get(text)} if text else {} for text in texts]
    added = [item | more for item, more in zip(before, said, strict=True)]
    main.attributes[kind] = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in added])

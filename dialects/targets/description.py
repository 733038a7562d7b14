"""How the description of a machine is written on a module: its name, and what differs from the machine of that name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from blu.dialects.core.mlir import ir

ATTRIBUTE = "blu.target"
Machine = TypeVar("Machine")


def to_attribute(target: Any, known: Mapping[str, Any]) -> ir.DictAttr:
    """{name = "x86-64-v3"}, and each field in which the target is not the known one of its name."""
    base = asdict(known[target.name]) if target.name in known else {}
    fields = {name: value for name, value in asdict(target).items() if name == "name" or base.get(name) != value}
    return ir.DictAttr.get({name: encoded(value) for name, value in fields.items()})


def from_attribute(attribute: ir.DictAttr, known: Mapping[str, Machine], kind: type[Machine]) -> Machine:
    """The target that `to_attribute` has written. TypeError or AttributeError for what describes none."""
    given = {item.name: item.attr.value for item in attribute}
    base = asdict(known[given["name"]]) if given.get("name") in known else {}  # type: ignore[call-overload]
    return kind(**{**base, **given})


def encoded(value: str | int | bool) -> ir.Attribute:
    """A field as an attribute: a string, a bool, or 64 bits."""
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    return (
        ir.StringAttr.get(value)
        if isinstance(value, str)
        else ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    )

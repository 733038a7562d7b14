"""Builders of the ops that emitters write by the ten thousand, in a third of the time of upstream's.

Upstream's build an object of the op's class, which asks for the context and sorts operands, before the op is made.
These take values only, and what they do not know (keywords, Python numbers) they leave to upstream's.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

Builder = Callable[..., Any]

QUICK = ("arith", "llvm", "vector")
"""Dialects some of whose builders are replaced."""

OF_ONE_TYPE = (
    "addf", "addi", "andi", "divf", "divsi", "divui", "maxsi", "maxui", "minsi", "minui", "mulf", "muli", "ori",
    "remsi", "remui", "shli", "shrsi", "shrui", "subf", "subi", "xori",
)  # fmt: skip
"""Of `arith`: the result has the type of the operands."""
TO_A_TYPE = {
    "arith": ("bitcast", "extf", "extsi", "extui", "index_cast", "index_castui", "truncf", "trunci"),
    "vector": ("bitcast", "broadcast"),
    "llvm": ("inttoptr",),
}
"""By dialect: functions of a type and an operand."""


def with_quick_builders(dialect: str, upstream: types.ModuleType, ir: types.ModuleType) -> types.ModuleType:
    """A dialect's module in which builders are replaced; `ir` is MLIR's module of operations."""
    quick = types.ModuleType(upstream.__name__)
    vars(quick).update({name: value for name, value in vars(upstream).items() if not name.startswith("__")})
    create = ir.Operation.create
    for name in OF_ONE_TYPE if dialect == "arith" else ():
        setattr(quick, name, _of_one_type(f"arith.{name}", getattr(upstream, name), create))
    for name in TO_A_TYPE.get(dialect, ()):
        setattr(quick, name, _to_a_type(f"{dialect}.{name}", getattr(upstream, name), create))
    if dialect == "arith":
        quick.constant = _constant(upstream.constant, create, ir.Attribute)  # type: ignore[attr-defined]
    if dialect == "vector":
        quick.from_elements = _from_elements(upstream.from_elements, create)  # type: ignore[attr-defined]
    if dialect == "llvm":
        quick.extractvalue = _extractvalue(upstream.extractvalue, create, ir.DenseI64ArrayAttr.get)  # type: ignore[attr-defined]
    return quick


def _of_one_type(op: str, upstream: Builder, create: Builder) -> Builder:
    def build(left: Any, right: Any, **keywords: Any) -> Any:
        if keywords:
            return upstream(left, right, **keywords)
        return create(op, results=[left.type], operands=[left, right]).result

    return build


def _to_a_type(op: str, upstream: Builder, create: Builder) -> Builder:
    def build(type_: Any, value: Any, **keywords: Any) -> Any:
        if keywords:
            return upstream(type_, value, **keywords)
        return create(op, results=[type_], operands=[value]).result

    return build


def _constant(upstream: Builder, create: Builder, attribute: type) -> Builder:
    def build(type_: Any, value: Any, **keywords: Any) -> Any:
        if keywords or not isinstance(value, attribute):
            return upstream(type_, value, **keywords)
        return create("arith.constant", results=[type_], attributes={"value": value}).result

    return build


def _from_elements(upstream: Builder, create: Builder) -> Builder:
    def build(type_: Any, elements: Any, **keywords: Any) -> Any:
        if keywords:
            return upstream(type_, elements, **keywords)
        return create("vector.from_elements", results=[type_], operands=elements).result

    return build


def _extractvalue(upstream: Builder, create: Builder, array: Builder) -> Builder:
    def build(type_: Any, struct: Any, place: Any, **keywords: Any) -> Any:
        if keywords:
            return upstream(type_, struct, place, **keywords)
        return create(
            "llvm.extractvalue", results=[type_], operands=[struct], attributes={"position": array(place)}
        ).result

    return build

"""The mesh that a program is for: an attribute of its module, `blu.mesh = [["dp", 2], ["tp", 4]]`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar

from blu.dialects.core.mlir import ir
from blu.dialects.inside import inside
from blu.errors import ArgumentError, ParseError
from blu.plan.mesh import Mesh

ATTRIBUTE = "blu.mesh"
REDUCE = "blu.reduce"
"""Of a module: in which dtypes sums over axes are made, `{dp = "bf16"}`; in those of the tensors where it says none."""
REDUCE_DTYPES = ("f32", "bf16", "f16")
_current: ContextVar[Mesh | None] = ContextVar("current_mesh", default=None)


def tracing_for(mesh: Mesh) -> AbstractContextManager[None]:
    """Let functions that are traced inside of the block be for a mesh."""
    return inside(_current, mesh)


def set_mesh(module: ir.Module, mesh: Mesh) -> None:
    """Let a program be for a mesh."""
    if not mesh.axes:
        return
    with module.context:
        integer = ir.IntegerType.get_signless(64)
        # Attributes of a dictionary are sorted by name, and axes have an order.
        pairs = [(ir.StringAttr.get(name), ir.IntegerAttr.get(integer, size)) for name, size in mesh.axes]
        axes = [ir.ArrayAttr.get(list(pair)) for pair in pairs]
        module.operation.attributes[ATTRIBUTE] = ir.ArrayAttr.get(axes)


def mesh_of(module: ir.Operation | ir.OpView) -> Mesh:
    """The mesh of a program; that of one rank where it says none. ParseError for what is none."""
    attributes = module.operation.attributes
    if ATTRIBUTE not in attributes:
        return Mesh()
    try:
        axes = [ir.ArrayAttr(item) for item in ir.ArrayAttr(attributes[ATTRIBUTE])]
        return Mesh(**{ir.StringAttr(axis[0]).value: ir.IntegerAttr(axis[1]).value for axis in axes})
    except (ValueError, IndexError, ArgumentError):
        advice = 'Write [["dp", 2], ["tp", 4]].'
        raise ParseError(f"{ATTRIBUTE} = {attributes[ATTRIBUTE]} is no mesh", advice=advice) from None


def set_reductions(module: ir.Module, dtypes: Mapping[str, str]) -> None:
    """Say in which dtypes sums of f32 over axes are made. ArgumentError for what is none."""
    narrow = {axis: dtype for axis, dtype in dtypes.items() if dtype != REDUCE_DTYPES[0]}
    for axis, dtype in narrow.items():
        if dtype not in REDUCE_DTYPES:
            raise ArgumentError(f"sums over {axis} cannot be made in {dtype!r}: {', '.join(REDUCE_DTYPES)}")
    if narrow:
        with module.context:
            texts = {axis: ir.StringAttr.get(dtype) for axis, dtype in narrow.items()}
            module.operation.attributes[REDUCE] = ir.DictAttr.get(texts)


def reductions_of(module: ir.Module) -> dict[str, str]:
    """The dtypes, by axes, in which sums over ranks are made. ParseError for what is none."""
    attributes = module.operation.attributes
    if REDUCE not in attributes:
        return {}
    try:
        found = {item.name: ir.StringAttr(item.attr).value for item in ir.DictAttr(attributes[REDUCE])}
    except ValueError:
        found = {"": ""}
    if not set(found.values()) <= set(REDUCE_DTYPES):
        raise ParseError(f"{REDUCE} = {attributes[REDUCE]} says no dtypes", advice='Write {dp = "bf16"}.')
    return found


def axis_size(axis: str) -> int:
    """How many ranks an axis of the current mesh has. ArgumentError for one that it does not have."""
    mesh = _current.get()
    if mesh is None or axis not in dict(mesh.axes):
        known = ", ".join(name for name, _ in mesh.axes) if mesh else ""
        there = f"the mesh has the axes {known}" if known else "the function is traced for one rank"
        raise ArgumentError(f"there is no axis {axis!r}: {there}", advice="Name it: blu.jit(f, mesh=blu.Mesh(dp=2)).")
    return mesh.ranks(axis)

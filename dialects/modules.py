"""Whole modules: copies to work on and to fall back to, and the text that reads back as the same module."""

from __future__ import annotations

from blu.dialects.mlir import ir


def copy_module(module: ir.Module) -> ir.Module:
    """A deep copy in the same context (about 1.5 us an op)."""
    copy = ir.Module.create(module.operation.location)
    for name in attribute_names(module):
        copy.operation.attributes[name] = module.operation.attributes[name]
    insertion_point = ir.InsertionPoint(copy.body)
    for operation in module.body.operations:
        operation.operation.clone(insertion_point)
    return copy


def attribute_names(module: ir.Module) -> list[str]:
    """Names of the attributes on the module itself."""
    return [item if isinstance(item, str) else item.name for item in module.operation.attributes]


def module_text(module: ir.Module, *, locations: bool = True) -> str:
    """Text that parses back to the same module: constants in full, generic form only where IR does not verify."""
    return module.operation.get_asm(enable_debug_info=locations).rstrip("\n") + "\n"

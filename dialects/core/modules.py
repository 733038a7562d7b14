"""Whole modules: copies to work on and to fall back to, and the text that reads back as the same module."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator

from blu.dialects.core.mlir import PassManager, ir
from blu.dialects.core.remembering import remembering


def copy_module(module: ir.Module) -> ir.Module:
    """A deep copy in the same context (about 1.5 us an op)."""
    copy = ir.Module.create(module.operation.location)
    for name in attribute_names(module):
        copy.operation.attributes[name] = module.operation.attributes[name]
    insertion_point = ir.InsertionPoint(copy.body)
    for operation in module.body.operations:
        operation.operation.clone(insertion_point)
    return copy


def operations_in(root: ir.Operation, closed: Collection[str] = ()) -> Iterator[ir.Operation]:
    """Operations under `root` in order of the text, nested ones after their parent.

    Those with a name in `closed` are not looked into. Without `closed` they are collected before the first is given.
    """
    return _open(root, closed) if closed else iter(_all_in(root))


def _all_in(root: ir.Operation) -> list[ir.Operation]:
    """All operations under one: MLIR's walk finds them twice as quickly as their lists are read."""
    found: list[ir.Operation] = []
    append, advance = found.append, ir.WalkResult.ADVANCE  # looked up once, not for each

    def take(operation: ir.Operation) -> ir.WalkResult:
        append(operation)
        return advance

    _walk(root, take)
    return found[1:]


def end_of(block: ir.Block) -> ir.Operation:
    """The op that ends a block: its operands are what the block returns or yields."""
    return block.operations[-1].operation


def operations_by_name(root: ir.Operation | ir.OpView) -> dict[str, list[ir.Operation]]:
    """Operations under `root` in order of the text, by their names: for passes that look for several in turn."""
    return by_name(_all_in(root.operation))


def by_name(operations: Iterable[ir.Operation]) -> dict[str, list[ir.Operation]]:
    """Operations in their order, by their names."""
    found: dict[str, list[ir.Operation]] = {}
    for operation in operations:
        found.setdefault(operation.name, []).append(operation)
    return found


def names_in(root: ir.Operation) -> set[str]:
    """The names of an operation and of those under it, which takes two thirds of what it takes to have them all."""
    found: set[str] = set()
    add, advance = found.add, ir.WalkResult.ADVANCE

    def take(operation: ir.Operation) -> ir.WalkResult:
        add(operation.name)
        return advance

    _walk(root, take)
    return found


def _walk(root: ir.Operation, take: Callable[[ir.Operation], ir.WalkResult]) -> None:
    """Show an operation and all under it to a function that cannot fail."""
    try:
        root.walk(take, ir.WalkOrder.PRE_ORDER)
    except RuntimeError as error:  # which the walk makes of Ctrl-C in `take`, the only thing that can go wrong there
        raise KeyboardInterrupt if "KeyboardInterrupt" in str(error) else error from None


def _open(root: ir.Operation, closed: Collection[str]) -> Iterator[ir.Operation]:
    pending = _children(root)
    while pending:
        operation = pending.pop()
        yield operation
        if operation.name not in closed:
            pending += _children(operation)


def _children(operation: ir.Operation) -> list[ir.Operation]:
    """The operations right under one, the last first."""
    regions = operation.regions
    if not len(regions):
        return []
    return [item.operation for region in regions for block in region.blocks for item in block.operations][::-1]


def attribute_names(module: ir.Module) -> list[str]:
    """Names of the attributes on the module itself."""
    return [item if isinstance(item, str) else item.name for item in module.operation.attributes]


def module_text(module: ir.Module, *, locations: bool = True) -> str:
    """Text that parses back to the same module: constants in full, generic form only where IR does not verify."""
    named = is_mathematics(module)
    with remembering():  # the printer verifies what it prints
        text = module.operation.get_asm(enable_debug_info=locations, use_name_loc_as_prefix=named)
    return text.rstrip("\n") + "\n"


def code_text(function: ir.OpView) -> str:
    """Text of one function to compare it by, without the user's lines; not verified, which would take much longer."""
    return function.operation.get_asm(enable_debug_info=False, use_local_scope=True, assume_verified=True)


def plain_bytecode(module: ir.Module) -> bytes:
    """Bytecode of a module, from which the user's lines are dropped: the same for modules that differ in nothing else.

    It is written and read in a fifth of the time that text takes.
    """
    manager = PassManager.parse("builtin.module(strip-debuginfo)", context=module.context)
    manager.enable_verifier(False)
    manager.run(module.operation)
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def is_mathematics(module: ir.Module) -> bool:
    """Whether functions hold `blu` ops only. Their values print under the names of arguments and modules then:

    %h.0.mlp_1 = "blu.add"(%h.0.mlp, %model.h.0.mlp.bias)

    Further down each of them is many values, which read better with MLIR's own names.
    """
    blocks = [block for function in module.body.operations for region in function.regions for block in region]
    return all(item.operation.name.startswith(("blu.", "func.")) for block in blocks for item in block.operations)

"""The text of each kernel of a module at level "llvm", on its own: the same in every program that has this kernel.

What says where a kernel comes from, and not what it computes, is left out: the user's lines, its number in the program,
and what only its launches need. Machine code is made of this text, so that equal texts are equal code. It is MLIR's
bytecode, which is written and read in a fifth of the time that readable text takes, and is a tenth as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import plain_bytecode
from blu.passes.framework.families import ATTRIBUTE as FAMILY
from blu.passes.framework.launches import code_of

# Attributes that launches need, and passes.
_OF_LAUNCHES = ("blu.", "gpu.")


@dataclass(frozen=True)
class KernelText:
    """A kernel, called `stand_in` in its text and in what is made of that. The names are of one length."""

    name: str
    stand_in: str
    text: bytes

    def named(self, code: bytes) -> bytes:
        """Code made of the text (an object, PTX, machine code of a GPU) with the kernel's own name."""
        return code.replace(self.stand_in.encode(), self.name.encode())


# Operations by name that kernels may refer to, with the text of each.
Declared = dict[str, tuple[ir.Operation, bytes]]


def stand_in_of(name: str) -> str:
    """The name of a kernel without its number: gemm_q for gemm_7, loops_qq_batch for loops_12_batch."""
    return re.sub(r"[0-9]", "q", name)


def kernel_texts(module: ir.Module) -> Iterator[KernelText]:
    """All kernels in the module's order, each with the declarations that it refers to. They are written one by one."""
    operations = code_of(module)
    declared = declarations(item for item in operations if FAMILY not in item.attributes)
    for item in operations:
        if FAMILY in item.attributes:
            yield kernel_text(item, declared)


def declarations(operations: Iterable[ir.Operation]) -> Declared:
    """Operations that are no kernels, by name."""
    return {_name(item): (item, _declaration(item)) for item in operations}


def kernel_text(kernel: ir.Operation, declared: Declared) -> KernelText:
    """A kernel, with those declarations that it refers to."""
    name = _name(kernel)
    with kernel.context, ir.Location.unknown():
        alone = ir.Module.create()
        copy = kernel.clone(ir.InsertionPoint(alone.body)).operation
        for attribute in list(copy.attributes):
            # Code generation reads one of them: how much of LLVM's middle end a family gets.
            if attribute.startswith(_OF_LAUNCHES) and attribute != FAMILY:
                del copy.attributes[attribute]
        copy.attributes["sym_name"] = ir.StringAttr.get(stand_in_of(name))
        text = plain_bytecode(alone)
        used = sorted(_referred(text, declared))
        for item in used:
            declared[item][0].clone(ir.InsertionPoint(copy))
        return KernelText(name, stand_in_of(name), plain_bytecode(alone) if used else text)


def _declaration(operation: ir.Operation) -> bytes:
    """The text of an operation that kernels may refer to."""
    with operation.context, ir.Location.unknown():
        alone = ir.Module.create()
        operation.clone(ir.InsertionPoint(alone.body))
        return plain_bytecode(alone)


def _referred(text: bytes, declared: Declared) -> set[str]:
    """The names that a text refers to, and those that these refer to. A name in bytecode ends with a zero."""
    found: set[str] = set()
    pending = [text]
    while pending:
        given = pending.pop()
        fresh = {name for name in declared.keys() - found if f"{name}\0".encode() in given}
        found |= fresh
        pending += [declared[name][1] for name in fresh]
    return found


def _name(operation: ir.Operation) -> str:
    return ir.StringAttr(operation.attributes["sym_name"]).value


def code_text(module: ir.Module) -> str:
    """The text of a module of all kernels and nothing else, with the user's lines."""
    alone = ir.Module.create(module.operation.location)
    for operation in code_of(module):
        copy = operation.clone(ir.InsertionPoint(alone.body))
        if "gpu.kernel" in copy.attributes:
            del copy.attributes["gpu.kernel"]
    return alone.operation.get_asm(enable_debug_info=True)

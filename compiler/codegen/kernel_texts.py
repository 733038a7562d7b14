"""The text of each kernel of a module at level "llvm", on its own: the same in every program that has this kernel.

What says where a kernel comes from, and not what it computes, is left out: the user's lines, its number in the program,
and what only its launches need. Machine code is made of this text, so that equal texts are equal code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from blu.dialects.core.mlir import ir
from blu.passes.framework.families import ATTRIBUTE as FAMILY
from blu.passes.framework.launches import code_of

# Attributes that launches need, and passes.
_OF_LAUNCHES = ("blu.", "gpu.")
_SYMBOL = re.compile(r'@(?:"([^"]+)"|([\w.$-]+))')


@dataclass(frozen=True)
class KernelText:
    """A kernel, called `stand_in` in its text and in what is made of that. The names are of one length."""

    name: str
    stand_in: str
    text: str

    def named(self, code: bytes) -> bytes:
        """Code made of the text (an object, PTX, machine code of a GPU) with the kernel's own name."""
        return code.replace(self.stand_in.encode(), self.name.encode())


def stand_in_of(name: str) -> str:
    """The name of a kernel without its number: gemm_q for gemm_7, loops_qq_batch for loops_12_batch."""
    return re.sub(r"[0-9]", "q", name)


def kernel_texts(module: ir.Module) -> Iterator[KernelText]:
    """All kernels in the module's order, each with the declarations that it refers to. They are written one by one."""
    operations = code_of(module)
    declared = {_name(item): _text(item) for item in operations if FAMILY not in item.attributes}
    for item in operations:
        if FAMILY in item.attributes:
            yield _kernel_text(item, declared)


def _kernel_text(kernel: ir.Operation, declared: dict[str, str]) -> KernelText:
    name = _name(kernel)
    copy = kernel.clone(False)
    try:
        for attribute in list(copy.attributes):
            # Code generation reads one of them: how much of LLVM's middle end a family gets.
            if attribute.startswith(_OF_LAUNCHES) and attribute != FAMILY:
                del copy.attributes[attribute]
        with kernel.context:
            copy.attributes["sym_name"] = ir.StringAttr.get(stand_in_of(name))
        text = _text(copy)
    finally:
        copy.erase()
    used = sorted(_referred(text, declared))
    return KernelText(name, stand_in_of(name), "\n".join([*(declared[item] for item in used), text]))


def _referred(text: str, declared: dict[str, str]) -> set[str]:
    """The names that a text refers to, and those that these refer to."""
    found: set[str] = set()
    pending = [text]
    while pending:
        names = {match[1] or match[2] for match in _SYMBOL.finditer(pending.pop())}
        fresh = (names & declared.keys()) - found
        found |= fresh
        pending += [declared[name] for name in fresh]
    return found


def _text(operation: ir.Operation) -> str:
    return operation.get_asm(enable_debug_info=False, use_local_scope=True, assume_verified=True)


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

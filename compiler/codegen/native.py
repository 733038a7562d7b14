"""Machine code for a CPU: LLVM dialect -> LLVM IR text -> llvmlite -> one object file.

MLIR and LLVM end the process on some mistakes, so this runs in a worker process (see worker.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import llvmlite.binding as llvm

from blu.compiler.codegen import llvm_skew
from blu.dataclass import dataclass
from blu.dialects.core.mlir import PassManager, ir, translate_module_to_llvmir
from blu.dialects.core.modules import operations_in
from blu.errors import PassError
from blu.passes.framework.families import Family, family_of, is_kernel


class Codegen:
    """LLVM set up for one target. `target` holds the fields triple, cpu and features of CpuTarget.

    `announce` is told the name of each kernel before it is worked on.
    """

    def __init__(self, target: dict[str, Any], announce: Callable[[str], None] = lambda kernel: None):
        self.announce = announce
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        self.triple = target["triple"]
        machine = llvm.Target.from_triple(self.triple)
        options = {"cpu": target["cpu"], "features": target["features"], "opt": 2, "reloc": "static"}
        self.machine = machine.create_target_machine(codemodel="large", **options)

    def object_of_kernels(self, text: str | bytes) -> bytes:
        """The object file of a module of `llvm.func` kernels; each gets an entry `<name>.entry(args, begin, end)`."""
        combined: llvm.ModuleRef | None = None
        for module in self._optimised(text):
            if combined is None:
                combined = module
            else:
                combined.link_in(module)
        return self.machine.emit_object(combined or self._parse(""))

    def object_of_llvm(self, text: str) -> bytes:
        """The object file of LLVM IR text (the thread pool), which says what is inlined and is else as it should be."""
        module = self._parse(text)
        self._optimise(module, level=0)
        return self.machine.emit_object(module)

    def assembly(self, text: str | bytes) -> str:
        """Assembly of a module of kernels, for people to read."""
        return "\n".join(self.machine.emit_assembly(module) for module in self._optimised(text))

    def llvm_ir(self, text: str | bytes) -> str:
        """LLVM IR of a module of kernels as the machine code is made from it, for people to read."""
        return "\n".join(map(str, self._optimised(text)))

    def _optimised(self, text: str | bytes) -> Iterator[llvm.ModuleRef]:
        return (self._kernel(*parts) for parts in split_kernels(text, self.announce))

    def _kernel(self, name: str, kernel: str, operation: KernelFacts) -> llvm.ModuleRef:
        self.announce(name)
        module = self._parse(bfloat_as_bits(llvm_skew.rewrite(kernel)) + _entry(name, operation.arguments - 2))
        self._optimise(module, operation.family.effort)
        return module

    def _parse(self, text: str) -> llvm.ModuleRef:
        module = llvm.parse_assembly(text)
        module.triple = self.triple
        module.data_layout = str(self.machine.target_data)
        module.verify()
        return module

    def _optimise(self, module: llvm.ModuleRef, level: int) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        builder = llvm.create_pass_builder(self.machine, options)
        builder.getModulePassManager().run(module, builder)


def bfloat_as_bits(text: str) -> str:
    """LLVM IR text in which bf16 values are i16.

    Kernels only store bf16 and convert it by integer operations; LLVM would call library functions to move it about.
    A kernel that moves both bf16 and i16 (a bf16 sort with its keys) then declares some functions of LLVM's twice.
    """
    if "bf" not in text:
        return text
    text = re.sub(r"\b0xR([0-9A-Fa-f]{4})\b", lambda match: str(int(match[1], 16)), text)
    text = re.sub(r"\bbfloat\b", "i16", text)
    text = re.sub(r"(@llvm\.[\w.]*v\d+)bf16", r"\1i16", text)
    declared: set[str] = set()
    return _DECLARATION.sub(lambda match: _once(match, declared), text)


_DECLARATION = re.compile(r"^declare [^@\n]*(@[\w.]+)\(.*\n", re.MULTILINE)


def _once(declaration: re.Match[str], declared: set[str]) -> str:
    """A declaration, or nothing where its function is declared already."""
    is_first = declaration[1] not in declared
    declared.add(declaration[1])
    return declaration[0] if is_first else ""


@dataclass(frozen=True)
class KernelFacts:
    """What code generation needs to know of a kernel beside its code: its family, and how many arguments it takes."""

    family: Family
    arguments: int


def split_kernels(
    text: str | bytes, announce: Callable[[str], None], dialects: tuple[str, ...] = ("llvm",)
) -> list[tuple[str, str, KernelFacts]]:
    """Each kernel on its own: its name and its LLVM IR. Only ops of `dialects` may be left in the text or bytecode."""
    with _context():
        module = ir.Module.parse(text)
        operations = [item.operation for item in module.body.operations]
        kernels = [item for item in operations if is_kernel(item)]
        others = [item for item in operations if not is_kernel(item)]
        return [_translate(kernel, others, announce, dialects) for kernel in kernels]


# Making a context takes as long as a small kernel does; what it has seen it keeps in memory.
_USES = 100
_kept: list[ir.Context] = []


def _context() -> ir.Context:
    """A context for one module: a new one from time to time."""
    if not _kept:
        context = ir.Context()
        context.enable_multithreading(False)
        _kept.extend([context] * _USES)
    return _kept.pop()


def _translate(
    kernel: ir.Operation, others: list[ir.Operation], announce: Callable[[str], None], dialects: tuple[str, ...]
) -> tuple[str, str, KernelFacts]:
    name = ir.StringAttr(kernel.attributes["sym_name"]).value
    announce(name)
    with ir.Location.unknown():
        alone = ir.Module.create()
    for operation in (*others, kernel):
        operation.clone(ir.InsertionPoint(alone.body))
    if any(other.regions[0].blocks for other in others if other.name == "llvm.func"):
        PassManager.parse("builtin.module(symbol-dce)").run(alone.operation)  # functions that other kernels call
    _refuse_other_dialects(alone, dialects)
    text = translate_module_to_llvmir(alone.operation)
    return name, text, KernelFacts(family_of(kernel), len(kernel.regions[0].blocks[0].arguments))


def _refuse_other_dialects(module: ir.Module, dialects: tuple[str, ...]) -> None:
    """Translation kills the process on an op that is not of a dialect which it knows."""
    found = {operation.name for operation in operations_in(module.operation)}
    foreign = sorted(name for name in found if name.partition(".")[0] not in dialects)
    if foreign:
        raise PassError(f"cannot generate code for {', '.join(foreign)}: only {' and '.join(dialects)} may be left")


def _entry(name: str, num_pointers: int) -> str:
    """The function that all kernels are called through: it takes its pointers from an array."""
    lines = [f'\ndefine void @"{name}.entry"(ptr %args, i64 %begin, i64 %end) {{']
    for index in range(num_pointers):
        lines.append(f"  %slot{index} = getelementptr ptr, ptr %args, i64 {index}")
        lines.append(f"  %p{index} = load ptr, ptr %slot{index}")
    pointers = "".join(f"ptr %p{index}, " for index in range(num_pointers))
    lines.append(f'  call void @"{name}"({pointers}i64 %begin, i64 %end)')
    return "\n".join([*lines, "  ret void", "}", ""])

"""From emitted kernels (vector, scf, arith, math, memref) to the LLVM dialect with bare-pointer signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dialects.core.mlir import PassManager, func, ir
from blu.dialects.core.modules import by_name, names_in, operations_by_name, operations_in
from blu.dialects.targets.cpu import ATTRIBUTE, CpuTarget
from blu.passes.cpu.lower.expand_half import expand_half
from blu.passes.framework.base import find
from blu.passes.framework.families import is_kernel
from blu.passes.framework.finished import tell_of
from blu.passes.kernels.before_llvm import give_empty_memrefs_strides, widen_bf16_conversions
from blu.passes.kernels.math.expand_math import expand_math
from blu.passes.kernels.store_float8 import Conversions, holds_float8, store_float8_as_bytes

# As many as possible on one kernel after the other, which is in the processor's caches then.
PASSES = (
    # Expanded before canonicalize, which would merge conversions into ones to bf16 again.
    "func.func(arith-expand{include-bf16=true},convert-vector-to-scf,convert-linalg-to-loops,canonicalize,cse,"
    "expand-strided-metadata,lower-affine,convert-scf-to-cf,convert-vector-to-llvm)",
    "finalize-memref-to-llvm",
    "func.func(convert-math-to-llvm)",
    "convert-math-to-libm",
    # Vectorised code may hold ub.poison; translating one that is left kills the process.
    "func.func(convert-arith-to-llvm,convert-index-to-llvm,convert-ub-to-llvm)",
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1}",
    "convert-cf-to-llvm",
    "llvm.func(reconcile-unrealized-casts,canonicalize,cse)",
)
PIPELINE = f"builtin.module({','.join(PASSES)})"

Run = Callable[[ir.Operation], None]


def lower_to_llvm(module: ir.Module, program: ir.Operation | None = None) -> None:
    """Lower a module of kernels in place to the LLVM dialect; a kernel becomes `void name(ptr..., i64 begin, i64 end)`.

    `program`, where that is another module, says the target.
    """
    operations = _operations_without_float8(module)
    if widen_bf16_conversions(named := by_name(operations)):
        named = by_name(operations := list(operations_in(module.operation)))
    # Before the scf and vector dialects are lowered: expansions use both. None of them converts from or to f16.
    expand_math(module, share=True, operations=operations)
    with module.context, ir.Location.unknown():
        attributes = (program or module.operation).attributes
        expand_half(named, CpuTarget.from_attribute(attributes[ATTRIBUTE]) if ATTRIBUTE in attributes else None)
        for operation in module.body.operations:
            if operation.operation.name == "func.func":
                with operation.operation.location:
                    give_empty_memrefs_strides(operation)
        _lower_each(module)
    left = sorted(_foreign_ops(module))
    assert not left, f"ops left after lowering to LLVM: {', '.join(left)}"


def _lower_each(module: ir.Module) -> None:
    """Lower what kernels refer to, and then each kernel on its own: whoever makes code of them begins with the longest.

    Operations stay in their order, behind declarations that are new.
    """
    items = [item.operation for item in module.body.operations]
    names, kernels = list(map(_name, items)), [item for item in items if is_kernel(item)]
    manager = PassManager.parse(PIPELINE)
    manager.enable_verifier(False)  # once at the end is enough
    found = others = _lowered([item for item in items if not is_kernel(item)], manager.run, module)
    kernels.sort(key=lambda kernel: -sum(1 for _ in names_in(kernel)))
    for kernel in kernels:
        name, made = _name(kernel), _lowered([kernel], manager.run, module)
        tell_of(made[name], [item for other, item in (others | made).items() if other != name])
        found = made | found
    for name in (*(name for name in found if name not in names), *names):
        module.body.append(found[name])


def _lowered(operations: Sequence[ir.Operation], run: Run, module: ir.Module) -> dict[str, ir.Operation]:
    """What operations of `module` become there when they are lowered without the others, by name."""
    alone = ir.Module.create()
    for operation in operations:
        alone.body.append(operation)
    run(alone.operation)
    lowered = {_name(item.operation): item.operation for item in alone.body.operations}
    for operation in lowered.values():
        module.body.append(operation)
    return lowered


def _name(operation: ir.Operation) -> str:
    return ir.StringAttr(operation.attributes["sym_name"]).value


def _operations_without_float8(module: ir.Module) -> list[ir.Operation]:
    """The operations of a module, whose fp8 are bytes now. They are looked at once where it has none."""
    operations = list(operations_in(module.operation))
    kernels = list(find(module, func.FuncOp))
    if not holds_float8(kernels, by_name(operations)):
        return operations
    for kernel in kernels:
        store_float8_as_bytes(kernel, operations_by_name(kernel), Conversions())
    return list(operations_in(module.operation))


def _foreign_ops(module: ir.Module) -> set[str]:
    """Names of ops outside of the LLVM dialect: translation to LLVM IR kills the process on them."""
    return {name for name in names_in(module.operation) if not name.startswith("llvm.")} - {module.operation.name}

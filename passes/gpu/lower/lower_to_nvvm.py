"""The pass that takes GPU kernels from scf, memref and vector code to the LLVM and NVVM dialects."""

from __future__ import annotations

from blu.dataclass import dataclass
from blu.dialects.core.context import with_threads
from blu.dialects.core.mlir import PassManager, func, ir
from blu.dialects.core.modules import operations_by_name
from blu.dialects.plan import BATCH
from blu.dialects.targets.nvidia import ATTRIBUTE, GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.gpu.lower.exponentials import expand_exponentials
from blu.passes.gpu.lower.fast_math import approximate
from blu.passes.gpu.lower.float8 import conversions_of
from blu.passes.gpu.lower.gpu_module import as_functions
from blu.passes.gpu.lower.read_table import read_arguments_from_table
from blu.passes.gpu.lower.remainders import expand_remainders
from blu.passes.gpu.small_integers import convert_small_integers
from blu.passes.kernels.before_llvm import give_empty_memrefs_strides, widen_bf16_conversions
from blu.passes.kernels.launch import CLUSTER, THREADS
from blu.passes.kernels.math.expand_math import expand_functions
from blu.passes.kernels.store_float8 import Conversions, store_float8_as_bytes

# As many as possible on one kernel after the other, which is in a processor's caches then: a third less time.
PASSES = (
    "func.func(convert-vector-to-scf,canonicalize,cse,expand-strided-metadata,lower-affine,convert-scf-to-cf,"
    "convert-vector-to-llvm)",
    "finalize-memref-to-llvm",
    "func.func(convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,convert-ub-to-llvm)",
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1}",
    "convert-cf-to-llvm",
    "llvm.func(convert-nvvm-to-llvm,reconcile-unrealized-casts,canonicalize,cse)",
)
PIPELINE = f"builtin.module({','.join(PASSES)})"


@dataclass(frozen=True)
class LowerToNvvm(Pass, name="lower-to-nvvm"):
    """Kernels become functions of the LLVM dialect that take bare pointers and run in every thread.

        gpu.func @rows_0(%x: memref<4x4xf32>, %out: memref<4x4xf32>) kernel
            attributes {known_block_size = array<i32: 256, 1, 1>} { .. }

    becomes

        llvm.func @rows_0(%x: !llvm.ptr, %out: !llvm.ptr)
            attributes {gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>} { .. }

    Launches stay what they are.
    """

    level = "kernel"
    leads_to = "llvm"

    def run(self, module: ir.Module) -> None:
        with as_functions(module) as kernels:
            lower_kernels(kernels)


def lower_kernels(module: ir.Module) -> None:
    """Lower a module of kernels that are `func.func`s in place."""
    attributes = module.operation.attributes
    conversions = conversions_of(GpuTarget.from_attribute(attributes[ATTRIBUTE]) if ATTRIBUTE in attributes else None)
    names: set[str] = set()
    for kernel in find(module, func.FuncOp):
        names.update(_expand(kernel, conversions))
    for kernel in find(module, func.FuncOp):
        if THREADS in kernel.attributes:
            _say_size(kernel)
            give_empty_memrefs_strides(kernel)
    manager = PassManager.parse(PIPELINE, context=module.context)
    manager.enable_verifier(False)  # the driver verifies after each pass
    with with_threads(module.context, names):
        manager.run(module.operation)
    for kernel in find(module, "llvm.func"):
        if BATCH in kernel.attributes:
            read_arguments_from_table(kernel.operation)


def _expand(kernel: func.FuncOp, conversions: Conversions) -> set[str]:
    """Expand a kernel's functions; the names of its ops. They are looked at once, or twice where any is expanded."""
    operations = operations_by_name(kernel)
    names = set(operations)
    if store_float8_as_bytes(kernel, operations, conversions):
        operations = operations_by_name(kernel)
    # None of these makes what another is for.
    steps = expand_remainders(operations), widen_bf16_conversions(operations), expand_exponentials(kernel, operations)
    if any(steps):
        operations = operations_by_name(kernel)
    if convert_small_integers(operations):
        operations = operations_by_name(kernel)
    approximate(kernel, operations)
    expand_functions(operations, fused=True, use_libm=False)
    return names


def _say_size(kernel: func.FuncOp) -> None:
    """Say in the words of the NVVM dialect how large blocks and clusters are."""
    threads = ir.IntegerAttr(kernel.attributes[THREADS]).value
    del kernel.attributes[THREADS]
    kernel.attributes["nvvm.kernel"] = ir.UnitAttr.get()
    kernel.attributes["nvvm.reqntid"] = ir.DenseI32ArrayAttr.get([threads, 1, 1])
    if CLUSTER in kernel.attributes:
        blocks = ir.IntegerAttr(kernel.attributes[CLUSTER]).value
        kernel.attributes["nvvm.cluster_dim"] = ir.DenseI32ArrayAttr.get([blocks, 1, 1])

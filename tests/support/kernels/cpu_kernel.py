"""Compile and run one emitted CPU kernel in this process (llvmlite), for the tests of the kernel emitters."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np

from blu.compiler.codegen import llvm_skew
from blu.dialects.core.mlir import ir, translate_module_to_llvmir
from blu.dialects.targets.cpu import AARCH64, ATTRIBUTE, X86_64_V2, X86_64_V3, X86_64_V4, CpuTarget
from blu.passes.cpu.lower.lower_to_llvm import lower_to_llvm

V3_FEATURES = ("avx2", "fma", "f16c", "bmi2")
V4_FEATURES = (*V3_FEATURES, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


def host_targets() -> list[CpuTarget]:
    """The preset targets whose code this machine can run, the best first."""
    if platform.machine() == "aarch64":
        return [AARCH64]
    features = llvm.get_host_cpu_features()
    wanted = ((X86_64_V4, V4_FEATURES), (X86_64_V3, V3_FEATURES), (X86_64_V2, ("sse4.2",)))
    return [target for target, names in wanted if all(features.get(name) for name in names)]


def module_target(module: ir.Module) -> CpuTarget:
    """The target named on the module, else the best one that this machine can run."""
    if ATTRIBUTE in module.operation.attributes:
        return CpuTarget.from_attribute(module.operation.attributes[ATTRIBUTE])
    return host_targets()[0]


@dataclass
class CompiledKernel:
    """Machine code of one kernel: `name(ptr..., begin, end)`. Owns the engine that holds it."""

    name: str
    blocks: int
    function: Callable[..., None]
    engine: llvm.ExecutionEngine
    assembly: str

    def bind(self, *arrays: np.ndarray) -> Callable[..., None]:
        """A callable `run(begin=0, end=blocks)` on fixed arrays; their addresses are taken now, once."""
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        function, blocks = self.function, self.blocks

        def run(begin: int = 0, end: int = blocks, keep: tuple = (self, arrays)) -> None:
            function(*pointers, begin, end)

        return run


def compile_kernel(
    module: ir.Module | str, name: str, target: CpuTarget | None = None, optimize: int = 0, assembly: bool = False
) -> CompiledKernel:
    """Lower a copy of `module`, which holds the emitted kernel `name`, and load its machine code.

    `optimize` is the level of LLVM's middle end. `assembly` keeps the assembly text in the result.
    """
    module = _copy(module)
    target = target or module_target(module)
    kernel = next(op for op in module.body.operations if op.attributes["sym_name"].value == name)
    blocks = kernel.attributes["blu.blocks"].value
    arguments = len(kernel.regions[0].blocks[0].arguments) - 2
    with module.context:
        module.operation.attributes[ATTRIBUTE] = target.to_attribute()
    lower_to_llvm(module)
    text = llvm_skew.rewrite(translate_module_to_llvmir(module.operation))
    engine, listing = _load(text, target, optimize, assembly)
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arguments, ctypes.c_int64, ctypes.c_int64)
    return CompiledKernel(name, blocks, prototype(engine.get_function_address(name)), engine, listing)


def run_kernel(
    module: ir.Module | str,
    name: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    blocks: int | None = None,
    target: CpuTarget | None = None,
) -> Callable[..., None]:
    """Compile kernel `name` and run all its blocks once; `outputs` are written in place.

    Each array stands for the allocation behind a memref: the kernel adds the memref's own offset and strides to the
    array's first byte. A status argument is passed as the last output. `blocks` overrides the grid size to run.
    Returns `again(begin=0, end=blocks)` for timing; it releases the GIL while it runs.
    """
    kernel = compile_kernel(module, name, target)
    run = kernel.bind(*inputs, *outputs)
    run(0, kernel.blocks if blocks is None else blocks)
    return run


def _copy(module: ir.Module | str) -> ir.Module:
    if not isinstance(module, str):
        with module.context:
            return ir.Module.parse(module.operation.get_asm(enable_debug_info=True))
    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        return ir.Module.parse(module)


def _load(text: str, target: CpuTarget, optimize: int, assembly: bool) -> tuple[llvm.ExecutionEngine, str]:
    """An engine that owns the machine code of an LLVM IR text, and the assembly text if asked for."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # An engine takes ownership of its machine, so the passes and the listing get one of their own.
    machine, owned = (_machine(target) for _ in range(2))
    parsed = llvm.parse_assembly(text)
    parsed.triple = target.triple
    parsed.data_layout = str(machine.target_data)
    parsed.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=optimize))
    builder.getModulePassManager().run(parsed, builder)
    listing = machine.emit_assembly(parsed) if assembly else ""
    engine = llvm.create_mcjit_compiler(parsed, owned)
    engine.finalize_object()
    return engine, listing


def _machine(target: CpuTarget) -> llvm.TargetMachine:
    llvm_target = llvm.Target.from_triple(target.triple)
    return llvm_target.create_target_machine(cpu=target.cpu, features=target.features, opt=2)

"""Run an emitted kernel on every target of this machine, in one go and block by block, and compare with NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.cpu import X86_64_V2, CpuTarget
from blu.passes.cpu.rows import rows
from blu.passes.cpu.rows.choice import SCHEDULER
from blu.passes.kernels.choose_schedules import fit_kernel
from tests.support.kernels.cpu_kernel import compile_kernel, host_targets

DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8, "i16": np.int16,
    "i32": np.int32, "i64": np.int64, "i1": np.bool_,
}  # fmt: skip

Emit = Callable[[func.FuncOp, CpuTarget], None]


def emit_rows(kernel: func.FuncOp, target: CpuTarget) -> None:
    """Choose a kernel's schedule, and emit it."""
    fit_kernel(kernel, target, SCHEDULER)
    rows.emit(kernel, target)


def emit_text(text: str, target: CpuTarget, emit: Emit = emit_rows) -> ir.Module:
    """The module of `text` with its kernel emitted."""
    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        module = ir.Module.parse(text)
        emit(next(iter(module.body.operations)), target)
        module.operation.verify()
    return module


def run_everywhere(
    text: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    targets: Sequence[CpuTarget] | None = None,
    emit: Emit = emit_rows,
) -> list[np.ndarray]:
    """Run on all targets; asserts that results have the same bits on each, and block by block from the last.

    Math functions round twice where there is no fused multiply-add, so x86-64-v2 is compared with itself only.
    `outputs` give the initial content of the output allocations, gaps of strided ones included; returns the results.
    """
    results: dict[bool, list[np.ndarray]] = {}
    for target in targets or host_targets():
        kernel = compile_kernel(emit_text(text, target, emit), "kernel", target)
        whole, pieces = ([output.copy() for output in outputs] for _ in range(2))
        kernel.bind(*inputs, *whole)()
        run = kernel.bind(*inputs, *pieces)
        for block in reversed(range(kernel.blocks)):
            run(block, block + 1)
        expected = results.setdefault(target is not X86_64_V2, whole)
        for first, second, third in zip(expected, whole, pieces, strict=True):
            assert first.tobytes() == second.tobytes(), f"{target.name} gives other bits"
            assert first.tobytes() == third.tobytes(), f"{target.name} gives other bits block by block"
    return next(iter(results.values()))


def random(shape: Sequence[int], element: str = "f32", seed: int = 0) -> np.ndarray:
    """Test data: normal numbers, small integers, or coin flips."""
    generator = np.random.default_rng(seed)
    dtype = DTYPES[element]
    if element == "i1":
        return generator.integers(0, 2, shape).astype(dtype)
    if element.startswith("i"):
        return generator.integers(-20, 20, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)

"""Kernels that hold one blu.attention, as text and as arrays, for the tests of the attention emitters."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from blu.dialects.core import op
from blu.dialects.core.mlir import ir
from blu.dialects.ops.attention import Attention
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.attention import attention
from blu.passes.cpu.attention.choice import SCHEDULER
from blu.passes.kernels.choose_schedules import fit_kernel
from blu.passes.kernels.schedules import Fields, dictionary

DTYPES = {"f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i1": np.bool_}
NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()} | {
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
}


def type_text(array: np.ndarray) -> str:
    return "x".join([*map(str, array.shape), NAMES[array.dtype]])


def memref_text(array: np.ndarray) -> str:
    """The memref of an array that begins its allocation, with the array's strides."""
    if array.flags.c_contiguous:
        return f"memref<{type_text(array)}>"
    strides = ", ".join(str(step // array.itemsize) for step in array.strides)
    return f"memref<{type_text(array)}, strided<[{strides}]>>"


@dataclass(frozen=True)
class Case:
    """Operands of one attention, as they lie in memory, and where its result goes."""

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    mask: np.ndarray | None = None
    offset: np.ndarray | None = None
    causal: bool = False
    scale: float = 0.5
    precision: str = "highest"

    @property
    def inputs(self) -> list[np.ndarray]:
        return [array for array in (self.query, self.key, self.value, self.mask, self.offset) if array is not None]

    def text(self) -> str:
        """The kernel, called `attention`."""
        inputs = self.inputs
        arguments = [f"%in{i}: {memref_text(array)}" for i, array in enumerate(inputs)]
        arguments.append(f"%out0: {memref_text(self.output)}")
        reads = "\n".join(
            f"%{i} = bufferization.to_tensor %in{i} restrict : {memref_text(array)} to tensor<{type_text(array)}>"
            for i, array in enumerate(inputs)
        )
        segments = ", ".join(["1", "1", "1"] + ["0" if item is None else "1" for item in (self.mask, self.offset)])
        types = ", ".join(f"tensor<{type_text(array)}>" for array in inputs)
        result = f"tensor<{type_text(self.output)}>"
        return f"""
func.func private @attention({", ".join(arguments)}) attributes {{blu.kernel = "attention"}} {{
{reads}
%r = "blu.attention"({", ".join(f"%{i}" for i in range(len(inputs)))}) {{causal = {str(self.causal).lower()},
    precision = "{self.precision}", scale = {self.scale!r} : f64,
    operandSegmentSizes = array<i32: {segments}>}} : ({types}) -> {result}
bufferization.materialize_in_destination %r in restrict writable %out0 : ({result}, {memref_text(self.output)}) -> ()
return
}}"""

    def expected(self) -> np.ndarray:
        """The op's own meaning, in f64."""
        wide = [array.astype(np.float64) for array in (self.query, self.key, self.value)]
        mask = self.mask if self.mask is None or self.mask.dtype == np.bool_ else self.mask.astype(np.float64)
        return Attention.reference(*wide, mask, self.offset, self.causal, self.scale)


def emitted(text: str, target: CpuTarget, wish: Fields | None = None) -> ir.Module:
    """The module of a kernel text after the emitter ran on it, with fields of its schedule."""
    context = ir.Context()
    context.enable_multithreading(False)
    op.load(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        kernel = module.body.operations[0]
        if wish:
            kernel.attributes["blu.schedule"] = dictionary(wish)
        fit_kernel(kernel, target, SCHEDULER)
        attention.emit(kernel, target)
        module.operation.verify()
    return module

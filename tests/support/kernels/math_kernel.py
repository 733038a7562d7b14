"""Kernels that apply one operation of the math dialect, expanded by Blu, to whole arrays."""

from __future__ import annotations

import math

import numpy as np

from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import X86_64_V2
from blu.passes.kernels.math.expand_math import INTRINSICS, expand_math
from tests.support.kernels.cpu_kernel import CompiledKernel, compile_kernel

NUMPY_TYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64, "i1": np.bool_}
TYPE_NAMES = {dtype: name for name, dtype in NUMPY_TYPES.items()}


def kernel_text(
    name: str, types: list[str], result: str, shape: tuple[int, ...], count: int, exponent: int | None = None
) -> str:
    """A kernel that applies one operation to `count` elements, in vectors of `shape` (() for scalars).

    With `exponent` the last operand is that constant (the kernel still has its argument).
    """
    step = math.prod(shape)
    flat = f"vector<{step}x" if shape else ""
    shaped = f"vector<{'x'.join(map(str, shape))}x" if shape else ""
    close = ">" if shape else ""
    lines = []
    for i, type_ in enumerate(types):
        lines.append(load_text(i, type_, count, f"{flat}{type_}{close}", f"{shaped}{type_}{close}"))
    if exponent is not None:
        splat = f"dense<{exponent}>" if shape else str(exponent)
        lines[-1] = f"%v{len(types) - 1} = arith.constant {splat} : {shaped}{types[-1]}{close}"
    names = ", ".join(f"%v{i}" for i in range(len(types)))
    signature = ", ".join(f"{shaped}{type_}{close}" for type_ in types)
    lines.append(f'%r = "math.{name}"({names}) : ({signature}) -> {shaped}{result}{close}')
    lines.append(store_text(result, count, f"{flat}{result}{close}", f"{shaped}{result}{close}"))
    arguments = ", ".join(f"%a{i}: memref<{count}x{type_}>" for i, type_ in enumerate(types))
    body = "\n".join(lines)
    return f"""
func.func @kernel({arguments}, %out: memref<{count}x{result}>, %begin: index, %end: index)
    attributes {{blu.blocks = {count // step} : i64}} {{
  %one = arith.constant 1 : index
  %step = arith.constant {step} : index
  scf.for %i = %begin to %end step %one {{
    %at = arith.muli %i, %step : index
{body}
  }}
  return
}}"""


def load_text(i: int, element: str, count: int, flat: str, shaped: str) -> str:
    """Operand `i`, as a value of type `shaped`."""
    if flat == element:
        return f"%v{i} = memref.load %a{i}[%at] : memref<{count}x{element}>"
    load = f"%f{i} = vector.load %a{i}[%at] : memref<{count}x{element}>, {flat}\n"
    return load + f"%v{i} = vector.shape_cast %f{i} : {flat} to {shaped}"


def store_text(element: str, count: int, flat: str, shaped: str) -> str:
    """Write the result."""
    if flat == element:
        return f"memref.store %r, %out[%at] : memref<{count}x{element}>"
    cast = f"%flat = vector.shape_cast %r : {shaped} to {flat}\n"
    return cast + f"vector.store %flat, %out[%at] : memref<{count}x{element}>, {flat}"


def compiled(
    name: str, types: list[str], result: str, shape: tuple[int, ...], count: int, fma: bool = True, libm: bool = True
) -> CompiledKernel:
    """The kernel of `kernel_text` for the best target here, or without fused multiply-add for x86-64-v2.

    Without `libm` it does without the C library, as on GPUs.
    """
    context = ir.Context()
    context.enable_multithreading(False)
    with context:
        module = ir.Module.parse(kernel_text(name, types, result, shape, count))
    expand_math(module, fma=fma, libm=libm)
    module.operation.verify()
    assert not [op for op in operation_names(module) if op.startswith("math.") and op not in INTRINSICS | {"math.fma"}]
    assert libm or "func.call" not in operation_names(module)
    assert fma or "math.fma" not in operation_names(module)
    return compile_kernel(module, "kernel", None if fma else X86_64_V2)


def operation_names(module: ir.Module) -> list[str]:
    names: list[str] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        names.append(operation.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return names


def apply(
    name: str,
    *arrays: np.ndarray,
    types: list[str] | None = None,
    result: str | None = None,
    shape: tuple[int, ...] = (16,),
    fma: bool = True,
    libm: bool = True,
) -> np.ndarray:
    """`name` of the arrays, elementwise, by an expanded kernel; lengths need not be multiples of the vector."""
    types = types or [TYPE_NAMES[array.dtype.type] for array in arrays]
    step, count = math.prod(shape), len(arrays[0])
    padded = [np.resize(array, -(-count // step) * step) for array in arrays]
    out = np.empty(len(padded[0]), NUMPY_TYPES[result or types[0]])
    kernel = compiled(name, types, result or types[0], shape, len(out), fma, libm)
    kernel.bind(*padded, out)()
    return out[:count]

"""Kernels written as LLVM IR, and programs made of them, for the tests of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from blu.runtime import Program
from tests.support.kernels import native_code as native

# out[i] = x[i] * y[i], f32
MULTIPLY = native.loop_kernel(
    "multiply",
    """  %x.at = getelementptr float, ptr %p0, i64 %i
  %y.at = getelementptr float, ptr %p1, i64 %i
  %out.at = getelementptr float, ptr %p2, i64 %i
  %x = load float, ptr %x.at
  %y = load float, ptr %y.at
  %xy = fmul float %x, %y
  store float %xy, ptr %out.at""",
    3,
)
# out[i] = x[i] + c[0], f32
SHIFT = native.loop_kernel(
    "shift",
    """  %x.at = getelementptr float, ptr %p0, i64 %i
  %out.at = getelementptr float, ptr %p2, i64 %i
  %x = load float, ptr %x.at
  %c = load float, ptr %p1
  %sum = fadd float %x, %c
  store float %sum, ptr %out.at""",
    3,
)
# found = index[i] where index[i] is not in [-10, 10)
GATHER = native.loop_kernel(
    "gather",
    """  %at = getelementptr i64, ptr %p0, i64 %i
  %index = load i64, ptr %at
  %shifted = add i64 %index, 10
  %bad = icmp uge i64 %shifted, 20
  br i1 %bad, label %fail, label %step
fail:
  store i64 %index, ptr %p1""",
    2,
)
# found = 1 where the divisor is 0
DIVIDE = native.loop_kernel(
    "divide",
    """  %at = getelementptr i64, ptr %p0, i64 %i
  %divisor = load i64, ptr %at
  %bad = icmp eq i64 %divisor, 0
  br i1 %bad, label %fail, label %step
fail:
  store i64 1, ptr %p1""",
    2,
)
# out[i] = in[i], bytes
COPY = native.loop_kernel(
    "copy",
    """  %in.at = getelementptr i8, ptr %p0, i64 %i
  %out.at = getelementptr i8, ptr %p1, i64 %i
  %byte = load i8, ptr %in.at
  store i8 %byte, ptr %out.at""",
    2,
)
KERNELS = MULTIPLY + SHIFT + GATHER + DIVIDE + COPY
SHAPE = (6, 10)


def tensor(name: str, shape: tuple[int, ...], dtype: str = "f32", **more: Any) -> dict[str, Any]:
    """A plan's entry for an input or output."""
    return {"name": name, "shape": list(shape), "dtype": dtype, **more}


def launch(kernel: str, blocks: int, *args: list, chunk: int = 16) -> dict[str, Any]:
    """A plan's entry for a launch."""
    return {"kernel": kernel, "blocks": blocks, "chunk": chunk, "args": list(args), "location": "model.py:3"}


def load(constant_bytes: bytes = b"", **plan: Any) -> Program:
    """A program with the plan's entries given, and all kernels."""
    return Program.load(native.members(KERNELS, plan, constant_bytes))


def numbers(seed: int, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Random numbers of a shape, in f32."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)

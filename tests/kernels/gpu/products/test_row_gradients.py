"""Products that find gradients of rows that were standardized, a cluster of blocks together, in the interpreter."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import func
from blu.dialects.targets.nvidia import SM_90A
from blu.passes.framework.base import find
from blu.passes.framework.families import GEMM, family_of, is_kernel
from blu.passes.gpu.gemm import gemm
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from tests.kernels.gpu.products.test_row_sums import OneCluster
from tests.support.kernels.gpu_products import Launch, emit, random_array

ROWS = 1 << 15
"""Rows for which a product is chosen."""


def gradient(a: blu.Tensor, w: blu.Tensor, x: blu.Tensor, scale: blu.Tensor) -> blu.Tensor:
    """The gradient of what was standardized to x, of that of the result a @ w, in f32."""
    g = blu.matmul(a, w).astype("f32")
    wide = x.astype("f32")
    return (g - g.mean(-1, keepdims=True) - wide * (g * wide).mean(-1, keepdims=True)) * scale.reshape(-1, 1)


def residuals(p: blu.Tensor, w: blu.Tensor, v: blu.Tensor, x: blu.Tensor, scale: blu.Tensor) -> tuple:
    """Gradients of a residual, each with that of a norm added, and of a bias."""
    first = p * p
    second = first + gradient(first.astype("bf16"), w, x, scale)
    third = second + gradient(second.astype("bf16"), v, x, scale)
    return second.sum(0), third


@cache
def kernel_of(rows: int, columns: int) -> Launch:
    """The kernel that finds the second residual's gradient, in one cluster: each group of a block has its turns."""
    square = (columns, columns), "bf16"
    shapes = ((ROWS, columns), "f32"), square, square, ((ROWS, columns), "bf16"), ((ROWS,), "f32")
    module = blu.jit(residuals).trace(*(blu.spec(*item) for item in shapes)).lower("sm_90a", stop="memref").module
    kernels = [item for item in find(module, func.FuncOp) if is_kernel(item) and family_of(item) == GEMM]
    texts = (kernel.operation.get_asm(enable_debug_info=False, use_local_scope=True) for kernel in kernels)
    (text,) = (text for text in texts if "blu.of_product" in text)
    text = text.replace(f"<{ROWS // 32}x", f"<{rows // 32}x").replace(f"<{ROWS}", f"<{rows}")
    fields = {name: getattr(SM_90A, name) for name in SM_90A.__dataclass_fields__}
    schedule = WgmmaSchedule("bf16", 128, 192, stages=2, sums="boxed")
    (launch,) = emit(text, lambda item: gemm_wgmma.emit_with(item, gemm.read, schedule, OneCluster(**fields)))
    return launch


@pytest.mark.parametrize(("rows", "columns"), [(128, 768), (640, 384)])
def test_gradients(rows: int, columns: int) -> None:
    a, w, x = (random_array(shape, "bf16", 1) for shape in ((rows, columns), (columns, columns), (rows, columns)))
    scale, residual = np.abs(random_array((rows,), "f32", 2)), random_array((rows, columns), "f32", 3)
    narrow, rest = halves_of(residual)
    found = [np.zeros((rows, columns), dtype) for dtype in (np.int16, a.dtype)]
    sums = np.full((rows // 32, columns), np.nan, np.float32)
    kernel_of(rows, columns).run(a, w, x, scale, rest, narrow, *found, sums)
    whole = (found[1].view(np.int16).astype(np.int32) << 16) + found[0]
    g = (a.astype(np.float32) @ w.astype(np.float32)).astype(a.dtype).astype(np.float64)
    wide = x.astype(np.float64)
    expected = g - g.mean(-1, keepdims=True) - wide * (g * wide).mean(-1, keepdims=True)
    expected = residual + expected * scale[:, None]
    bound = 2**-7 * np.abs(g).max() * scale.max()  # one g in many is rounded the other way
    errors = np.abs(whole.view(np.float32) - expected)
    assert errors.max() <= bound and np.median(errors) <= 1e-6 * np.abs(expected).max()
    assert (found[1] == whole.view(np.float32).astype(a.dtype)).all()
    assert np.abs(sums.sum(0) - whole.view(np.float32).sum(0, np.float64)).max() <= 1e-6 * rows * np.abs(expected).max()


def halves_of(wide: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An f32 as bf16, and what that lacks."""
    narrow = wide.astype(ml_dtypes.bfloat16)
    rest = wide.view(np.int32) - narrow.astype(np.float32).view(np.int32)
    return narrow, np.minimum(rest, 32767).astype(np.int16)

"""Products that standardize the rows that they make, a cluster of blocks together, in the interpreter of PTX."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import SM_90A, GpuTarget
from blu.errors import ParseError
from blu.passes.framework.base import find
from blu.passes.framework.families import GEMM, family_of, is_kernel
from blu.passes.gpu.gemm import gemm, scheduling
from blu.passes.gpu.gemm import wgmma as gemm_wgmma
from blu.passes.gpu.gemm.boxes import sum_rows_in_products
from blu.passes.gpu.gemm.schedule import WgmmaSchedule
from tests.support.kernels.gpu_products import Launch, emit, random_array

DEPTH = 72


def standardized(
    a: blu.Tensor, w: blu.Tensor, bias: blu.Tensor, residual: blu.Tensor, g: blu.Tensor, b: blu.Tensor
) -> tuple:
    """A residual with a product added, and its layer norm, with what its gradient reads."""
    with blu.autocast(str(a.dtype)):
        r = residual + (blu.matmul(a, w) + bias)
    centred = r - r.mean(-1, keepdims=True)
    scale = 1.0 / blu.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    x = centred * scale
    return r, scale.reshape(-1), x.astype(a.dtype), (x * g + b).astype(a.dtype)


class OneCluster(GpuTarget):
    """A GPU that has room for one cluster."""

    def clusters_at_once(self, blocks: int) -> int:
        return 1


def text_of(rows: int, columns: int, depth: int, kind: str) -> str:
    """The product's kernel before it is emitted, with what it does with rows."""
    shapes = ((rows, depth), kind), ((depth, columns), "f32"), ((columns,), "f32"), ((rows, columns), "f32")
    specs = [blu.spec(*item) for item in (*shapes, ((columns,), "f32"), ((columns,), "f32"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sum_rows_in_products, "FEWEST_ROWS", 1)
        module = blu.jit(standardized).trace(*specs).lower("sm_90a", stop="memref").module
    (kernel,) = (item for item in find(module, func.FuncOp) if is_kernel(item) and family_of(item) == GEMM)
    return kernel.operation.get_asm(enable_debug_info=False, use_local_scope=True)


@cache
def kernel_of(rows: int, columns: int, kind: str) -> Launch:
    """The kernel, in one cluster: each group of a block has its turn several times."""
    text = text_of(rows, columns, DEPTH, kind)
    fields = {name: getattr(SM_90A, name) for name in SM_90A.__dataclass_fields__}
    schedule = WgmmaSchedule(kind, 128, 192, stages=2, sums="boxed")
    (launch,) = emit(text, lambda item: gemm_wgmma.emit_with(item, gemm.read, schedule, OneCluster(**fields)))
    return launch


@pytest.mark.parametrize("rows", [2, 127, 128, 129, 264])
def test_rows(rows: int) -> None:
    check(rows, 768, "bf16")


def test_rows_of_two_blocks() -> None:
    check(129, 384, "f16")


def test_short_products_leave_rows_alone() -> None:
    """Warpgroups do not take them, and no other kernel adds up rows."""
    assert [text_of(128, 768, depth, "bf16").count('"reduction"') for depth in (63, 64)] == [0, 2]


def test_kernels_that_add_up_no_rows_are_refused() -> None:
    """They would write wrong numbers: whoever gives such a schedule is told."""
    tile = {"instruction": "bf16", "rows": 128, "columns": 128, "stages": 2}
    of_warps = {"kind": "mma", "warp_rows": 64, "warp_columns": 64}
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.parse(text_of(128, 768, 64, "bf16"))
        (kernel,) = find(module, func.FuncOp)
        for other in (of_warps, {"kind": "wgmma", "sums": "staged"}):
            with pytest.raises(ParseError, match="those of whole rows"):
                scheduling.fit(kernel, SM_90A, tile | other)


def check(rows: int, columns: int, kind: str) -> None:
    a, w = random_array((rows, DEPTH), kind), random_array((DEPTH, columns), kind, 1)
    bias, g, b = (random_array((columns,), "f32", seed) for seed in (2, 3, 4))
    residual = random_array((rows, columns), "f32", 5) + np.float32(30)
    r = residual.astype(np.float64) + a.astype(np.float64) @ w.astype(np.float64) + bias
    centred = r - r.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    expected = r, scale[:, 0], centred * scale, centred * scale * g + b
    dtypes = np.float32, np.float32, a.dtype, a.dtype
    found = [np.full(item.shape, np.nan, dtype) for item, dtype in zip(expected, dtypes, strict=True)]
    kernel_of(rows, columns, kind).run(a, w, bias, residual, g, b, *found)
    for own, right, bound in zip(found, expected, (2e-6, 2e-6, 4e-3, 4e-3), strict=True):
        assert np.abs(own - right).max() <= bound * np.abs(right).max()

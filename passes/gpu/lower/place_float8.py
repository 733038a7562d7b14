"""The pass that says which products of fp8 tensor cores multiply as they are."""

from __future__ import annotations

from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import bf16
from blu.dialects.core.mlir import ir
from blu.passes.framework.base import Pass
from blu.passes.gpu.gemm import wgmma
from blu.passes.gpu.gemm.schedule import ROW_BYTES
from blu.passes.kernels.contraction import maps_of, sizes_of
from blu.passes.loops.lower_to_linalg.generic import shape_of
from blu.passes.loops.widen_factors import products_of_float8, widen

_LEAST_RESULTS, _LEAST_SIDE = 1 << 14, 64
_WHOLE_VIEWS = ("linalg.transpose", "tensor.collapse_shape", "tensor.expand_shape", "blu.barrier")
_PARTIAL_VIEWS = ("tensor.extract_slice", "blu.row_windows")


@dataclass(frozen=True)
class PlaceFloat8(Pass):
    """Products of two matrices of fp8 stay so, for warpgroups, where they are large; others are made in bf16.

        %2 = linalg.contract ins(%0, %1 : tensor<4x4096xf8E4M3FN>, tensor<4096x16xf8E4M3FN>) outs(%zeros)

    becomes

        %a = linalg.generic ins(%0) { arith.extf, arith.truncf } -> tensor<4x4096xbf16>
        %b = linalg.generic ins(%1) { arith.extf, arith.truncf } -> tensor<4096x16xbf16>
        %2 = linalg.contract ins(%a, %b) outs(%zeros)

    and one of 4096 rows and columns is left. Its factors are copied later where their neighbours do not lie along k
    (copy_factors.py). Parts of matrices, whose rows may begin anywhere, are not multiplied as they are.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for operation in products_of_float8(module):
            if _stays(operation):
                self.count("products of fp8")
            else:
                widen(operation, bf16)


def _stays(operation: ir.Operation) -> bool:
    factors = list(operation.operands)[:2]
    if any(len(shape_of(factor)) != 2 or _is_part(factor) for factor in factors):
        return False
    sizes, (*_, result) = sizes_of(operation), maps_of(operation)
    sides = [sizes[dim] for dim in result if dim is not None]
    depth = prod(size for dim, size in enumerate(sizes) if dim not in result)
    if len(sides) != 2 or depth < ROW_BYTES:
        return False
    return prod(sides) >= _LEAST_RESULTS or (min(sides) >= _LEAST_SIDE and depth >= wgmma.DEEP)


def _is_part(value: ir.Value) -> bool:
    """Whether a matrix is seen as a part of another one."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _WHOLE_VIEWS:
        value = value.owner.operands[0]
    return not isinstance(value.owner, ir.Block) and value.owner.name in _PARTIAL_VIEWS

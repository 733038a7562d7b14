"""Ops of small constants, computed by their NumPy reference while compiling.

Only ops whose reference gives the very bits that a kernel gives: moves, comparisons, integer arithmetic, and the four
float operations, which are rounded correctly in both. Ops that report something at run time are left to do so.
"""

from __future__ import annotations

import numpy as np

from blu.dialects.core.dtypes import DType, bf16, f16
from blu.dialects.core.evaluation import evaluate, on_operand
from blu.dialects.core.mlir import ir
from blu.passes.graph.simplify.rules import LARGEST_CONSTANT, Site, constant_of, emit, simplifies

MOVES = ("reshape", "transpose", "slice", "pad", "concatenate", "reverse", "where")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite")
BITS = ("logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "invert")
ROUNDED_CORRECTLY = ("add", "subtract", "multiply", "divide", "negative", "absolute", "floor", "ceil", "trunc", "round")
EXACT_FOR_INTEGERS = ("maximum", "minimum", "sign", "square", "relu")


@simplifies("convert", *MOVES, *COMPARISONS, *BITS, *ROUNDED_CORRECTLY, *EXACT_FOR_INTEGERS)
def fold_constants(site: Site) -> ir.Value | None:
    """%0 = "blu.constant" 2, %1 = "blu.constant" 3, %2 = "blu.add"(%0, %1)      ->      "blu.constant" 5"""
    if site.type.size > LARGEST_CONSTANT or not _is_exact(site):
        return None
    operands = tuple(on_operand(constant_of, item) for item in site.operands)
    if any(item is None for group in operands for item in (group if isinstance(group, list) else [group])):
        return None
    (result,) = evaluate(site.op_class, operands, site.attributes)
    if site.name not in MOVES and site.type.dtype.is_float and np.isnan(result).any():
        return None  # the sign of a NaN is the processor's choice
    return emit("constant", value=result)


def _is_exact(site: Site) -> bool:
    if site.name == "convert":
        return _converts_exactly(site.source_type.dtype, site.type.dtype)
    return site.name not in EXACT_FOR_INTEGERS or not site.type.dtype.is_float


def _converts_exactly(source: DType, target: DType) -> bool:
    """Kernels convert wide numbers to half precision in two steps, which may round twice."""
    return target not in (f16, bf16) or source.bits < 32 or source.name == "f32"

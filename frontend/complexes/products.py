"""Products of complex tensors: sums of the products of their parts."""

from __future__ import annotations

from typing import Any

from blu.dialects.core.axes import normalize_axes
from blu.dialects.tensor.arithmetic import divide, matmul, multiply, sqrt
from blu.dialects.tensor.arrangement import reshape
from blu.dialects.tensor.complex_tensor import is_complex
from blu.dialects.tensor.folding import mean
from blu.dialects.tensor.function import COMPLEX_RULES
from blu.frontend.complexes.rules import complex_of, multilinear
from blu.frontend.functional.convolutions import conv, conv_transpose
from blu.frontend.functional.einsum import einsum
from blu.frontend.functional.linear import dot, outer, tensordot, vdot
from blu.frontend.functional.neural import rms_norm
from blu.frontend.functional.norms import cross, vecdot
from blu.frontend.functional.pointwise import conj

multilinear("x y", matmul, dot, outer, tensordot, cross, vecdot, vdot)
multilinear("operands", einsum)
multilinear("x weight", conv, conv_transpose)


def _with_conjugate(function: Any) -> None:
    """Of a product in which the first factor is conjugated."""
    products = COMPLEX_RULES[function]

    def rule(x: Any, y: Any, **options: Any) -> Any:
        return products(conj(x) if is_complex(x) else x, y, **options)

    complex_of(function)(rule)


def _with_bias(function: Any) -> None:
    """Of a sum of products to which a bias is added."""
    products = COMPLEX_RULES[function]

    def rule(x: Any, weight: Any, bias: Any = None, *others: Any, channels_last: bool = False, **options: Any) -> Any:
        found = products(x, weight, None, *others, channels_last=channels_last, **options)
        if bias is None:
            return found
        rank = len(weight.shape) - 2
        return found + (bias if channels_last else bias.reshape((-1, *(1,) * rank)))

    complex_of(function)(rule)


for _function in (vecdot, vdot):
    _with_conjugate(_function)
for _function in (conv, conv_transpose):
    _with_bias(_function)


@complex_of(rms_norm)
def _rms_norm(x: Any, weight: Any = None, eps: float = 1e-6, axis: Any = -1) -> Any:
    """By the mean of squares, which are complex, as PyTorch has it."""
    axes = normalize_axes(axis, len(x.shape))
    found = divide(x, sqrt(mean(multiply(x, x), axes, keepdims=True) + eps))
    if weight is None:
        return found
    sizes = tuple(size if place in axes else 1 for place, size in enumerate(x.shape))
    return multiply(found, reshape(weight, sizes))

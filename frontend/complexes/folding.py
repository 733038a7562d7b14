"""Sums, products and variances of complex tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from blu.dialects.core.dtypes import complex_dtype, part_dtype
from blu.dialects.ops.reduction import reduced_shape
from blu.dialects.tensor import folding
from blu.dialects.tensor.arithmetic import absolute
from blu.dialects.tensor.arrangement import concatenate, flatten, reshape
from blu.dialects.tensor.complex_tensor import Complex
from blu.dialects.tensor.folding import at_the_end, cumsum, fold_axes, mean, prod, std, var
from blu.dialects.tensor.prefixes import prefixes
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError
from blu.frontend.complexes.arithmetic import of_truth
from blu.frontend.complexes.parts import as_complex, zeros_of
from blu.frontend.complexes.rules import complex_of
from blu.frontend.functional.running import cumprod
from blu.frontend.functional.searching.searching import count_nonzero

Axis = Any


def to_dtype(x: Any, dtype: Any) -> Any:
    """Complex numbers of the complex dtype that is asked for, or of their own. DTypeError for a real one."""
    if dtype is None:
        return as_complex(x)
    wanted = complex_dtype(dtype)
    if wanted is None:
        raise DTypeError(f"complex numbers do not become {dtype}", advice="Take blu.real or blu.absolute of them.")
    return as_complex(x, part_dtype(wanted))


def _of_sums(function: Callable[..., Tensor]) -> None:
    def rule(x: Any, axis: Axis = None, dtype: Any = None, **options: Any) -> Any:
        whole = to_dtype(x, dtype)
        return Complex(function(whole.real, axis, **options), function(whole.imag, axis, **options))

    complex_of(function)(rule)


for _function in (folding.sum, mean, cumsum):
    _of_sums(_function)
for _function in (folding.any, folding.all, count_nonzero):
    of_truth(_function)


@complex_of(prod)
def _prod(x: Any, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """By halves: of each pair of numbers their product."""
    whole = to_dtype(x, dtype)
    axes = fold_axes(axis, whole.ndim)
    rest: Any = Complex(at_the_end(whole.real, axes), at_the_end(whole.imag, axes))
    if not rest.shape[-1]:
        one = prod(rest.real, -1)
        rest = Complex(one, zeros_of(one))
    while rest.ndim > whole.ndim - len(axes):
        count = rest.shape[-1]
        if count == 1:
            rest = rest[..., 0]
            continue
        half = count // 2
        products = rest[..., :half] * rest[..., half : 2 * half]
        rest = concatenate([products, rest[..., 2 * half :]], -1) if count % 2 else products
    return reshape(rest, reduced_shape(whole.shape, axes, bool(keepdims)))


@complex_of(cumprod)
def _cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
    whole: Any = to_dtype(x, dtype)
    if axis is None:
        return _cumprod(flatten(whole), 0)
    if not fold_axes(axis, whole.ndim):
        return whole  # one number, which may be said to have a dimension, as in NumPy
    (place,) = fold_axes(axis, whole.ndim)
    found = prefixes(_product_step, [whole.real, whole.imag], [place, place])
    return Complex(*found)


def _product_step(one: list[Tensor], other: list[Tensor]) -> list[Tensor]:
    found: Any = Complex(*one) * Complex(*other)
    return [found.real, found.imag]


@complex_of(var)
def _var(x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The mean square of the distances from the mean, which is real."""
    whole = as_complex(x)
    return var(whole.real, axis, correction, keepdims) + var(whole.imag, axis, correction, keepdims)


@complex_of(std)
def _std(x: Any, axis: Axis = None, correction: float = 0, keepdims: bool = False) -> Tensor:
    """The root of `var`, whose gradient is 0 where all elements are equal."""
    whole = as_complex(x)
    both = (std(part, axis, correction, keepdims) for part in (whole.real, whole.imag))
    return absolute(Complex(*both))

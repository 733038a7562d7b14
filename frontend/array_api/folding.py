"""Statistics, `any` and `all`, running sums and products, and differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dialects.core.axes import normalize_axis
from blu.dialects.hooks import HOOKS
from blu.dialects.tensor import folding
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, flatten
from blu.dialects.tensor.folding import all, any, max, min
from blu.dialects.tensor.function import public, public_as
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.frontend.array_api.dtypes import dtype_of, is_summed_on_host, summed_on_host
from blu.frontend.functional import running
from blu.frontend.functional.creation import asarray

__all__ = [
    "all",
    "any",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

Axes = int | tuple[int, ...] | None


def sum(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The sum over the axes named (None: all). Integers are added up in 64 bits unless a `dtype` is given."""
    return _total("sum", x, axis, dtype, keepdims)


def prod(x: Any, /, *, axis: Axes = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """The product over the axes named (None: all), in the dtype that `sum` has."""
    return _total("prod", x, axis, dtype, keepdims)


def _total(name: str, x: Any, axis: Axes, dtype: Any, keepdims: bool) -> Any:
    options = {"axis": axis, "dtype": dtype, "keepdims": keepdims}
    if is_summed_on_host(x, dtype):
        return _on_host(getattr(np, name), x, options)
    return getattr(folding, name)(x, **options)


def _on_host(function: Callable[..., Any], x: Any, options: dict[str, Any]) -> Any:
    dtype = options["dtype"]
    options |= {"dtype": None if dtype is None else dtype_of(dtype)}
    return HOOKS.compiler.run_on_host(summed_on_host(function), (x,), options)


@public
def mean(x: Any, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean over the axes named (None: all)."""
    return folding.mean(x, axis, keepdims=keepdims)


@public
def var(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance over the axes named (None: all): squared distances from the mean over the count - `correction`."""
    return folding.var(x, axis, correction, keepdims)


@public
def std(x: Any, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation: the square root of the variance."""
    return folding.std(x, axis, correction, keepdims)


def cumulative_sum(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running sums along an axis, left out where there is at most one; from 0 on with `include_initial`."""
    return _running("cumulative_sum", x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
    """Running products along an axis, left out where there is at most one; from 1 on with `include_initial`."""
    return _running("cumulative_prod", x, axis, dtype, include_initial)


def _running(name: str, x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Any:
    options = {"axis": axis, "dtype": dtype, "include_initial": include_initial}
    if is_summed_on_host(x, dtype):
        numpys = getattr(np, name)
        return _on_host(lambda x, axis, **others: numpys(np.atleast_1d(x), axis=axis, **others), x, options)
    return (_running_sums if name == "cumulative_sum" else _running_products)(x, **options)


@public_as("cumulative_sum")
def _running_sums(x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Tensor:
    tensor, place = _along(x, axis)
    found = folding.cumsum(tensor, place, dtype=dtype)
    return _after(asarray(0, found.dtype), found, place) if include_initial else found


@public_as("cumulative_prod")
def _running_products(x: Any, axis: int | None, dtype: Any, include_initial: bool) -> Tensor:
    tensor, place = _along(x, axis)
    found = running.cumprod(tensor, place, dtype=dtype)
    return _after(asarray(1, found.dtype), found, place) if include_initial else found


def _along(x: Any, axis: int | None) -> tuple[Tensor, int]:
    tensor = asarray(x)
    if axis is None and tensor.ndim == 0:
        tensor = flatten(tensor)
    if axis is None and tensor.ndim > 1:
        raise ShapeError(f"{tensor.type} is not of one dimension", advice="Say the axis.")
    return tensor, normalize_axis(0 if axis is None else axis, tensor.ndim)


def _after(first: Tensor, found: Tensor, place: int) -> Tensor:
    return concatenate([broadcast_to(first, (*found.shape[:place], 1, *found.shape[place + 1 :])), found], place)


@public
def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """The differences of neighbours along an axis, `n` times over."""
    return running.diff(x, n, axis, prepend, append)

"""Arrays from nothing: NumPy makes them, on the host; in compiled functions they are tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor import arrangement
from blu.dialects.tensor.function import is_tracing, public, told
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError
from blu.frontend.array_api.dtypes import dtype_of
from blu.frontend.functional import creation as tensors
from blu.frontend.functional.interchange import to_device

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


def _made(function: Callable[..., np.ndarray], device: str | None, *arguments: Any, **keywords: Any) -> Any:
    """What a function of NumPy's makes, on a device; a tensor of it while tracing."""
    found = HOOKS.compiler.run_on_host(function, arguments, keywords)
    _check_numbers(found.dtype, function.__name__)
    return tensors.asarray(found) if is_tracing() else to_device(found, device)


def _dtype(dtype: Any, default: Any = None) -> Any:
    """NumPy's for a dtype that is asked for."""
    return default if dtype is None else dtype_of(dtype)


def asarray(obj: Any, /, *, dtype: Any = None, device: str | None = None, copy: bool | None = None) -> Any:
    """An array of a number, nested lists of numbers, or another array. ValueError where `copy` is false and must be."""
    if isinstance(obj, Tensor) or is_tracing():
        return tensors.asarray(obj, dtype)
    if device is None and dtype is None and not copy and _is_ours(obj):
        return obj
    if device not in (None, "cpu") and copy is False:
        raise ValueError("an array on another device is a copy")
    return to_device(HOOKS.compiler.run_on_host(_read, (obj, _dtype(dtype), copy), {}), device)


def _is_ours(value: Any) -> bool:
    """Whether a value is an array of this namespace."""
    return hasattr(value, "__array_namespace__") and value.__array_namespace__().__name__ == __package__


def _read(obj: Any, dtype: np.dtype | None, copy: bool | None) -> np.ndarray:
    _check_real(obj, dtype)
    found = np.asarray(obj, dtype=dtype, copy=copy)
    if isinstance(obj, int) and found.dtype.kind == "O":
        raise OverflowError(f"asarray: {obj} does not fit 64 bits")
    _check_numbers(found.dtype, type(obj).__name__)
    return found


def _check_real(value: Any, dtype: np.dtype | None) -> None:
    if dtype is not None and dtype.kind not in "bc" and np.iscomplexobj(value):
        raise DTypeError(f"complex numbers do not become {dtype.name}", advice="Take real(x) first.")


def _check_numbers(dtype: np.dtype, source: str) -> None:
    """DTypeError for what no array holds: texts, dates, objects, records, and floats of more than 64 bits."""
    if dtype.kind not in "biufcV" or dtype.type is np.void or dtype.char in "gG":
        raise DTypeError(
            f"{source} has no numbers that an array holds: NumPy reads {dtype.name}",
            advice="Give bools, integers, complex numbers, or floats of at most 64 bits.",
        )


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Any:
    """Another library's array, where it is and without a copy unless one is asked for."""
    found = HOOKS.compiler.place(x, device)
    return asarray(found, copy=True) if copy else found


def _shaped(function: Callable[..., np.ndarray], of_tensors: Callable[..., Tensor]) -> Callable[..., Any]:
    """A function of a shape, and the function of a tensor's or an array's shape."""

    def make(shape: Any, *, dtype: Any = None, device: str | None = None) -> Any:
        if is_tracing():
            return of_tensors(shape, dtype=_dtype(dtype, np.dtype(np.float64)))
        return _made(function, device, shape, dtype=_dtype(dtype, np.dtype(np.float64)))

    make.__name__ = make.__qualname__ = function.__name__
    make.__doc__ = (
        f"An array of {function.__name__} (f64 unless another dtype is given). "
        "DTypeError for a dtype that arrays do not have."
    )
    return told(make)


zeros, ones = _shaped(np.zeros, tensors.zeros), _shaped(np.ones, tensors.ones)


@told
def empty(shape: Any, *, dtype: Any = None, device: str | None = None) -> Any:
    """An array of any numbers: zeros."""
    return zeros(shape, dtype=dtype, device=device)


@told
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Any:
    """An array of one number, in its dtype unless another is given.

    DTypeError for a dtype that arrays do not have, or a real one for a complex number.
    """
    if isinstance(fill_value, Tensor) or is_tracing():
        return tensors.full(shape, fill_value, dtype)
    _check_real(fill_value, _dtype(dtype))
    return _made(np.full, device, shape, fill_value, dtype=_dtype(dtype))


@told
def zeros_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Any:
    """Zeros in x's shape and dtype, unless another is given."""
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


@told
def ones_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Any:
    """Ones in x's shape and dtype, unless another is given."""
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


@told
def empty_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Any:
    """An array of x's shape and dtype, unless another is given, and any numbers: zeros."""
    return zeros_like(x, dtype=dtype, device=device)


@told
def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: str | None = None) -> Any:
    """One number in x's shape and dtype, unless another is given."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


@told
def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: str | None = None
) -> Any:
    """start, start + step, ... before stop; `arange(n)` counts from 0.

    DTypeError for a dtype that arrays do not have.
    """
    if is_tracing():
        return tensors.arange(start, stop, step, dtype)
    return _made(np.arange, device, *((0, start) if stop is None else (start, stop)), step, dtype=_dtype(dtype))


@told
def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: str | None = None, endpoint: bool = True
) -> Any:
    """`num` evenly spaced numbers from start to stop, which is among them unless `endpoint` is false.

    DTypeError for a dtype that arrays do not have.
    """
    if is_tracing():
        return tensors.linspace(start, stop, num, _dtype(dtype, np.dtype(np.float64)), endpoint)
    return _made(np.linspace, device, start, stop, num, endpoint=endpoint, dtype=_dtype(dtype))


@told
def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: str | None = None) -> Any:
    """A matrix with ones where column - row is `k`, zeros elsewhere. DTypeError for a dtype that arrays do not have."""
    return _made(np.eye, device, n_rows, n_cols, k, dtype=_dtype(dtype, np.dtype(np.float64)))


@public
def tril(x: Any, /, *, k: int = 0) -> Tensor:
    """The last two dimensions' lower triangle (column - row at most `k`), zeros above it."""
    return tensors.tril(x, k)


@public
def triu(x: Any, /, *, k: int = 0) -> Tensor:
    """The last two dimensions' upper triangle (column - row at least `k`), zeros below it."""
    return tensors.triu(x, k)


@public
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Tensor, ...]:
    """One-dimensional coordinates as the coordinates of all points of the grid that they span."""
    return tuple(arrangement.meshgrid(*arrays, indexing=indexing))

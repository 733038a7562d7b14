"""Fourier transforms in compiled functions, on all targets, with gradients: NumPy's names and meanings.

    @blu.jit
    def smooth(x, window):
        return blu.fft.irfft(blu.fft.rfft(x) * blu.fft.rfft(window), n=x.shape[-1])

Their numbers are complex64 where they are made of float32 or halves, else complex128: arrays, or in compiled functions
complex tensors. The host computes transforms with NumPy, between a program's kernels, as it does `blu.linalg`.

`norm` says which way has one over the number of elements in front: "backward" (the way back, the default), "forward",
or "ortho", both ways its root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from blu import errors
from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import TensorType, as_dtype, computing_dtype
from blu.dialects.ops.host.fourier import NORMS, Fourier, InverseRealFourier, RealFourier
from blu.dialects.tensor.arrangement import moveaxis, roll
from blu.dialects.tensor.complex_tensor import Complex, is_complex
from blu.dialects.tensor.function import public
from blu.dialects.tensor.promotion import as_tensor, constant, converted, promoted_floats
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ArgumentError, ShapeError
from blu.frontend.complexes.parts import parts_of
from blu.frontend.complexes.rules import by_parts
from blu.frontend.functional.creation import zeros_like
from blu.frontend.functional.padding import pad
from blu.frontend.functional.pointwise import conj

__all__ = [
    "Complex",
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
Axes = int | Sequence[int] | None


@public
def fft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The Fourier transform along an axis, of its first `n` elements, or of those and zeros.

    ShapeError for an axis that x does not have, or `n` below 1; ArgumentError for a `norm` that is none of "backward"
    (None), "ortho" and "forward".
    """
    return fftn(x, _length(n), (axis,), norm)


@public
def ifft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `fft`. Raises what that does."""
    return ifftn(x, _length(n), (axis,), norm)


@public
def fft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: str | None = None) -> Any:
    """The Fourier transform over two axes.

    ShapeError for axes that x does not have, or sizes below 1; ArgumentError for a `norm` that `fft` has not.
    """
    return fftn(x, s, axes, norm)


@public
def ifft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `fft2`. Raises what that does."""
    return ifftn(x, s, axes, norm)


@public
def fftn(x: Any, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Any:
    """The Fourier transform over several axes (None: the last ones that `s` has sizes for, or all), of the first `s`
    elements along each, or of those and zeros.

    ShapeError for axes that x does not have, or that are named twice, and for sizes below 1, or not one for each;
    ArgumentError for a `norm` that `fft` has not.
    """
    return _complex_transform(x, s, axes, norm, False)


@public
def ifftn(x: Any, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Any:
    """The inverse of `fftn`. ShapeError and ArgumentError as there."""
    return _complex_transform(x, s, axes, norm, True)


@public
def rfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The Fourier transform of real numbers along an axis: the first n // 2 + 1 of its numbers, which say all.

    ArgumentError for complex numbers; else it raises what `fft` does.
    """
    return rfftn(x, _length(n), (axis,), norm)


@public
def irfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `rfft`: `n` real numbers, twice as many as there are without the first and the last if None.

    Raises what `fft` does.
    """
    return irfftn(x, _length(n), (axis,), norm)


@public
def rfft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: str | None = None) -> Any:
    """The Fourier transform of real numbers over two axes. Raises what `rfftn` does."""
    return rfftn(x, s, axes, norm)


@public
def irfft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: str | None = None) -> Any:
    """The inverse of `rfft2`. Raises what `irfftn` does."""
    return irfftn(x, s, axes, norm)


@public
def rfftn(x: Any, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Any:
    """The Fourier transform of real numbers over several axes, as `fftn`; along the last of them half says all.

    ArgumentError for complex numbers, and that and ShapeError as there.
    """
    return _real_transform(x, s, axes, norm)


@public
def irfftn(x: Any, s: Sequence[int] | None = None, axes: Axes = None, norm: str | None = None) -> Any:
    """The inverse of `rfftn`: real numbers, `s` of them along each axis.

    ShapeError and ArgumentError as `fftn`, and ShapeError where no number is left.
    """
    return _inverse_real_transform(x, s, axes, norm)


@public
def hfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The Fourier transform along an axis of numbers of which the other half are the conjugates: `n` real numbers.

    ShapeError and ArgumentError as `fft`.
    """
    return irfft(conj(x), n, axis, _turned(norm))


@public
def ihfft(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Any:
    """The inverse of `hfft`. ShapeError and ArgumentError as `rfft`."""
    return conj(rfft(x, n, axis, _turned(norm)))


@public
def fftshift(x: Any, axes: Axes = None) -> Any:
    """The number of frequency zero in the middle of the axes named (None: all).

    ShapeError for axes that x does not have.
    """
    return _shifted(x, axes, False)


@public
def ifftshift(x: Any, axes: Axes = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, True)


@public
def fftfreq(n: int, d: float = 1.0, dtype: Any = "f32") -> Tensor:
    """The frequencies of `fft` of `n` numbers at distance `d`: [n].

    ArgumentError for an `n` that is no integer from 1 on.
    """
    return _frequencies(np.fft.fftfreq, n, d, dtype)


@public
def rfftfreq(n: int, d: float = 1.0, dtype: Any = "f32") -> Tensor:
    """The frequencies of `rfft` of `n` numbers at distance `d`: [n // 2 + 1].

    ArgumentError for an `n` that is no integer from 1 on.
    """
    return _frequencies(np.fft.rfftfreq, n, d, dtype)


def _frequencies(function: Callable[[int, float], np.ndarray], n: int, d: float, dtype: Any) -> Tensor:
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ArgumentError(f"n must be an integer from 1 on, got {n!r}")
    return constant(function(n, d).astype(as_dtype(dtype).numpy))


def _complex_transform(x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None, inverse: bool) -> Any:
    """A transform of real or complex numbers."""
    parts = _as_pair(x)
    sizes, places = _sizes_and_places(parts[0].type, s, axes)
    given = [_at_the_end(part, sizes, places) for part in parts]
    found = Fourier(*given, ndim=len(places), norm=_norm(norm), inverse=inverse)
    return Complex(*(_back_in_place(part, places) for part in found))


def _real_transform(x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None) -> Any:
    """Half of a transform of real numbers."""
    if is_complex(x):
        raise ArgumentError("takes real numbers", advice="fft is for complex ones.")
    [tensor] = _computed(x)
    sizes, places = _sizes_and_places(tensor.type, s, axes)
    found = RealFourier(_at_the_end(tensor, sizes, places), ndim=len(places), norm=_norm(norm))
    return Complex(*(_back_in_place(part, places) for part in found))


def _inverse_real_transform(x: Any, s: Sequence[int] | None, axes: Axes, norm: str | None) -> Tensor:
    """The real numbers that have such a half as their transform."""
    parts = _as_pair(x)
    sizes, places = _sizes_and_places(parts[0].type, s, axes)
    size = sizes[-1] if s is not None else 2 * (sizes[-1] - 1)
    if size < 1:
        raise ShapeError(f"{size} real numbers are no transform of {parts[0].type}", advice="Say how many there are.")
    given = [_at_the_end(part, (*sizes[:-1], size // 2 + 1), places) for part in parts]
    return _back_in_place(InverseRealFourier(*given, ndim=len(places), norm=_norm(norm), size=size), places)


def _shifted(x: Any, axes: Axes, back: bool) -> Tensor:
    """Half of the numbers along each axis moved to the other end."""
    tensor = as_tensor(x)
    named = range(tensor.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    places = tuple(normalize_axis(axis, tensor.ndim) for axis in named)
    shifts = tuple(-(tensor.shape[axis] // 2) if back else tensor.shape[axis] // 2 for axis in places)
    return roll(tensor, shifts, places) if places else tensor


by_parts("x", fftshift, ifftshift)


def _as_pair(x: Any) -> list[Tensor]:
    """The real and the imaginary part of what users give, which is 0 of real numbers."""
    real, imag = parts_of(x)
    if imag is not None:
        return _computed(real, imag)
    [tensor] = _computed(real)
    return [tensor, zeros_like(tensor)]


def _computed(*values: Any) -> list[Tensor]:
    """Tensors of a dtype that the host computes in."""
    return [converted(tensor, computing_dtype(tensor.dtype)) for tensor in promoted_floats(*values)]


def _norm(norm: str | None) -> str:
    if norm is not None and norm not in NORMS:
        raise ArgumentError(f"norm must be one of {', '.join(NORMS)}, got {norm!r}")
    return norm or "backward"


def _turned(norm: str | None) -> str:
    return NORMS[::-1][NORMS.index(_norm(norm))]


def _length(n: int | None) -> tuple[int] | None:
    return None if n is None else (n,)


def _sizes_and_places(
    type_: TensorType, s: Sequence[int] | None, axes: Axes
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """How many elements are transformed along each axis, and which these are."""
    ndim = len(type_.shape)
    if axes is None:
        count = ndim if s is None else len(s)
        if count > ndim:
            raise ShapeError(f"{type_} has fewer dimensions than there are sizes in {tuple(s or ())}")
        axes = range(ndim - count, ndim)
    places = tuple(normalize_axis(axis, ndim) for axis in ((axes,) if isinstance(axes, int) else axes))
    if not places or len(set(places)) < len(places):
        raise ShapeError(f"each axis is transformed once, and at least one of {type_}, got {axes!r}")
    sizes = tuple(type_.shape[place] for place in places) if s is None else tuple(s)
    if len(sizes) != len(places) or any(size < 1 for size in sizes):
        raise ShapeError(f"sizes {sizes} of axes {places}: one from 1 on is needed for each")
    return sizes, places


def _at_the_end(tensor: Tensor, sizes: Sequence[int], places: Sequence[int]) -> Tensor:
    """The axes that are transformed last, of these sizes: cut, or filled up with zeros."""
    moved = moveaxis(tensor, places, tuple(range(-len(places), 0)))
    widths = [(0, 0)] * (moved.ndim - len(sizes))
    widths += [(0, size - had) for size, had in zip(sizes, moved.shape[-len(sizes) :], strict=True)]
    return pad(moved, widths) if any(after for _, after in widths) else moved


def _back_in_place(tensor: Tensor, places: Sequence[int]) -> Tensor:
    return moveaxis(tensor, tuple(range(-len(places), 0)), places)


__getattr__ = errors.guessing(globals())

"""`blu.array_api.fft`: Fourier transforms. Of arrays, they are NumPy's; of tensors, those of `blu.fft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from blu.dialects.hooks import HOOKS
from blu.dialects.tensor.function import is_tracing, on_host
from blu.frontend import fft as compiled
from blu.frontend.array_api.creation import asarray
from blu.frontend.array_api.dtypes import dtype_of

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

Sizes = tuple[int, ...] | None
Transform = Callable[..., Any]


def _along_one(name: str, what: str) -> Transform:
    numpys = getattr(np.fft, name)

    def transform(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return numpys(x, n=n, axis=axis, norm=norm)

    return _named(transform, name, f"{what} along an axis, of `n` numbers: cut off, or followed by zeros.")


def _along_several(name: str, what: str) -> Transform:
    numpys = getattr(np.fft, name)

    def transform(x: Any, /, *, s: Sizes = None, axes: Sizes = None, norm: str = "backward") -> Any:
        places = axes if axes is not None or s is None else tuple(range(-len(s), 0))
        return numpys(x, s=s, axes=places, norm=norm)

    return _named(transform, name, f"{what} along axes (None: the last, or all), of `s` numbers along each.")


def _named(function: Transform, name: str, text: str) -> Transform:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return on_host(traced=getattr(compiled, name))(function)


fft = _along_one("fft", "The Fourier transform")
ifft = _along_one("ifft", "The inverse Fourier transform")
rfft = _along_one("rfft", "The Fourier transform of real numbers, without what is said twice,")
irfft = _along_one("irfft", "The inverse of `rfft`")
hfft = _along_one("hfft", "The Fourier transform of Hermitian numbers")
ihfft = _along_one("ihfft", "The inverse of `hfft`")
fftn = _along_several("fftn", "The Fourier transform")
ifftn = _along_several("ifftn", "The inverse Fourier transform")
rfftn = _along_several("rfftn", "The Fourier transform of real numbers, without what is said twice,")
irfftn = _along_several("irfftn", "The inverse of `rfftn`")


@on_host(traced=compiled.fftshift)
def fftshift(x: Any, /, *, axes: int | tuple[int, ...] | None = None) -> Any:
    """x with frequency zero in the middle of axes (None: all)."""
    return np.fft.fftshift(x, axes=axes)


@on_host(traced=compiled.ifftshift)
def ifftshift(x: Any, /, *, axes: int | tuple[int, ...] | None = None) -> Any:
    """The inverse of `fftshift`."""
    return np.fft.ifftshift(x, axes=axes)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Any:
    """The frequencies of a transform of `n` numbers at distance `d`."""
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Any:
    """The frequencies of `rfft` of `n` numbers at distance `d`."""
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(function: Transform, n: int, d: float, dtype: Any, device: str | None) -> Any:
    found = HOOKS.compiler.run_on_host(lambda: function(n, d).astype(dtype_of(dtype or np.float64)), (), {})
    return found if device is None and not is_tracing() else asarray(found, device=device)

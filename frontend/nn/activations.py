"""Activations, and what else has no parameters, as modules by torch's names: what `nn.Sequential` is made of.

Each computes the function of `blu` that has its name, with the options that it was made with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from blu.dialects.core.axes import normalize_axis
from blu.dialects.core.dtypes import product
from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.nn.function_module import FunctionModule
from blu.frontend.nn.module import Module


class Identity(Module):
    """What it is given, whatever it was made with: it stands where a layer may be."""

    def __init__(self, *arguments: Any, **options: Any):
        del arguments, options

    def forward(self, x: Any) -> Any:
        return x


class ReLU(FunctionModule):
    """x where it is above 0, else 0."""

    function = staticmethod(ops.relu)


class ReLU6(FunctionModule):
    """x bounded by 0 and 6."""

    function = staticmethod(ops.relu6)


class SELU(FunctionModule):
    """The ELU that keeps mean 0 and variance 1."""

    function = staticmethod(ops.selu)


class SiLU(FunctionModule):
    """x * sigmoid(x)."""

    function = staticmethod(ops.silu)


class Mish(FunctionModule):
    """x * tanh(softplus(x))."""

    function = staticmethod(ops.mish)


class Tanh(FunctionModule):
    """The hyperbolic tangent."""

    function = staticmethod(ops.tanh)


class Sigmoid(FunctionModule):
    """1 / (1 + exp(-x))."""

    function = staticmethod(ops.sigmoid)


class LogSigmoid(FunctionModule):
    """log(sigmoid(x))."""

    function = staticmethod(ops.logsigmoid)


class Hardsigmoid(FunctionModule):
    """x / 6 + 1 / 2 bounded by 0 and 1."""

    function = staticmethod(ops.hardsigmoid)


class Hardswish(FunctionModule):
    """x * hardsigmoid(x)."""

    function = staticmethod(ops.hardswish)


class Softsign(FunctionModule):
    """x / (1 + |x|)."""

    function = staticmethod(ops.softsign)


class Tanhshrink(FunctionModule):
    """x - tanh(x)."""

    function = staticmethod(ops.tanhshrink)


class GELU(FunctionModule):
    """x times the normal distribution's probability below x: exactly ("erf", or torch's "none"), or by "tanh"."""

    function = staticmethod(ops.gelu)

    def __init__(self, approximate: str = "erf"):
        if approximate not in ("erf", "none", "tanh"):
            raise ArgumentError(f"GELU: approximate must be 'erf', 'none' or 'tanh', got {approximate!r}")
        self.approximate = "erf" if approximate == "none" else approximate


class LeakyReLU(FunctionModule):
    """x where it is above 0, negative_slope * x elsewhere."""

    function = staticmethod(ops.leaky_relu)

    def __init__(self, negative_slope: float = 0.01):
        self.negative_slope = negative_slope


class ELU(FunctionModule):
    """x where it is above 0, alpha * (exp(x) - 1) elsewhere."""

    function = staticmethod(ops.elu)

    def __init__(self, alpha: float = 1.0):
        self.alpha = alpha


class CELU(FunctionModule):
    """x where it is above 0, alpha * (exp(x / alpha) - 1) elsewhere."""

    function = staticmethod(ops.celu)

    def __init__(self, alpha: float = 1.0):
        self.alpha = alpha


class Softplus(FunctionModule):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold."""

    function = staticmethod(ops.softplus)

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self.beta, self.threshold = beta, threshold


class Softshrink(FunctionModule):
    """x drawn towards 0 by lambd."""

    function = staticmethod(ops.softshrink)

    def __init__(self, lambd: float = 0.5):
        self.lambd = lambd


class Hardshrink(FunctionModule):
    """x where |x| is above lambd, else 0."""

    function = staticmethod(ops.hardshrink)

    def __init__(self, lambd: float = 0.5):
        self.lambd = lambd


class Hardtanh(FunctionModule):
    """x bounded by min_val and max_val."""

    function = staticmethod(ops.hardtanh)

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0):
        self.min_val, self.max_val = min_val, max_val


class Threshold(FunctionModule):
    """x where it is above the threshold, else `value`."""

    function = staticmethod(ops.threshold)

    def __init__(self, threshold: float, value: float):
        self.threshold, self.value = threshold, value


class GLU(FunctionModule):
    """The first half of x along an axis times the sigmoid of the second half."""

    function = staticmethod(ops.glu)

    def __init__(self, axis: int = -1):
        self.axis = axis


class Softmax(FunctionModule):
    """exp(x) / sum(exp(x)) along an axis."""

    function = staticmethod(ops.softmax)

    def __init__(self, axis: int = -1):
        self.axis = axis


class LogSoftmax(FunctionModule):
    """log(softmax(x)) along an axis."""

    function = staticmethod(ops.log_softmax)

    def __init__(self, axis: int = -1):
        self.axis = axis


class Upsample(FunctionModule):
    """x [N, C, *spatial] in another size, as `blu.interpolate` has it."""

    function = staticmethod(ops.interpolate)

    def __init__(self, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool = False):
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners


class PixelShuffle(FunctionModule):
    """x [..., C * factor**2, H, W] as [..., C, H * factor, W * factor]."""

    function = staticmethod(ops.pixel_shuffle)

    def __init__(self, factor: int):
        self.factor = factor


class PixelUnshuffle(FunctionModule):
    """x [..., C, H * factor, W * factor] as [..., C * factor**2, H, W]."""

    function = staticmethod(ops.pixel_unshuffle)

    def __init__(self, factor: int):
        self.factor = factor


class CosineSimilarity(FunctionModule):
    """sum(x * y) / (|x| * |y|) along an axis, of two arrays."""

    function = staticmethod(ops.cosine_similarity)

    def __init__(self, axis: int = 1, eps: float = 1e-8):
        self.axis, self.eps = axis, eps


class Flatten(Module):
    """The dimensions from `start` to `end` as one: of x [N, ...] all but the first, where nothing else is said."""

    def __init__(self, start: int = 1, end: int = -1):
        self.start, self.end = start, end

    def forward(self, x: Any) -> Any:
        """x [a, b, c] as [a, b * c]. ArgumentError where x has not these dimensions, in this order."""
        rank = len(x.shape)
        first, last = (place + rank if place < 0 else place for place in (self.start, self.end))
        if not 0 <= first <= last < rank:
            raise ArgumentError(f"Flatten({self.start}, {self.end}): no such dimensions in {list(x.shape)}")
        size = 1
        for count in x.shape[first : last + 1]:
            size *= count
        return ops.reshape(x, (*x.shape[:first], size, *x.shape[last + 1 :]))


class Unflatten(Module):
    """One dimension as several, of sizes one of which may be -1."""

    def __init__(self, axis: int, sizes: Sequence[int]):
        self.axis, self.sizes = axis, tuple(sizes)

    def forward(self, x: Any) -> Any:
        """x [a, b * c] as [a, b, c]."""
        place = normalize_axis(self.axis, len(x.shape))
        whole = x.shape[place]
        known = product(tuple(size for size in self.sizes if size != -1))
        sizes = tuple(whole // max(known, 1) if size == -1 else size for size in self.sizes)
        if self.sizes.count(-1) > 1 or product(sizes) != whole:
            raise ArgumentError(f"Unflatten: dimension {place} of {list(x.shape)} is not of sizes {list(self.sizes)}")
        return ops.reshape(x, (*x.shape[:place], *sizes, *x.shape[place + 1 :]))


class Softmin(FunctionModule):
    """softmax(-x) along an axis."""

    function = staticmethod(lambda x, axis: ops.softmax(-x, axis))

    def __init__(self, axis: int = -1):
        self.axis = axis

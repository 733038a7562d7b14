"""Layers that look through windows, with torch's names, arguments and parameters: convolutions and pooling.

Data are [N, C, *spatial], or [N, *spatial, C] in layers made with `channels_last`; weights are torch's in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from blu.dialects.core.dtypes import product
from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.functional.convolutions import Sizes, paddings_around, per_dimension
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import uniform


class _Convolution(Module):
    """Base of the layers that sum over windows: `weight`, and `bias` [F] or None."""

    rank: ClassVar[int]

    def _make(self, shape: tuple[int, ...], outputs: int, bias: bool, dtype: object) -> None:
        bound = 1 / math.sqrt(max(product(shape[1:]), 1))
        self.weight = uniform(shape, bound, dtype)
        self.bias = uniform((outputs,), bound, dtype) if bias else None


def _check_groups(inputs: int, outputs: int, groups: int) -> None:
    if groups < 1 or inputs % groups or outputs % groups:
        raise ArgumentError(f"{inputs} inputs and {outputs} outputs cannot be cut into {groups} groups")


_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""Ways to pad by torch's names, and what `blu.pad` calls them."""


class Conv1d(_Convolution):
    """`blu.conv` with `weight` [outputs, inputs / groups, *window] and `bias` [outputs]. With a `padding_mode` reflect,
    replicate or circular, data are padded so in place of zeros."""

    rank = 1

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: object = "f32",
        channels_last: bool = False,
        padding_mode: str = "zeros",
    ):
        _check_groups(inputs, outputs, groups)
        if padding_mode not in _MODES:
            raise ArgumentError(f"padding_mode={padding_mode!r} is none of {', '.join(_MODES)}")
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.channels_last, self.padding_mode = channels_last, padding_mode
        shape = (outputs, inputs // groups, *per_dimension("window", window, self.rank))
        self._make(shape, outputs, bias, dtype)

    def forward(self, x: Any) -> Any:
        padding = self.padding
        if self.padding_mode != "zeros":
            x, padding = ops.pad(x, self._widths(x.shape), mode=_MODES[self.padding_mode]), 0
        along = self.stride, padding, self.dilation, self.groups
        return ops.conv(x, self.weight, self.bias, *along, channels_last=self.channels_last)

    def _widths(self, shape: tuple[int, ...]) -> list[tuple[int, int]]:
        """How many elements stand (before, after) each dimension of data of such a shape."""
        end = len(shape) - (1 if self.channels_last else 0)
        steps, apart = (per_dimension("stride", item, self.rank) for item in (self.stride, self.dilation))
        extents = [(size - 1) * step + 1 for size, step in zip(self.weight.shape[2:], apart, strict=True)]
        sizes = list(shape[end - self.rank : end])
        pairs = paddings_around(self.padding, self.rank, extents, sizes, steps)
        return [(0, 0)] * (end - self.rank) + pairs + [(0, 0)] * (len(shape) - end)


class Conv2d(Conv1d):
    """`Conv1d` in two dimensions."""

    rank = 2


class Conv3d(Conv1d):
    """`Conv1d` in three dimensions."""

    rank = 3


class ConvTranspose1d(_Convolution):
    """`blu.conv_transpose` with `weight` [inputs, outputs / groups, *window] and `bias` [outputs]."""

    rank = 1

    def __init__(
        self,
        inputs: int,
        outputs: int,
        window: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        dtype: object = "f32",
        channels_last: bool = False,
    ):
        _check_groups(inputs, outputs, groups)
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.groups, self.dilation, self.channels_last = groups, dilation, channels_last
        shape = (inputs, outputs // groups, *per_dimension("window", window, self.rank))
        self._make(shape, outputs, bias, dtype)

    def forward(self, x: Any) -> Any:
        along = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return ops.conv_transpose(x, self.weight, self.bias, *along, channels_last=self.channels_last)


class ConvTranspose2d(ConvTranspose1d):
    """`ConvTranspose1d` in two dimensions."""

    rank = 2


class ConvTranspose3d(ConvTranspose1d):
    """`ConvTranspose1d` in three dimensions."""

    rank = 3


class _Pool(Module):
    """Base of the layers without parameters: `function` with what the layer was made with."""

    function: ClassVar[Callable[..., Any]]

    def __init__(self, *arguments: Any, **keywords: Any):
        self.arguments, self.keywords = arguments, keywords

    def forward(self, x: Any) -> Any:
        return type(self).function(x, *self.arguments, **self.keywords)


class MaxPool1d(_Pool):
    """`blu.max_pool1d` with its arguments."""

    function = staticmethod(ops.max_pool1d)


class MaxPool2d(_Pool):
    """`blu.max_pool2d` with its arguments."""

    function = staticmethod(ops.max_pool2d)


class MaxPool3d(_Pool):
    """`blu.max_pool3d` with its arguments."""

    function = staticmethod(ops.max_pool3d)


class AvgPool1d(_Pool):
    """`blu.avg_pool1d` with its arguments."""

    function = staticmethod(ops.avg_pool1d)


class AvgPool2d(_Pool):
    """`blu.avg_pool2d` with its arguments."""

    function = staticmethod(ops.avg_pool2d)


class AvgPool3d(_Pool):
    """`blu.avg_pool3d` with its arguments."""

    function = staticmethod(ops.avg_pool3d)


class AdaptiveAvgPool1d(_Pool):
    """`blu.adaptive_avg_pool1d` with its arguments."""

    function = staticmethod(ops.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Pool):
    """`blu.adaptive_avg_pool2d` with its arguments."""

    function = staticmethod(ops.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_Pool):
    """`blu.adaptive_avg_pool3d` with its arguments."""

    function = staticmethod(ops.adaptive_avg_pool3d)


class AdaptiveMaxPool1d(_Pool):
    """`blu.adaptive_max_pool1d` with its arguments."""

    function = staticmethod(ops.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_Pool):
    """`blu.adaptive_max_pool2d` with its arguments."""

    function = staticmethod(ops.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_Pool):
    """`blu.adaptive_max_pool3d` with its arguments."""

    function = staticmethod(ops.adaptive_max_pool3d)


class Unfold(_Pool):
    """`blu.unfold` with its arguments: what windows see, as columns."""

    function = staticmethod(ops.unfold)


class Fold(_Pool):
    """`blu.fold` with its arguments: the sums of columns where windows saw them."""

    function = staticmethod(ops.fold)

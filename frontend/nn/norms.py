"""Layers that give channels mean 0 and variance 1, with torch's names, arguments and parameters.

Data are [N, C, *spatial], or [N, *spatial, C] in layers made with `channels_last`, with any number of dimensions.
"""

from __future__ import annotations

from typing import Any, ClassVar

from blu.dialects.core.dtypes import as_dtype, computing_dtype, product
from blu.errors import ArgumentError, DTypeError, ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.nn.buffer import Buffer
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import constant


class GroupNorm(Module):
    """Each of `groups` of the channels with mean 0 and variance 1, then scaled by `weight` [C], shifted by `bias`."""

    def __init__(
        self,
        groups: int,
        width: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: object = "f32",
        channels_last: bool = False,
    ):
        if groups < 1 or width % groups:
            raise ArgumentError(f"{width} channels cannot be cut into {groups} groups")
        self.groups, self.width, self.eps, self.channels_last = groups, width, eps, channels_last
        self.weight = constant((width,), 1.0, dtype) if affine else None
        self.bias = constant((width,), 0.0, dtype) if affine else None

    def forward(self, x: Any) -> Any:
        turned = ops.moveaxis(x, -1, 1) if self.channels_last else x
        if turned.ndim < 2 or turned.shape[1] != self.width:
            raise ShapeError(f"x must have {self.width} channels, got {list(x.shape)}")
        rows = ops.reshape(turned, (turned.shape[0], self.groups, product(turned.shape[1:]) // self.groups))
        y = ops.reshape(ops.layer_norm(rows, eps=self.eps), turned.shape)
        if self.weight is not None:
            shape = (self.width,) + (1,) * (turned.ndim - 2)
            y = y * ops.reshape(self.weight, shape) + ops.reshape(self.bias, shape)
        return ops.moveaxis(y, 1, -1) if self.channels_last else y


class _RunningNorm(Module):
    """Base of the norms that may keep running statistics, which they use in the place of a batch's in `eval()`.

    `running_mean` and `running_var` [C] are buffers, in f32 at least: (1 - momentum) old + momentum new after each call
    while training, where the new variance is the unbiased one; `momentum=None` gives the mean of all. The first
    momentum is that of the batch, as torch has it, and not that of the past.
    """

    # Whether each image of a batch has statistics of its own.
    is_per_image: ClassVar[bool]
    fewest_dimensions: ClassVar[int]
    # How many dimensions data may have, where the layer's name says it.
    ranks: ClassVar[tuple[int, ...]] = ()

    def __init__(
        self,
        width: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        dtype: object,
        channels_last: bool,
    ):
        if width < 1:
            raise ArgumentError(f"{type(self).__name__} needs a channel or more, got {width}")
        if momentum is not None and not 0 <= momentum <= 1:
            raise ArgumentError(f"momentum must be in [0, 1] or None, got {momentum}")
        self.width, self.eps, self.momentum, self.channels_last = width, eps, momentum, channels_last
        self.training = True
        self.weight = constant((width,), 1.0, dtype) if affine else None
        self.bias = constant((width,), 0.0, dtype) if affine else None
        wide = computing_dtype(dtype)
        tracked = track_running_stats
        self.running_mean = Buffer(constant((width,), 0.0, wide)) if tracked else None
        self.running_var = Buffer(constant((width,), 1.0, wide)) if tracked else None
        self.num_batches_tracked = Buffer(constant((), 0, "i64")) if tracked else None

    def forward(self, x: Any) -> Any:
        """The norm of x, [N, C, ...] or with channels last, in its dtype, which is a float one."""
        if not as_dtype(x.dtype).is_float:
            raise DTypeError(f"{type(self).__name__} normalises floats, got {as_dtype(x.dtype)}")
        if self.ranks and x.ndim not in self.ranks:
            wanted = " or ".join(map(str, self.ranks))
            raise ShapeError(f"{type(self).__name__}: x must have {wanted} dimensions, got {list(x.shape)}")
        channel = x.ndim - 1 if self.channels_last else 1
        if x.ndim < self.fewest_dimensions or x.shape[channel] != self.width:
            least = f"{self.fewest_dimensions} dimensions and " if x.ndim < self.fewest_dimensions else ""
            raise ShapeError(f"x must have {least}{self.width} channels in axis {channel}, got {list(x.shape)}")
        beside = tuple(self.width if axis == channel else 1 for axis in range(x.ndim))
        weight, bias = (None if item is None else ops.reshape(item, beside) for item in (self.weight, self.bias))
        if self.running_mean is None or self.training:
            return self._by_batch(x, channel, weight, bias)
        wide = ops.astype(x, computing_dtype(x.dtype))
        mean, variance = (ops.reshape(item, beside) for item in (self.running_mean, self.running_var))
        y = (wide - mean) * ops.rsqrt(variance + self.eps)
        if weight is not None:
            y = y * weight + bias
        return ops.astype(y, x.dtype)

    def _by_batch(self, x: Any, channel: int, weight: Any, bias: Any) -> Any:
        """The norm by a batch's mean and variance, which are noted where they are kept."""
        kept = (0, channel) if self.is_per_image else (channel,)
        axes = tuple(axis for axis in range(x.ndim) if axis not in kept)
        count = product(tuple(x.shape[axis] for axis in axes))
        if count < 2:
            what = "a channel of an image" if self.is_per_image else "a channel"
            message = f"{type(self).__name__} needs two elements or more of {what}, got {list(x.shape)}"
            raise ShapeError(message, advice="Call the model's eval() where it is not trained.")
        y, mean, variance = ops.standardize(x, axes, weight, bias, self.eps)
        if self.running_mean is not None:
            self._note(mean, variance * (count / (count - 1)))
        return y

    def _note(self, mean: Any, variance: Any) -> None:
        """Move the running statistics towards those of a batch, the mean of its images'."""
        batches = ops.add(self.num_batches_tracked, 1)
        self.num_batches_tracked = batches
        share = self.momentum if self.momentum is not None else 1.0 / batches.astype(mean.dtype)
        for name, found in (("running_mean", mean), ("running_var", variance)):
            new = ops.reshape(found, (found.size // self.width, self.width))
            new = ops.mean(new, 0) if self.is_per_image else ops.reshape(new, (self.width,))
            old = getattr(self, name)
            setattr(self, name, ((1 - share) * old + share * new.astype(old.dtype)).astype(old.dtype))


class BatchNorm(_RunningNorm):
    """Each channel with mean 0 and variance 1 over a batch, then scaled by `weight` [C] and shifted by `bias` [C].

    In `eval()` the mean and variance are those of all batches in training so far: see `nn.Buffer` for how a step of
    training has them.
    """

    is_per_image = False
    fewest_dimensions = 2

    def __init__(
        self,
        width: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: object = "f32",
        channels_last: bool = False,
    ):
        super().__init__(width, eps, momentum, affine, track_running_stats, dtype, channels_last)


class InstanceNorm(_RunningNorm):
    """Each channel of each image with mean 0 and variance 1; with `affine`, then scaled by `weight`, shifted by `bias`.

    With `track_running_stats`, the mean and variance in `eval()` are those of all images in training so far.
    """

    is_per_image = True
    fewest_dimensions = 3

    def __init__(
        self,
        width: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        dtype: object = "f32",
        channels_last: bool = False,
    ):
        super().__init__(width, eps, momentum, affine, track_running_stats, dtype, channels_last)


class BatchNorm1d(BatchNorm):
    """`BatchNorm` of data [N, C] or [N, C, L], or with channels last, and of no others."""

    ranks = (2, 3)


class BatchNorm2d(BatchNorm):
    """`BatchNorm` of data [N, C, H, W], or with channels last, and of no others."""

    ranks = (4,)


class BatchNorm3d(BatchNorm):
    """`BatchNorm` of data [N, C, D, H, W], or with channels last, and of no others."""

    ranks = (5,)


class InstanceNorm1d(InstanceNorm):
    """`InstanceNorm` of data [N, C, L], or with channels last, and of no others."""

    ranks = (3,)


class InstanceNorm2d(InstanceNorm):
    """`InstanceNorm` of data [N, C, H, W], or with channels last, and of no others."""

    ranks = (4,)


class InstanceNorm3d(InstanceNorm):
    """`InstanceNorm` of data [N, C, D, H, W], or with channels last, and of no others."""

    ranks = (5,)

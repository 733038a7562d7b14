"""Elements around data, by torch's names: zeros, a number, or the data's own.

`padding` is one number, or torch's numbers before and after each spatial dimension, the last one first: (left, right,
top, bottom). A negative number takes elements away.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from blu.errors import ArgumentError, ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.nn.module import Module


class _Pad(Module):
    """What these layers have in common: the last `rank` dimensions get elements around them, by `mode`."""

    rank: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int], value: float = 0.0):
        wide = (padding,) * (2 * self.rank) if isinstance(padding, int) else tuple(padding)
        if len(wide) != 2 * self.rank:
            message = f"{type(self).__name__}: padding is a number or {2 * self.rank}, got {len(wide)} numbers"
            raise ArgumentError(message)
        self.padding, self.value = wide, value

    def forward(self, x: Any) -> Any:
        """x [..., *spatial], of any leading dimensions. ShapeError for fewer than the layer's."""
        others = len(x.shape) - self.rank
        if others < 0:
            raise ShapeError(f"{type(self).__name__}: x must have {self.rank} dimensions or more, got {list(x.shape)}")
        pairs = [self.padding[place : place + 2] for place in range(0, 2 * self.rank, 2)]
        return ops.pad(x, [(0, 0)] * others + pairs[::-1], self.value, self.mode)


class _ZeroPad(_Pad):
    def __init__(self, padding: int | Sequence[int]):
        super().__init__(padding)


class _ReflectionPad(_ZeroPad):
    mode = "reflect"


class _ReplicationPad(_ZeroPad):
    mode = "edge"


class _CircularPad(_ZeroPad):
    mode = "wrap"


class ZeroPad1d(_ZeroPad):
    """Zeros around the last dimension."""

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around the last two dimensions."""

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around the last three dimensions."""

    rank = 3


class ConstantPad1d(_Pad):
    """`value` around the last dimension."""

    rank = 1


class ConstantPad2d(_Pad):
    """`value` around the last two dimensions."""

    rank = 2


class ConstantPad3d(_Pad):
    """`value` around the last three dimensions."""

    rank = 3


class ReflectionPad1d(_ReflectionPad):
    """What is next to the first and last elements, in reverse, around the last dimension."""

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """What is next to the first and last elements, in reverse, around the last two dimensions."""

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """What is next to the first and last elements, in reverse, around the last three dimensions."""

    rank = 3


class ReplicationPad1d(_ReplicationPad):
    """The first and last elements again around the last dimension."""

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """The first and last elements again around the last two dimensions."""

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """The first and last elements again around the last three dimensions."""

    rank = 3


class CircularPad1d(_CircularPad):
    """What is at the other end around the last dimension."""

    rank = 1


class CircularPad2d(_CircularPad):
    """What is at the other end around the last two dimensions."""

    rank = 2


class CircularPad3d(_CircularPad):
    """What is at the other end around the last three dimensions."""

    rank = 3

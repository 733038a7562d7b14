"""A strided convolution as one without strides, whose channels are the elements of blocks of the operand.

Blocks are as large as the strides, so that windows begin where blocks do: one product takes the place of one for each
phase, and what it reads for a result are neighbours. Where windows do not end where blocks do, they are filled up with
zeros: the elements of the operand that these meet are multiplied as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.ops.convolution.products import DEPTH, cut, padded
from blu.dialects.ops.convolution.windows import Dimension, WindowGrid, grid_of
from blu.dialects.tensor.tensor import Tensor

_COPY_BYTES = 16
"""What rows are to be multiples of, so that they are copied fast."""
_MOST = 1.5
"""Elements that are multiplied for each one of a window: for more, a product for each phase is better."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of a convolution of `channels` channels of `element_bytes`."""

    dimensions: tuple[Dimension, ...]
    channels: int
    element_bytes: int

    @classmethod
    def of(cls, dimensions: Sequence[Dimension], operand: Tensor) -> Blocks:
        """Those of an operand [N, *spatial, C]."""
        return cls(tuple(dimensions), operand.shape[-1], operand.dtype.bytes)

    @property
    def _strides(self) -> list[int]:
        return [dimension.stride for dimension in self.dimensions]

    @property
    def _windows(self) -> list[int]:
        """Those along each dimension."""
        return [ceil(dimension.window / dimension.stride) for dimension in self.dimensions]

    @property
    def places(self) -> int:
        """Places of a window, in blocks."""
        return product(self._windows)

    @property
    def _counts(self) -> list[int]:
        """How many blocks are read along each dimension."""
        return [own.count - 1 + window for own, window in zip(self.dimensions, self._windows, strict=True)]

    @property
    def suit(self) -> bool:
        """Whether that is better than a product for each phase."""
        is_plain = all(own.spread == own.dilation == 1 and own.count and own.size for own in self.dimensions)
        size, places = product(self._strides), product([own.window for own in self.dimensions])
        if size == 1 or not is_plain or not self.channels or not places:
            return False
        filled = self.places * size
        return filled == places or (filled <= _MOST * places and self.channels * size <= DEPTH)

    @property
    def grid(self) -> WindowGrid:
        """The windows over blocks."""
        sizes = zip(self._counts, self._windows, strict=True)
        return grid_of([Dimension(count, window, 1, 0, 0, 1) for count, window in sizes])

    @property
    def _wide(self) -> int:
        """Channels with those of zeros, by which rows of blocks that overlap begin where copies are fast."""
        lanes, size = max(_COPY_BYTES // self.element_bytes, 1), product(self._strides)
        if max(self._windows) == 1:
            return self.channels
        return next(count for count in range(self.channels, self.channels + lanes) if count * size % lanes == 0)

    def operand(self, tensor: Tensor) -> Tensor:
        """[N, *spatial, C] as [N, *blocks, elements of a block]."""
        sizes = [count * stride for count, stride in zip(self._counts, self._strides, strict=True)]
        low = [own.low for own in self.dimensions]
        high = [size - own.size - own.low for size, own in zip(sizes, self.dimensions, strict=True)]
        seen = padded(tensor, [0, *low, 0], [0, *high, self._wide - self.channels])
        shape = [number for pair in zip(self._counts, self._strides, strict=True) for number in pair]
        rank = len(sizes)
        apart = seen.reshape((tensor.shape[0], *shape, self._wide))
        order = (0, *range(1, 2 * rank, 2), *range(2, 2 * rank + 1, 2), 2 * rank + 1)
        return apart.transpose(order).reshape((tensor.shape[0], *self._counts, self._elements))

    @property
    def _elements(self) -> int:
        return product(self._strides) * self._wide

    def weight(self, tensor: Tensor) -> Tensor:
        """[*window, C, F] as [places in blocks, elements of a block, F]."""
        high = [window * own.stride - own.window for window, own in zip(self._windows, self.dimensions, strict=True)]
        full = padded(tensor, [0] * tensor.ndim, [*high, self._wide - self.channels, 0])
        shape = [number for pair in zip(self._windows, self._strides, strict=True) for number in pair]
        rank, features = len(high), tensor.shape[-1]
        order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2), 2 * rank, 2 * rank + 1)
        apart = full.reshape((*shape, self._wide, features)).transpose(order)
        return apart.reshape((self.places, self._elements, features))

    def weight_of(self, blocks: Tensor) -> Tensor:
        """What `weight` has made of a tensor, back as [*window, C, F]."""
        rank, features = len(self.dimensions), blocks.shape[-1]
        apart = blocks.reshape((*self._windows, *self._strides, self._wide, features))
        order = (*(axis for dim in range(rank) for axis in (dim, rank + dim)), 2 * rank, 2 * rank + 1)
        sizes = [window * stride for window, stride in zip(self._windows, self._strides, strict=True)]
        whole = apart.transpose(order).reshape((*sizes, self._wide, features))
        limits = [own.window for own in self.dimensions]
        return cut(whole, [0] * whole.ndim, [*limits, self.channels, features])

"""A convolution as matrix products, one for each phase of its operand, on rows that are views of it.

The operand is [N, *spatial, C]. Padded, and for strides taken apart into phases, its rows of C elements stand one after
the other so that what a place of the window reads, for all results at once, are rows from some number on: no window is
ever copied. The sums of a product are over the places and the channels. Rows between the results' are computed as well,
and dropped (not on processors, see passes/graph/skip_rows.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from string import ascii_uppercase

import numpy as np

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import DType, computing_dtype, product
from blu.dialects.core.fields import VARIADIC_SLOTS
from blu.dialects.ops.contraction import Contract, Matmul
from blu.dialects.ops.convolution.row_windows import RowWindows
from blu.dialects.ops.convolution.windows import Tap, TapBlock, Tracks, WindowGrid
from blu.dialects.ops.creation import Constant
from blu.dialects.ops.shape import BroadcastTo, Concatenate, Pad, Slice
from blu.dialects.tensor.tensor import Tensor

# A product of fewer terms than this does not keep a processor busy: places side by side are joined for it.
DEPTH = 64


def zeros(shape: Sequence[int], dtype: DType) -> Tensor:
    """A tensor of zeros."""
    return BroadcastTo(Constant(value=np.zeros((), dtype.numpy)), shape=tuple(shape))


def cut(tensor: Tensor, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None) -> Tensor:
    """A slice, or the tensor where that is all of it."""
    if not any(starts) and tuple(limits) == tensor.shape and not any(stride != 1 for stride in strides or ()):
        return tensor
    return Slice(tensor, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides or (1,) * tensor.ndim))


def padded(tensor: Tensor, low: Sequence[int], high: Sequence[int], value: float = 0) -> Tensor:
    """The tensor with copies of `value` around it; where a number is negative, without so many elements."""
    starts = [max(-before, 0) for before in low]
    limits = [max(size - max(-after, 0), start) for size, after, start in zip(tensor.shape, high, starts, strict=True)]
    inner = cut(tensor, starts, limits)
    before, after = (tuple(max(count, 0) for count in counts) for counts in (low, high))
    if not any(before) and not any(after):
        return inner
    return Pad(inner, Constant(value=np.asarray(value, tensor.dtype.numpy)), low=before, high=after)


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """The tensors one after the other, however many they are."""
    while len(parts) > 1:
        starts = range(0, len(parts), VARIADIC_SLOTS)
        groups = [list(parts[start : start + VARIADIC_SLOTS]) for start in starts]
        parts = [group[0] if len(group) == 1 else Concatenate(group, axis=axis) for group in groups]
    return parts[0]


def part(tensor: Tensor, axis: int, start: int, limit: int) -> Tensor:
    """start..limit along one axis."""
    starts = [start if dim == axis else 0 for dim in range(tensor.ndim)]
    return cut(tensor, starts, [limit if dim == axis else size for dim, size in enumerate(tensor.shape)])


def merged(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    """The shape with two dimensions as one, of which `axis` (negative) is the first."""
    first = len(shape) + axis
    return (*shape[:first], shape[first] * shape[first + 1], *shape[first + 2 :])


def seen_by(grid: WindowGrid, operand: Tensor) -> Tensor:
    """All that windows read: the operand with zeros around it, and without what none reads."""
    low = [-line.start for line in grid.lines]
    sizes = zip(grid.lines, operand.shape[1:-1], strict=True)
    high = [line.start + line.length * line.stride - size for line, size in sizes]
    return padded(operand, [0, *low, 0], [grid.spare, *high, 0])


@dataclass(frozen=True)
class Products:
    """The products of a convolution of `operand` [N, *spatial, C] that gives `features` in so many `groups`."""

    operand: Tensor
    grid: WindowGrid
    groups: int
    features: int
    precision: str

    @property
    def _batch(self) -> int:
        return self.operand.shape[0]

    @property
    def _channels(self) -> int:
        """Of a group."""
        return self.operand.shape[-1] // self.groups

    @property
    def _is_depthwise(self) -> bool:
        return self._channels == 1 and self.groups > 1

    @cached_property
    def _read(self) -> Tensor:
        return seen_by(self.grid, self.operand)

    @cached_property
    def _phases(self) -> dict[tuple[int, ...], Tensor]:
        return {}

    def _rows(self, phase: tuple[int, ...]) -> Tensor:
        """A phase as rows: [rows, C], [groups, rows, C / groups] where there are groups of several channels."""
        if phase not in self._phases:
            strides = [line.stride for line in self.grid.lines]
            shape = self._read.shape
            rows = cut(self._read, [0, *phase, 0], shape, [1, *strides, 1])
            self._phases[phase] = self._by_group(rows.reshape((product(rows.shape[:-1]), rows.shape[-1])))
        return self._phases[phase]

    def _by_group(self, rows: Tensor) -> Tensor:
        if self.groups == 1 or self._is_depthwise:
            return rows
        return rows.reshape((rows.shape[0], self.groups, rows.shape[1] // self.groups)).transpose((1, 0, 2))

    @property
    def _sums(self) -> DType:
        """The dtype that sums are formed in."""
        return computing_dtype(self.operand.dtype)

    def _times(self, left: Tensor, right: Tensor, equation: str = "") -> Tensor:
        """Their matrix product, or that of an equation, in the dtype of sums; halves are multiplied as such."""
        narrow = left.dtype != self._sums
        precision = left.dtype.name if narrow else self.precision
        left, right = left.astype(self._sums), right.astype(self._sums)
        if not equation:
            return Matmul(left, right, precision=precision)
        return Contract(left, right, equation=equation, precision=precision)

    def results(self, weight: Tensor) -> Tensor:
        """The convolution with `weight` [places, C / groups, features]: [N, *counts, features]."""
        parts = [(tracks, self._result(tracks, weight)) for tracks in self.grid.tracks()]
        if len(parts) == 1:
            return parts[0][1]
        return self._interleaved(parts)

    def _result(self, tracks: Tracks, weight: Tensor) -> Tensor:
        shape = (self._batch, *tracks.counts, self.features)
        if not tracks.taps or not self._channels or not product(shape):
            return zeros(shape, self.operand.dtype)
        count = self.grid.rows_until_last(self._batch, tracks.counts)
        if self._is_depthwise:
            terms = [self._scaled(tap, count, weight) for tap in tracks.taps]
        else:
            terms = [self._product(block, count, weight) for block in self.grid.blocks(tracks)]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        rows = total.reshape((count, self.features)).astype(self.operand.dtype)
        return self._taken(rows, tracks)

    def _scaled(self, tap: Tap, count: int, weight: Tensor) -> Tensor:
        """What results see through a place of the window times its factors, one for each channel and feature."""
        seen = part(self._rows(tap.phase), 0, tap.row, tap.row + count).astype(self._sums)
        factor = part(weight, 0, tap.place, tap.place + 1).reshape((self.groups, self.features // self.groups))
        return seen.reshape((count, self.groups, 1)) * factor.astype(self._sums)

    def _product(self, block: TapBlock, count: int, weight: Tensor) -> Tensor:
        """[count, features], or [count, groups, features of each], of all that a block of places contributes."""
        seen, factor = self._windows(block, count), self._factor(block, weight)
        if self._are_neighbours(block):
            seen, factor = seen.reshape(merged(seen.shape, -2)), factor.reshape(merged(factor.shape, -3))
        letters = ascii_uppercase[: seen.ndim - (1 if self.groups == 1 else 2)]
        if self.groups > 1:
            return self._times(seen, factor, f"gm{letters},g{letters}f->mgf")
        if len(letters) == 1:
            return self._times(seen, factor)
        return self._times(seen, factor, f"m{letters},{letters}f->mf")

    def _are_neighbours(self, block: TapBlock) -> bool:
        """Whether places along the last dimension are taken for channels, since of these there are few."""
        return bool(block.steps) and block.sizes[-1] > 1 and block.steps[-1] == 1 and self._channels < DEPTH

    def _windows(self, block: TapBlock, count: int) -> Tensor:
        """What results see through a block of places: [groups?, count, *places, channels], without those of one."""
        rows = self._rows(block.phase)
        steps = [(size, step) for size, step in zip(block.sizes, block.steps, strict=True) if size > 1]
        if not steps:
            return part(rows, rows.ndim - 2, block.row, block.row + count)
        sizes, strides = zip(*steps, strict=True)
        return RowWindows(rows, sizes=(count, *sizes), steps=(1, *strides), start=block.row)

    def _factor(self, block: TapBlock, weight: Tensor) -> Tensor:
        """The weight of a block of places: [groups?, *places, channels, features of each], without places of one.

        It is seen in one matrix for all places, so that a weight that was turned around is copied once, to lie in rows.
        """
        channels, windows = self._channels, [dimension.window for dimension in self.grid.dimensions]
        matrix = self._by_group(weight.reshape((weight.shape[0] * channels, self.features)))
        start = block.numbers(windows)[0] * channels
        steps = [places.step * product(windows[dim + 1 :]) * channels for dim, places in enumerate(block.along)]
        many = [(size, step) for size, step in zip(block.sizes, steps, strict=True) if size > 1]
        if not many:
            return part(matrix, matrix.ndim - 2, start, start + channels)
        sizes, strides = zip(*many, strict=True)
        return RowWindows(matrix, sizes=(*sizes, channels), steps=(*strides, 1), start=start)

    def _taken(self, rows: Tensor, tracks: Tracks) -> Tensor:
        """The rows that are results: [N, *counts, features]."""
        lengths, sizes = self.grid.lengths, (self._batch, *tracks.counts)
        if rows.shape[0] == product(sizes):
            return rows.reshape((*sizes, self.features))
        steps = tuple(product(lengths[dim:]) for dim in range(len(sizes)))
        return RowWindows(rows, sizes=sizes, steps=steps, start=0)

    def _interleaved(self, parts: Sequence[tuple[Tracks, Tensor]]) -> Tensor:
        """All elements of the result in order, from those of each track: as [N, count, step, .., features]."""
        dimensions = self.grid.dimensions
        steps = [track.step for track in parts[0][0].along]
        counts = [-(-dimension.count // step) for dimension, step in zip(dimensions, steps, strict=True)]
        shape = (self._batch, *counts, self.features)
        reached = [(tracks, tensor) for tracks, tensor in parts if tracks.taps]
        if len(reached) == 1:
            return self._among_zeros(*reached[0], counts)
        full = []
        for _, tensor in parts:
            high = [size - own for size, own in zip(shape, tensor.shape, strict=True)]
            full.append(padded(tensor, [0] * len(high), high).reshape((1, *shape)))
        stacked = joined(full, 0).reshape((*steps, *shape))
        rank = len(steps)
        order = [rank, *(dim for place in range(rank) for dim in (rank + 1 + place, place)), 2 * rank + 1]
        sizes = [count * step for count, step in zip(counts, steps, strict=True)]
        result = stacked.transpose(order).reshape((self._batch, *sizes, self.features))
        return cut(result, [0] * result.ndim, [self._batch, *(own.count for own in dimensions), self.features])

    def _among_zeros(self, tracks: Tracks, tensor: Tensor, counts: Sequence[int]) -> Tensor:
        """All elements of the result, of which only those of some tracks see anything: zeros are put around each."""
        rank = len(counts)
        full = padded(
            tensor, [0] * (rank + 2), [0, *(size - own for size, own in zip(counts, tracks.counts, strict=True)), 0]
        )
        alone = full.reshape((self._batch, *(size for count in counts for size in (count, 1)), self.features))
        low = [0, *(number for track in tracks.along for number in (0, track.first)), 0]
        high = [0, *(number for track in tracks.along for number in (0, track.step - 1 - track.first)), 0]
        sizes = [count * track.step for count, track in zip(counts, tracks.along, strict=True)]
        result = padded(alone, low, high).reshape((self._batch, *sizes, self.features))
        limits = [self._batch, *(own.count for own in self.grid.dimensions), self.features]
        return cut(result, [0] * (rank + 2), limits)

    def weight_gradient(self, g: Tensor, places: int, back: WindowGrid | None = None) -> Tensor:
        """The gradient of the weight [places, C / groups, features], g [N, *counts, features] being the result's.

        `back` are the windows over g that give the gradient of the operand.
        """
        found: dict[int, Tensor] = {}
        for tracks in self.grid.tracks():
            if tracks.taps and g.size and self._channels:
                found |= self._gradients(tracks, self._rows_of_results(tracks, g, back))
        whole = found.get(0)
        if whole is not None and whole.shape[0] == places:
            return whole
        missing = zeros((1, self._channels, self.features), g.dtype)
        return joined([found.get(place, missing) for place in range(places)], 0)

    def _rows_of_results(self, tracks: Tracks, g: Tensor, back: WindowGrid | None) -> Tensor:
        """The part of g that belongs to tracks, as rows where the results' are, with zeros between them.

        Those that windows read for the operand's gradient are the same, further on, where padding keeps the size.
        """
        count = self.grid.rows_until_last(self._batch, tracks.counts)
        if back is not None and self.grid.has_rows_of(back):
            rows = seen_by(back, g).reshape((-1, self.features))
            return self._by_group(part(rows, 0, back.first_row, back.first_row + count))
        first, step = ([getattr(track, name) for track in tracks.along] for name in ("first", "step"))
        own = cut(g, [0, *first, 0], g.shape, [1, *step, 1])
        shape = (self._batch, *self.grid.lengths, self.features)
        high = [size - given for size, given in zip(shape, own.shape, strict=True)]
        rows = padded(own, [0] * len(high), high).reshape((product(shape[:-1]), self.features))
        return self._by_group(part(rows, 0, 0, count))

    def _gradients(self, tracks: Tracks, g: Tensor) -> dict[int, Tensor]:
        """What the results of tracks, whose gradients are rows of g, contribute: by place, or all at place 0."""
        if self._is_depthwise:
            return {tap.place: self._scaled_gradient(tap, g) for tap in tracks.taps}
        windows = [dimension.window for dimension in self.grid.dimensions]
        found = {}
        for block in self.grid.blocks(tracks):
            of_block = self._product_gradient(block, g)
            numbers = block.numbers(windows)
            if len(numbers) == product(windows):
                return {0: of_block}
            found |= {place: part(of_block, 0, number, number + 1) for number, place in enumerate(numbers)}
        return found

    def _scaled_gradient(self, tap: Tap, g: Tensor) -> Tensor:
        """[1, 1, features], of a place where each group has one channel."""
        count, each = g.shape[0], self.features // self.groups
        seen = part(self._rows(tap.phase), 0, tap.row, tap.row + count).astype(self._sums)
        wide = g.astype(self._sums).reshape((count, self.groups, each)) * seen.reshape((count, self.groups, 1))
        return wide.sum(axis=0).reshape((1, 1, self.features)).astype(g.dtype)

    def _product_gradient(self, block: TapBlock, g: Tensor) -> Tensor:
        """[places of the block, channels, features]: a product for each place, whose rows overlap those of others."""
        seen = self._windows(block, g.shape[-2])
        if self._are_neighbours(block):
            seen = seen.reshape(merged(seen.shape, -2))
        letters = ascii_uppercase[: seen.ndim - (1 if self.groups == 1 else 2)]
        if self.groups == 1 and len(letters) == 1:
            of_block = self._times(seen.swapaxes(0, 1), g)
        else:
            groups = "" if self.groups == 1 else "g"
            of_block = self._times(seen, g, f"{groups}m{letters},{groups}mf->{letters}{groups}f")
        return of_block.reshape((product(block.sizes), self._channels, self.features)).astype(g.dtype)

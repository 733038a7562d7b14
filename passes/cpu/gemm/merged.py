"""Products whose rows or depth are several dimensions, as a convolution's are: walked as if they were one.

    result[n, h, w, f] = sum over (i, j, c) of left[n, h, w, i, j, c] * right[i, j, c, f]

has rows (n, h, w) and depth (i, j, c). Where the dimensions lie one after the other in memory, they are one there; else
an index is taken apart, once for each row of a tile, and once for each k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from math import prod
from operator import mul

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, ir, memref
from blu.passes.cpu.gemm.gemv_rows import MOST_ROWS
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.contraction import Contraction, Digit, Dim, IndexedBuffer, Point, position


def merged(contraction: Contraction) -> Contraction:
    """The contraction with one dimension of rows and one of depth, whatever the buffers have.

    Few rows stay as they are: kernels for these walk one dimension.
    """
    own = [dim for dim in contraction.result_dims if dim in contraction.left.dims and dim not in contraction.right.dims]
    rows = [dim for dim in own if isinstance(dim, int)]
    depth = [*contraction.outer_depth, contraction.depth]
    many = prod(contraction.size(dim) for dim in rows) > MOST_ROWS
    if contraction.columns is None or not many or 0 in contraction.sizes or len(rows) + len(depth) == 2:
        return contraction
    for name, dims in (("rows", rows), ("depth", [dim for dim in depth if dim is not None])):
        if len(dims) > 1:
            contraction = _with_one(contraction, name, dims)
    return contraction


def _with_one(contraction: Contraction, name: str, dims: Sequence[int]) -> Contraction:
    """The contraction whose `rows` (or `depth`) are these dims, row-major, as a dim of their own."""
    number, sizes = len(contraction.sizes), [contraction.size(dim) for dim in dims]
    below = [*accumulate(sizes[:0:-1], mul, initial=1)][::-1]
    digits: dict[Dim, Dim] = {
        dim: Digit(number, step, size, is_first=place == 0)
        for place, (dim, step, size) in enumerate(zip(dims, below, sizes, strict=True))
    }

    def apart(own: tuple[Dim, ...]) -> tuple[Dim, ...]:
        return tuple(digits.get(dim, dim) for dim in own)

    others = {"outer": tuple(dim for dim in contraction.outer if dim not in dims)} if name == "rows" else {}
    return replace(
        contraction,
        sizes=(*contraction.sizes, prod(sizes)),
        left=replace(contraction.left, dims=apart(contraction.left.dims)),
        right=replace(contraction.right, dims=apart(contraction.right.dims)),
        result_dims=apart(contraction.result_dims),
        **{name: number, "outer_depth": () if name == "depth" else contraction.outer_depth} | others,
    )


def has_parts(contraction: Contraction, dim: int | None) -> bool:
    """Whether an iteration dim stands for several dimensions of the left operand."""
    return any(isinstance(own, Digit) and own.dim == dim for own in contraction.left.dims)


def run_of_rows(contraction: Contraction) -> int:
    """How many rows of the left operand, from a multiple of their number on, are evenly spaced."""
    runs = [_digit_of(run, contraction.left) for run in _runs(contraction.left)]
    own = [digit for digit in runs if isinstance(digit, Digit) and digit.dim == contraction.rows]
    return min(own, key=lambda digit: digit.below).size if own else contraction.size(contraction.rows)


def flattened(contraction: Contraction) -> Contraction:
    """The contraction whose operands have one dimension where memory allows it. Emits views of the buffers."""
    left, right = (_flat(operand, contraction) for operand in (contraction.left, contraction.right))
    return replace(contraction, left=left, right=right)


def _flat(operand: IndexedBuffer, contraction: Contraction) -> IndexedBuffer:
    runs = _runs(operand)
    if all(len(run) == 1 for run in runs):
        return operand
    type_, steps = ir.MemRefType(operand.buffer.type), vectors.strides_of(operand.buffer)
    sizes, strides = [prod(type_.shape[at] for at in run) for run in runs], [steps[run[-1]] for run in runs]
    start = type_.get_strides_and_offset()[1]
    layout = ir.StridedLayoutAttr.get(start, strides)
    seen = ir.MemRefType.get(sizes, type_.element_type, layout, type_.memory_space)
    buffer = memref.ReinterpretCastOp(seen, operand.buffer, [], [], [], [start], sizes, strides).result
    dims = (_digit_of(run, operand) for run in runs)
    return IndexedBuffer(buffer, tuple(_whole(dim, contraction) for dim in dims))


def _whole(dim: Dim, contraction: Contraction) -> Dim:
    """A digit that is all of its dimension is that."""
    if isinstance(dim, Digit) and dim.size == contraction.size(dim.dim):
        return dim.dim
    return dim


def _runs(operand: IndexedBuffer) -> list[list[int]]:
    """The dimensions of a buffer, those together that are neighbouring digits and lie one after the other in memory."""
    sizes, strides = ir.MemRefType(operand.buffer.type).shape, vectors.strides_of(operand.buffer)
    runs: list[list[int]] = []
    for place, dim in enumerate(operand.dims):
        before = operand.dims[place - 1] if place else None
        if (
            isinstance(dim, Digit)
            and isinstance(before, Digit)
            and before.dim == dim.dim
            and before.below == dim.below * dim.size
            and strides[place - 1] == strides[place] * sizes[place]
        ):
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


def _digit_of(run: Sequence[int], operand: IndexedBuffer) -> Dim:
    """What is behind a run of dimensions of a buffer."""
    first, last = operand.dims[run[0]], operand.dims[run[-1]]
    if not isinstance(first, Digit) or not isinstance(last, Digit):
        return first
    return replace(last, size=first.below * first.size // last.below, is_first=first.is_first)


@dataclass(frozen=True)
class LeftRows:
    """The rows of a tile in the left operand: where they are is found before k runs.

    With `even`, rows of a tile are evenly spaced.
    """

    contraction: Contraction
    even: bool

    def points(self, point: Point, row: ir.Value, count: int) -> list[dict[Dim, ir.Value]]:
        """Where `count` rows from `row` on are."""
        rows = self.contraction.rows
        digits = self._digits(rows)
        if not digits or not self.even:
            places = [{**point, rows: vectors.offset(row, i)} for i in range(count)]
            return [place | {digit: position(digit, place) for digit in digits} for place in places]
        first = {digit: position(digit, {rows: row}) for digit in digits}
        last = min(digits, key=lambda digit: digit.below)
        return [
            {**point, **first, rows: vectors.offset(row, i), last: vectors.offset(first[last], i)} for i in range(count)
        ]

    def at_depth(self, k: ir.Value, start: ir.Value | None = None) -> Point:
        """Where k is; with `start`, in the run that begins there."""
        depth = self.contraction.depth
        digits = self._digits(depth)
        found = {digit: position(digit, {depth: k if start is None else start}) for digit in digits}
        if start is not None:
            found[min(digits, key=lambda digit: digit.below)] = arith.subi(k, start)
        return {depth: k, **found}

    @property
    def run(self) -> int:
        """How many k are evenly spaced from a multiple of their number on, where that is to be made use of; else 0.

        Rows that are side by side have one address, which may be found for each k. Those of others are too many for
        that.
        """
        digits = self._digits(self.contraction.depth)
        is_one_address = (
            not self._digits(self.contraction.rows) and self.contraction.left.stride(self.contraction.rows) == 1
        )
        return 0 if is_one_address or not digits else min(digits, key=lambda digit: digit.below).size

    def _digits(self, dim: int | None) -> list[Digit]:
        return [own for own in self.contraction.left.dims if isinstance(own, Digit) and own.dim == dim]


@dataclass(frozen=True)
class LeftPart:
    """The rows of a tile in the left operand, at `points`, in a part of k: from `depth[0]` to before `depth[1]`.

    With `start`, the part is of the run of k that begins there.
    """

    rows: LeftRows
    points: Sequence[Point]
    depth: tuple[ir.Value, ir.Value]
    start: ir.Value | None = None
    _found: dict[ir.Value, Point] = field(default_factory=dict)

    def load(self, i: int, k: ir.Value) -> ir.Value:
        """The number at k of row i. Where k is, is found once."""
        if k not in self._found:
            self._found[k] = self.rows.at_depth(k, self.start)
        return self.rows.contraction.left.load({**self.points[i], **self._found[k]}, None, 1, 1)

"""Strided views of memory: what slices, transposes and reshapes are once data has a place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import ir
from blu.passes.host.bufferize.intervals import element_bytes
from blu.plan.schema import ALIGNMENT


@dataclass(eq=False)
class Root:
    """One piece of memory: a function argument, a constant, or a buffer that some kernel fills.

    `memref` is its value in the rewritten function, of `shape` and contiguous.
    """

    memref: ir.Value
    shape: tuple[int, ...]
    is_writable: bool
    # For an input or output its position; None for the arena.
    input: int | None = None
    output: int | None = None
    # Whether a donated argument already holds a result.
    is_taken: bool = False


@dataclass(frozen=True)
class View:
    """Elements of a root at `offset` + sum of index * stride, all counted in elements."""

    root: Root
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def element_type(self) -> ir.Type:
        return ir.MemRefType(self.root.memref.type).element_type

    @property
    def size(self) -> int:
        return product(self.shape)

    @property
    def is_contiguous(self) -> bool:
        expected = contiguous_strides(self.shape)
        return all(a == b or size == 1 for a, b, size in zip(self.strides, expected, self.shape, strict=True))

    @property
    def is_whole(self) -> bool:
        """Whether the view is all of its root in the root's order."""
        return self.offset == 0 and self.size == product(self.root.shape) and self.is_contiguous

    @property
    def start(self) -> int:
        """The byte of its root that it begins at."""
        return self.offset * element_bytes(self.element_type)

    @property
    def is_placed(self) -> bool:
        """Whether its elements lie in order, from the beginning of a line of memory on."""
        return self.is_contiguous and self.start % ALIGNMENT == 0

    @property
    def is_part(self) -> bool:
        """Whether it is placed like memory of its own, behind the root's beginning."""
        return self.offset > 0 and self.is_placed

    def is_at(self, other: View) -> bool:
        """Whether it is where another one is: of a dimension of one element, strides say nothing."""
        if (self.root, self.offset, self.shape) != (other.root, other.offset, other.shape):
            return False
        steps = zip(self.strides, other.strides, self.shape, strict=True)
        return all(own == others or size == 1 for own, others, size in steps)

    def memref_type(self) -> ir.MemRefType:
        """The memref type with the layout written out only where it is not the plain one.

        What begins at a line of memory and lies in order is memory of its own (`plan.part`).
        """
        if self.size == 0 or self.is_part or (self.is_contiguous and self.offset == 0):
            return ir.MemRefType.get(self.shape, self.element_type)
        layout = ir.StridedLayoutAttr.get(self.offset, list(self.strides))
        return ir.MemRefType.get(self.shape, self.element_type, layout=layout)


class ViewTable(dict[ir.Value, View]):
    """The view of each value, and the values of each root."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[Root, list[ir.Value]] = {}

    def __setitem__(self, value: ir.Value, view: View) -> None:
        super().__setitem__(value, view)
        self._values.setdefault(view.root, []).append(value)

    def values_in(self, root: Root, start: int = 0) -> list[ir.Value]:
        """The values that live in a root, in the order in which they came there, from number `start` on."""
        return self._values.get(root, [])[start:]


def whole(root: Root) -> View:
    """All elements of a root in their own order."""
    return View(root, 0, root.shape, contiguous_strides(root.shape))


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides in elements (sizes of 0 count as 1)."""
    strides = [1] * len(shape)
    for dim in range(len(shape) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * max(shape[dim + 1], 1)
    return tuple(strides)


def transpose(view: View, permutation: Sequence[int]) -> View:
    """The view with its dimensions in another order."""
    return replace(
        view,
        shape=tuple(view.shape[dim] for dim in permutation),
        strides=tuple(view.strides[dim] for dim in permutation),
    )


def extract_slice(view: View, offsets: Sequence[int], sizes: Sequence[int], strides: Sequence[int]) -> View:
    """The elements at offsets + index * strides of a view."""
    start = sum(offset * stride for offset, stride in zip(offsets, view.strides, strict=True))
    steps = tuple(step * stride for step, stride in zip(strides, view.strides, strict=True))
    return View(view.root, view.offset + start, tuple(sizes), steps)


def expand(view: View, groups: Sequence[Sequence[int]], shape: Sequence[int]) -> View:
    """Split each dimension into a group of dimensions; always possible without moving data."""
    if not view.shape:
        return replace(view, shape=tuple(shape), strides=(1,) * len(shape))
    strides = [0] * len(shape)
    for dim, group in enumerate(groups):
        step = view.strides[dim]
        for target in reversed(group):
            strides[target] = step
            step *= max(shape[target], 1)
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def collapse(view: View, groups: Sequence[Sequence[int]]) -> View | None:
    """Merge groups of dimensions; None where their elements are not evenly spaced in memory."""
    shape, strides = [], []
    for group in groups:
        real = [dim for dim in group if view.shape[dim] != 1]
        even = all(view.strides[left] == view.strides[right] * view.shape[right] for left, right in pairwise(real))
        if not even and 0 not in view.shape:
            return None
        shape.append(product(view.shape[dim] for dim in group))
        strides.append(view.strides[real[-1]] if real else 1)
    return replace(view, shape=tuple(shape), strides=tuple(strides))


def reassociation(operation: ir.Operation) -> list[list[int]]:
    """The groups of a collapse_shape or expand_shape."""
    return [
        [ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in operation.attributes["reassociation"]
    ]


def static(operation: ir.Operation, name: str) -> list[int]:
    """A static_offsets, static_sizes or static_strides attribute of a slice op."""
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _view_collapse(operation: ir.Operation, view: View) -> View | None:
    return collapse(view, reassociation(operation))


def _view_expand(operation: ir.Operation, view: View) -> View | None:
    shape = ir.RankedTensorType(operation.results[0].type).shape
    return expand(view, reassociation(operation), list(shape))


def _view_slice(operation: ir.Operation, view: View) -> View | None:
    parts = [static(operation, name) for name in ("static_offsets", "static_sizes", "static_strides")]
    return extract_slice(view, *parts)


def _view_transpose(operation: ir.Operation, view: View) -> View | None:
    return transpose(view, list(ir.DenseI64ArrayAttr(operation.attributes["permutation"])))


def _view_windows(operation: ir.Operation, view: View) -> View | None:
    sizes, steps = (tuple(ir.DenseI64ArrayAttr(operation.attributes[name])) for name in ("sizes", "steps"))
    *lead, row, along = view.strides
    start = ir.IntegerAttr(operation.attributes["start"]).value * row
    shape = (*view.shape[:-2], *sizes, view.shape[-1])
    return View(view.root, view.offset + start, shape, (*lead, *(step * row for step in steps), along))


# How each view op changes a view; a rule gives None where data must be moved.
VIEW_RULES: dict[str, Callable[[ir.Operation, View], View | None]] = {
    "tensor.collapse_shape": _view_collapse,
    "tensor.expand_shape": _view_expand,
    "tensor.extract_slice": _view_slice,
    "linalg.transpose": _view_transpose,
    "blu.row_windows": _view_windows,
    "blu.barrier": lambda operation, view: view,
}

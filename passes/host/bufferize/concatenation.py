"""Values that only become parts of a larger one: the kernels that make them can write them where they belong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.passes.host.bufferize import views
from blu.passes.host.bufferize.uses import is_empty
from blu.passes.host.bufferize.views import View
from blu.passes.loops.fuse.loops import is_inner_insertion


@dataclass(frozen=True)
class JoinedPart:
    """A value that is used once, seen through the views `way`, by `insertion`, and not written over there.

    `first` is the insertion that begins the larger value, with what is empty yet.
    """

    first: ir.Operation
    insertion: ir.Operation
    way: Sequence[ir.Operation]

    def place_in(self, whole: View) -> View | None:
        """The memory of the value, of its own shape, in that of the larger one; None where it is no view of it."""
        view: View | None = inserted_into(self.insertion, whole)
        for operation in reversed(self.way):
            view = view and _SEEN_BACKWARD[operation.name](operation, view)
        return view


def part_of(value: ir.Value) -> JoinedPart | None:
    """The larger value that a value only becomes a part of, if it does."""
    way: list[ir.Operation] = []
    while (use := _only_use(value)) is not None and use.operand_number == 0:
        user = use.owner.operation
        if is_inner_insertion(user):
            return _part(user, way)
        if user.name not in _SEEN_BACKWARD:
            return None
        way.append(user)
        value = user.results[0]
    return None


def inserted_into(insertion: ir.Operation, target: View) -> View:
    """The part of its target that an insertion writes."""
    parts = [views.static(insertion, name) for name in ("static_offsets", "static_sizes", "static_strides")]
    return views.extract_slice(target, *parts)


def beginning_of(insertion: ir.Operation) -> ir.Operation | None:
    """The insertion into an empty value that begins what this one goes on with, if nothing else reads it on the way."""
    while not is_empty(target := insertion.operands[1]):
        if isinstance(target.owner, ir.Block) or not is_inner_insertion(target.owner) or _only_use(target) is None:
            return None
        insertion = target.owner
    return insertion


def end_of(insertion: ir.Operation) -> ir.Operation:
    """The last of the insertions that go on with what this one gives."""
    *_, last = _chain(insertion)
    return last


def _part(insertion: ir.Operation, way: Sequence[ir.Operation]) -> JoinedPart | None:
    """The part that an insertion fills, where the insertions around it leave it alone."""
    first = beginning_of(insertion)
    if first is None or not all(_are_apart(insertion, other) for other in _chain(first) if other != insertion):
        return None
    return JoinedPart(first, insertion, way)


def _chain(insertion: ir.Operation) -> Iterator[ir.Operation]:
    """An insertion and those that go on with what it gives."""
    yield insertion
    while (use := _only_use(insertion.results[0])) is not None and use.operand_number == 1:
        insertion = use.owner.operation
        if not is_inner_insertion(insertion):
            return
        yield insertion


def _only_use(value: ir.Value) -> ir.OpOperand | None:
    uses = list(value.uses)
    return uses[0] if len(uses) == 1 else None


def _are_apart(one: ir.Operation, other: ir.Operation) -> bool:
    """Whether two insertions into one value are at different places: along some dim one ends before the other."""
    ranges = zip(_ranges(one), _ranges(other), strict=True)
    return any(first[1] <= second[0] or second[1] <= first[0] for first, second in ranges)


def _ranges(insertion: ir.Operation) -> list[tuple[int, int]]:
    parts = [views.static(insertion, name) for name in ("static_offsets", "static_sizes", "static_strides")]
    return [(start, start + (size - 1) * step + 1) for start, size, step in zip(*parts, strict=True)]


def _before_collapse(operation: ir.Operation, view: View) -> View | None:
    return views.expand(view, views.reassociation(operation), _shape_before(operation))


def _before_expand(operation: ir.Operation, view: View) -> View | None:
    return views.collapse(view, views.reassociation(operation))


def _before_transpose(operation: ir.Operation, view: View) -> View | None:
    permutation = list(ir.DenseI64ArrayAttr(operation.attributes["permutation"]))
    return views.transpose(view, [permutation.index(dim) for dim in range(len(permutation))])


def _shape_before(operation: ir.Operation) -> list[int]:
    return list(ir.RankedTensorType(operation.operands[0].type).shape)


# What the operand of each view op is, given what its result is.
_SEEN_BACKWARD: dict[str, Callable[[ir.Operation, View], View | None]] = {
    "tensor.collapse_shape": _before_collapse,
    "tensor.expand_shape": _before_expand,
    "linalg.transpose": _before_transpose,
    "blu.barrier": lambda operation, view: view,
}

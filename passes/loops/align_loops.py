"""The pass that gives elementwise loops which read each other the same dimensions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import mul

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.loops.expand_loops import expanded, groups_of
from blu.passes.loops.fuse.loops import VIEWS, LoopNest, loop_nest
from blu.passes.loops.lower_to_linalg.generic import RESHAPES, reshape, shape_of

LOOPS = ("linalg.generic", "linalg.contract")


@dataclass(frozen=True)
class AlignLoops(Pass):
    """Elementwise loops that read each other through reshapes get the dimensions of all of them, so that they fuse.

        %1 = linalg.generic {(h, t, i)} ins(%x, %cos : 1024x32xf32) outs(24x1024x32xf32) { mulf }
        %2 = tensor.collapse_shape %1 : 24x1024x32xf32 into 24576x32xf32
        %3 = linalg.generic {(j, i)} ins(%2, ..) outs(24576x32xf32) { addf }

    becomes

        %1 = linalg.generic {(h, t, i)} ins(%x, %cos : 1024x32xf32) outs(24x1024x32xf32) { mulf }
        %3 = linalg.generic {(h, t, i)} ins(%1, ..) outs(24x1024x32xf32) { addf }

    Dimensions of a transpose that would have to be copied to be walked along as one stay several. This is done where
    no other loops read the results, or make what is read: those would fuse with the loops as they are.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in [item for item in find(module, func.FuncOp) if not is_kernel(item) and not item.is_external]:
            aligned = [_align(nests) for nests in list(_connected(function.entry_block))]
            if any(aligned):
                self.count("loops", sum(aligned))
                _erase_unused_views(function.entry_block)


def _align(nests: Sequence[LoopNest]) -> int:
    """Let loops walk over the same dimensions; how many did not."""
    shape = _common_shape(nests)
    if shape is None or _are_aligned(nests, shape):
        return 0
    for operation in [nest.operation for nest in nests]:
        _walk_over(loop_nest(operation, 0), shape)
    return len(nests)


def _are_aligned(nests: Sequence[LoopNest], shape: tuple[int, ...]) -> bool:
    """Whether all loops are the same already, and those that run more than once have this shape: loops without those
    that run once would not fuse with others that have them and read the same."""
    [sizes, *others] = {tuple(nest.sizes) for nest in nests}
    return not others and tuple(size for size in sizes if size > 1) == shape


def _erase_unused_views(block: ir.Block) -> None:
    for operation in reversed([item.operation for item in block.operations if item.operation.name in RESHAPES]):
        if not list(operation.results[0].uses):
            operation.erase()


def _connected(block: ir.Block) -> Iterator[list[LoopNest]]:
    """Elementwise loops that read each other, where they are connected with no other loops, in the block's order."""
    operations = [item.operation for item in block.operations]
    nests = {item: nest for item in operations if (nest := loop_nest(item, 0)) is not None and _is_simple(nest)}
    seen: set[ir.Operation] = set()
    for operation in nests:
        if operation in seen:
            continue
        found = _reached(operation, nests)
        seen |= found
        if found <= nests.keys():
            yield [own for item, own in nests.items() if item in found]


def _is_simple(nest: LoopNest) -> bool:
    """Whether a body asks for the number of no loop, and no loop is empty."""
    if not nest.is_pointwise or not nest.sizes or 0 in nest.sizes or nest.gathers:
        return False
    body = nest.operation.regions[0].blocks[0]
    counts = any(item.operation.name == "linalg.index" for item in body.operations)
    return not counts and not any(list(body.arguments[-1 - own].uses) for own in range(len(nest.outputs)))


def _reached(start: ir.Operation, nests: Mapping[ir.Operation, LoopNest]) -> set[ir.Operation]:
    """These loops, those that they are connected with through some of `nests`, and others that are next to them."""
    found, waiting = {start}, [nests[start]]
    while waiting:
        nest = waiting.pop()
        fresh = [item for item in (*_makers(nest), *_readers(nest.operation.results)) if item not in found]
        waiting += [nests[item] for item in dict.fromkeys(fresh) if item in nests]
        found.update(fresh)
    return found


def _makers(nest: LoopNest) -> Iterator[ir.Operation]:
    """The loops that make what is read, seen through reshapes."""
    for value in nest.inputs:
        source = _reshaped(value)
        if not isinstance(source.owner, ir.Block) and source.owner.name in LOOPS:
            yield source.owner


def _readers(values: Iterable[ir.Value]) -> Iterator[ir.Operation]:
    """The loops that read values, seen through reshapes."""
    for user in [use.owner.operation for value in values for use in value.uses]:
        if user.name in RESHAPES:
            yield from _readers(user.results)
        elif user.name in LOOPS:
            yield user


def _reshaped(value: ir.Value) -> ir.Value:
    """What a value is a reshape of."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in RESHAPES:
        value = value.owner.operands[0]
    return value


def _common_shape(nests: Sequence[LoopNest]) -> tuple[int, ...] | None:
    """The coarsest dimensions of which those of all loops are products, and of transposes that are read."""
    ends = {end for nest in nests for end in _ends(nest)}
    ordered = sorted(ends, reverse=True)
    if any(outer % inner for outer, inner in pairwise(ordered)) or len({product(nest.sizes) for nest in nests}) > 1:
        return None
    return tuple(outer // inner for outer, inner in pairwise(ordered))


def _ends(nest: LoopNest) -> Iterator[int]:
    """How many elements lie between neighbours along each loop, and along what a loop would have to be copied for."""
    steps = _steps(nest.sizes)
    yield from steps
    for value, dims in zip(nest.inputs, nest.dims, strict=False):
        for loop, sizes in zip(dims or (), _turned_sizes(value), strict=False):
            yield from (steps[loop + 1] * step for step in _steps(sizes))
    for result in nest.operation.results:
        for shape in _shapes_turned(result):
            yield from _steps(shape)


def _shapes_turned(value: ir.Value) -> Iterator[tuple[int, ...]]:
    """The shapes in which a value is transposed: where that is written, they are not one dimension."""
    for user in [use.owner.operation for use in value.uses]:
        if user.name == "linalg.transpose" and user.operands[0] == value:
            yield shape_of(value)
        elif user.name in RESHAPES:
            yield from _shapes_turned(user.results[0])


def _turned_sizes(value: ir.Value) -> list[list[int]]:
    """The sizes that each dimension has become one of, if the value is made so of something that is transposed."""
    if isinstance(value.owner, ir.Block) or value.owner.name != "tensor.collapse_shape":
        return []
    view, source = value.owner, value.owner.operands[0]
    while not isinstance(source.owner, ir.Block) and source.owner.name in VIEWS:
        if source.owner.name == "linalg.transpose":
            shape = shape_of(view.operands[0])
            return [[shape[dim] for dim in group] for group in groups_of(view)]
        source = source.owner.operands[0]
    return []


def _steps(sizes: Sequence[int]) -> list[int]:
    """[2, 3, 4] as [24, 12, 4, 1]."""
    return [*accumulate(reversed(sizes), mul, initial=1)][::-1]


def _walk_over(nest: LoopNest | None, shape: Sequence[int]) -> None:
    """Put the same loops, over other dimensions, in the place of a nest."""
    assert nest is not None, "loops that are none"
    old, steps = _steps(nest.sizes), _steps(shape)
    groups = [
        [dim for dim, size in enumerate(shape) if size > 1 and inner <= steps[dim + 1] and steps[dim] <= outer]
        for outer, inner in pairwise(old)
    ]
    nest.inputs = [_reshaped(value) for value in nest.inputs]
    with ir.InsertionPoint(nest.operation), nest.operation.location:
        for value, made in zip(nest.operation.results, expanded(nest, groups, shape), strict=True):
            _show_as(value, made)
    nest.operation.erase()


def _show_as(value: ir.Value, made: ir.Value) -> None:
    """Let who reads a value, or a reshape of it, read one reshape of `made`."""
    for user in [use.owner.operation for use in value.uses]:
        if user.name in RESHAPES:
            _show_as(user.results[0], made)
    if list(value.uses):
        value.replace_all_uses_with(reshape(made, shape_of(value)))

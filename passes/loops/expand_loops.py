"""The pass that gives loops over arguments the dimensions in which their result is read."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir, linalg
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import is_kernel
from blu.passes.loops.fuse.loops import VIEWS, LoopNest, loop_nest
from blu.passes.loops.lower_to_linalg.generic import (
    PARALLEL,
    empty,
    iterators,
    maps_attribute,
    projection,
    reshape,
    shape_of,
)


@dataclass(frozen=True)
class ExpandLoops(Pass):
    """Elementwise loops whose result is read with more dimensions walk over these, so that they fuse with who reads it.

        %1 = linalg.generic {(i, j)} ins(%ids : 65536xi32) outs(65536x768xf32) { tensor.extract %table[id, j] }
        %2 = tensor.expand_shape %1 : 65536x768xf32 into 64x1024x768xf32
        %3 = linalg.generic {(b, t, c)} ins(%2, %positions : 1024x768xf32) { add }

    becomes

        %0 = tensor.expand_shape %ids : 65536xi32 into 64x1024xi32
        %2 = linalg.generic {(b, t, c)} ins(%0 : 64x1024xi32) outs(64x1024x768xf32) { tensor.extract %table[id, c] }
        %3 = linalg.generic {(b, t, c)} ins(%2, %positions : 1024x768xf32) { add }

    This is done where nothing but arguments is read: other loops have the dimensions of those that they fuse with.
    """

    level = "linalg"

    def run(self, module: ir.Module) -> None:
        for function in [item for item in find(module, func.FuncOp) if not is_kernel(item) and not item.is_external]:
            for operation in [item.operation for item in function.entry_block.operations]:
                view = _expansion(operation)
                nest = None if view is None else loop_nest(operation, 0)
                if view is not None and nest is not None and _can_expand(nest, view):
                    _expand(nest, view)
                    self.count("loops")


def _expansion(operation: ir.Operation) -> ir.Operation | None:
    """The only op that reads the result of loops, if that gives it more dimensions."""
    if operation.name != "linalg.generic" or len(operation.results) != 1:
        return None
    users = [use.owner.operation for use in operation.results[0].uses]
    return users[0] if len(users) == 1 and users[0].name == "tensor.expand_shape" else None


def _can_expand(nest: LoopNest, view: ir.Operation) -> bool:
    if not nest.is_pointwise or 0 in nest.sizes:
        return False
    shape = tuple(ir.RankedTensorType(view.results[0].type).shape)
    readers = [loop_nest(use.owner.operation, 0) for use in view.results[0].uses]
    are_alike = all(reader is not None and reader.is_pointwise and reader.sizes == shape for reader in readers)
    return are_alike and all(_is_given(value) for value, _ in nest.reads) and not _counts(nest, groups_of(view))


def _is_given(value: ir.Value) -> bool:
    """Whether a value is an argument or a number, seen as it may be."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return isinstance(value.owner, ir.Block) or not isinstance(value.type, ir.RankedTensorType)


def groups_of(view: ir.Operation) -> list[list[int]]:
    """The dimensions that each one becomes."""
    groups = ir.ArrayAttr(view.attributes["reassociation"])
    return [[ir.IntegerAttr(dim).value for dim in ir.ArrayAttr(group)] for group in groups]


def _counts(nest: LoopNest, groups: Sequence[Sequence[int]]) -> bool:
    """Whether a body asks for the number of a loop that becomes several."""
    block = nest.operation.regions[0].blocks[0]
    loops = [_loop_of(item.operation) for item in block.operations if item.operation.name == "linalg.index"]
    return any(len(groups[loop]) != 1 for loop in loops)


def _loop_of(index: ir.Operation) -> int:
    return ir.IntegerAttr(index.attributes["dim"]).value


def _expand(nest: LoopNest, view: ir.Operation) -> None:
    """Put the same loops, over the dimensions of the view, in the place of both."""
    with ir.InsertionPoint(view), nest.operation.location:
        (result,) = expanded(nest, groups_of(view), shape_of(view.results[0]))
    view.results[0].replace_all_uses_with(result)
    view.erase()
    nest.operation.erase()


def expanded(nest: LoopNest, groups: Sequence[Sequence[int]], shape: Sequence[int]) -> list[ir.Value]:
    """The results of elementwise loops over `shape`: each loop of the nest, which gives its body, becomes a group."""
    inputs, maps = [], []
    for value, dims in zip(nest.inputs, nest.dims, strict=False):
        assert dims is not None, "an elementwise loop that reads a range"
        loops = [loop for dim in dims for loop in groups[dim]]
        inputs.append(reshape(value, [shape[loop] for loop in loops]))
        maps.append(projection(len(shape), loops))
    into = [empty(shape, ir.RankedTensorType(value.type).element_type) for value in nest.outputs]
    maps += [projection(len(shape), range(len(shape)))] * len(into)
    types = [value.type for value in into]
    made = linalg.GenericOp(types, inputs, into, maps_attribute(maps), iterators([PARALLEL] * len(shape)))
    nest.operation.regions[0].blocks[0].append_to(made.regions[0])
    for item in made.regions[0].blocks[0].operations:
        if item.operation.name == "linalg.index":
            (dim,) = groups[_loop_of(item.operation)]
            item.operation.attributes["dim"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim)
    return list(made.results)

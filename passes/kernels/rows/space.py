"""The iteration space that a group of linalg.generic ops shares.

Every op counts its loops for itself. Where one op reads what another produced, loops are the same: that gives group
dimensions, one number for the "same" loop in all ops. Dimensions of size one that nobody reduces disappear.
"""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.remembering import once

# Tensor dimension -> loop (or group dimension) that indexes it; None where the index is always 0.
Access = tuple[int | None, ...]
PLAIN = ("tensor.empty", "arith.constant")


class Refused(Exception):  # noqa: N818 - not an error: the answer "no" of an analysis, with its reason
    """The group has a form that the row emitter does not do."""


@dataclass(frozen=True)
class RowNode:
    """One linalg.generic. `accesses` (one per operand, inputs first) and `dims` (one per loop) are in group dimensions
    after `share_space`; before, accesses are in loops and `dims` is empty."""

    operation: ir.Operation
    sizes: tuple[int, ...]
    reduced: tuple[bool, ...]
    accesses: tuple[Access, ...]
    num_inputs: int
    dims: tuple[int | None, ...] = ()

    @property
    def body(self) -> ir.Block:
        return self.operation.regions[0].blocks[0]

    @property
    def is_reduction(self) -> bool:
        return any(self.reduced)

    @property
    def domain(self) -> frozenset[int]:
        return frozenset(dim for dim in self.dims if dim is not None)

    @property
    def columns(self) -> frozenset[int]:
        """The dimensions that this node reduces."""
        return frozenset(dim for dim, reduced in zip(self.dims, self.reduced, strict=True) if reduced)

    def result_access(self, number: int) -> Access:
        return self.accesses[self.num_inputs + number]


def read_node(operation: ir.Operation) -> RowNode:
    """Read maps, sizes and iterator types of a linalg.generic."""
    attributes = operation.attributes
    accesses, reduced = _accesses(attributes["indexing_maps"]), _are_reduced(attributes["iterator_types"])
    sizes = _loop_sizes(operation, accesses, len(reduced))
    return RowNode(operation, sizes, reduced, accesses, len(operation.operands) - len(operation.results))


@once
def _accesses(maps: ir.Attribute) -> tuple[Access, ...]:
    return tuple(_access(ir.AffineMapAttr(item).value) for item in ir.ArrayAttr(maps))


@once
def _are_reduced(iterators: ir.Attribute) -> tuple[bool, ...]:
    return tuple("reduction" in str(iterator) for iterator in ir.ArrayAttr(iterators))


def _access(map_: ir.AffineMap) -> Access:
    loops: list[int | None] = []
    for result in map_.results:
        if isinstance(result, ir.AffineDimExpr):
            loops.append(result.position)
        elif isinstance(result, ir.AffineConstantExpr) and result.value == 0:
            loops.append(None)
        else:
            raise Refused(f"the indexing map {map_} is not a projected permutation")
    used = [loop for loop in loops if loop is not None]
    if len(used) != len(set(used)):
        raise Refused(f"the indexing map {map_} uses a loop twice")
    return tuple(loops)


def _loop_sizes(operation: ir.Operation, accesses: Sequence[Access], loops: int) -> tuple[int, ...]:
    sizes = [1] * loops
    for operand, access in zip(operation.operands, accesses, strict=True):
        for extent, loop in zip(shape_of(operand), access, strict=True):
            if loop is not None:
                sizes[loop] = extent
    return tuple(sizes)


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """The shape of a tensor; empty for a scalar."""
    return tuple(value.type.shape) if isinstance(value.type, ir.RankedTensorType) else ()


class _Union:
    """Union-find over (node number, loop)."""

    def __init__(self, nodes: Sequence[RowNode]):
        self.nodes = nodes
        self.parents = {
            (number, loop): (number, loop) for number, node in enumerate(nodes) for loop in range(len(node.sizes))
        }

    def find(self, key: tuple[int, int]) -> tuple[int, int]:
        while self.parents[key] != key:
            self.parents[key] = self.parents[self.parents[key]]
            key = self.parents[key]
        return key

    def join(self, left: tuple[int, int], right: tuple[int, int]) -> None:
        sizes = [self.nodes[number].sizes[loop] for number, loop in (left, right)]
        if sizes[0] != sizes[1]:
            raise Refused(f"loops of sizes {sizes[0]} and {sizes[1]} meet")
        self.parents[self.find(left)] = self.find(right)

    def join_accesses(self, left: tuple[int, Access], right: tuple[int, Access]) -> None:
        """Join the loops by which two ops index one tensor."""
        for first, second in zip(left[1], right[1], strict=True):
            if first is not None and second is not None:
                self.join((left[0], first), (right[0], second))

    def try_to_join(self, left: tuple[int, Access], right: tuple[int, Access]) -> None:
        """Join them unless some op would then walk one dimension with two of its loops."""
        before = dict(self.parents)
        self.join_accesses(left, right)
        if self.parents != before and not all(self._is_proper(number) for number in range(len(self.nodes))):
            self.parents = before

    def _is_proper(self, number: int) -> bool:
        loops = range(len(self.nodes[number].sizes))
        return len({self.find((number, loop)) for loop in loops}) == len(loops)


def share_space(nodes: Sequence[RowNode]) -> tuple[list[RowNode], list[int]]:
    """Nodes with accesses in group dimensions, and the size of each dimension.

    Loops are joined where a value passes from op to op. Loops that no value ties are free to run together in any way:
    those that read the same tensor, or look like those of the widest op, are joined if that makes no contradiction.
    """
    union = _Union(nodes)
    makers = {result: (number, place) for number, node in enumerate(nodes)
              for place, result in enumerate(node.operation.results)}  # fmt: skip
    readers: dict[ir.Value, tuple[int, Access]] = {}
    for number, node in enumerate(nodes):
        for operand, access in zip(node.operation.operands, node.accesses, strict=True):
            if operand in makers:
                producer, place = makers[operand]
                union.join_accesses((producer, nodes[producer].result_access(place)), (number, access))
    for number, node in enumerate(nodes):
        for operand, access in zip(node.operation.operands, node.accesses, strict=True):
            if operand not in makers:
                union.try_to_join(readers.setdefault(operand, (number, access)), (number, access))
    widest = max(range(len(nodes)), key=lambda number: len(nodes[number].sizes))
    for number, node in enumerate(nodes):
        loops = tuple(range(len(node.sizes)))
        if node.sizes == nodes[widest].sizes:
            union.try_to_join((widest, loops), (number, loops))
    dims, sizes = _number_dims(union, nodes)
    shared = [_renumber(node, dims[number]) for number, node in enumerate(nodes)]
    for node in shared:
        _check_reads(node, shared, makers)
    return shared, sizes


def _number_dims(union: _Union, nodes: Sequence[RowNode]) -> tuple[list[tuple[int | None, ...]], list[int]]:
    """Group dimension of every loop. Loops of size one that are not reduced get none: their index is 0."""
    reduced = {union.find((number, loop)) for number, node in enumerate(nodes)
               for loop, flag in enumerate(node.reduced) if flag}  # fmt: skip
    numbers: dict[tuple[int, int], int] = {}
    sizes: list[int] = []
    dims: list[tuple[int | None, ...]] = []
    for number, node in enumerate(nodes):
        mine: list[int | None] = []
        for loop, size in enumerate(node.sizes):
            root = union.find((number, loop))
            if size == 1 and root not in reduced:
                mine.append(None)
                continue
            if root not in numbers:
                numbers[root] = len(sizes)
                sizes.append(size)
            mine.append(numbers[root])
        dims.append(tuple(mine))
    return dims, sizes


def _renumber(node: RowNode, dims: tuple[int | None, ...]) -> RowNode:
    used = [dim for dim in dims if dim is not None]
    if len(used) != len(set(used)):
        raise Refused(f"{node.operation.location} walks one dimension of the group with two loops")
    accesses = tuple(tuple(None if loop is None else dims[loop] for loop in access) for access in node.accesses)
    return RowNode(node.operation, node.sizes, node.reduced, accesses, node.num_inputs, dims)


def _check_reads(node: RowNode, nodes: Sequence[RowNode], makers: dict[ir.Value, tuple[int, int]]) -> None:
    for operand, access in zip(node.operation.operands, node.accesses, strict=True):
        if operand not in makers:
            continue
        producer, place = makers[operand]
        if nodes[producer].result_access(place) != access:
            raise Refused(f"{node.operation.location} reads a value of the group at another place than it is made")

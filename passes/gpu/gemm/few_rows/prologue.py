"""Rows that a product of few rows makes before it multiplies them: their normalization, in registers.

The lanes of a block have all elements of the left factor between them once. So they can compute it from what it is made
of: elementwise, and from sums along k, which the lanes of a row, then the warps, add up in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, func, ir, vector
from blu.passes.framework.families import MAKES_ROWS
from blu.passes.gpu.gemm.output import aligned_accesses
from blu.passes.gpu.gemm.problem import Product
from blu.passes.kernels.contraction import Contraction, IndexedBuffer, maps_of
from blu.passes.kernels.inline import clone_operation, inline_scalar, inline_vector
from blu.passes.loops.fuse.loops import loop_nest

Dims = tuple[int | None, ...]
_MADE_BY = ("linalg.generic", "linalg.fill", "tensor.empty", "arith.constant")
Combine = Callable[[ir.Value, ir.Value], ir.Value]
Reduce = Callable[[list[ir.Value], Combine], list[ir.Value]]
"""Combines what the lanes of a block have of each tile of rows."""


def makes_rows(kernel: func.FuncOp) -> bool:
    """Whether a kernel of a product makes its left factor."""
    return MAKES_ROWS in kernel.attributes


def made_factor(operation: ir.Operation) -> ir.Value:
    """The factor of a linalg.contract that its kernel makes."""
    return next(value for value in list(operation.operands)[:2] if _is_made(value))


def _is_made(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "linalg.generic"


def with_left(
    kernel: func.FuncOp, operation: ir.Operation, buffers: Mapping[ir.Value, ir.Value]
) -> dict[ir.Value, ir.Value]:
    """The buffers of a kernel, and for a factor that it makes, what stands for it: an input of the same shape."""
    if not makes_rows(kernel):
        return dict(buffers)
    left = made_factor(operation)
    shape = ir.RankedTensorType(left.type).shape
    return {**buffers, left: next(item for item in buffers.values() if ir.MemRefType(item.type).shape == shape)}


def as_multiplied(product: Product) -> Product:
    """A product whose left factor has the elements that are multiplied, whatever stands for it."""
    operands = product.contraction.operation.operands
    left = operands[1] if product.contraction.columns in maps_of(product.contraction.operation)[0] else operands[0]
    return replace(product, left=replace(product.left, element=ir.RankedTensorType(left.type).element_type))


def can_make(rows: ir.Block) -> bool:
    """Whether the body of a kernel of rows is what comes before a product: one result, sums along k, no gathers."""
    *operations, end = (item.operation for item in rows.operations)
    if len(end.operands) != 1 or not _is_made(end.operands[0]):
        return False
    type_ = ir.RankedTensorType(end.operands[0].type)
    inputs = [argument.type for argument in rows.arguments]
    loops = [operation for operation in operations if operation.name == "linalg.generic"]
    sums = [operation for operation in loops if _is_sum(operation)]
    return (
        len(type_.shape) == 2
        and any(ir.RankedTensorType(item).shape == type_.shape for item in inputs)
        and bool(sums)
        and all(operation.name in _MADE_BY for operation in operations)
        and all(operation in sums or _is_plain(operation) for operation in loops)
        and all(_adds(operation) for operation in sums)
    )


def _is_plain(operation: ir.Operation) -> bool:
    """Whether an op computes one result, element by element, from what it reads alone."""
    nest, arguments = loop_nest(operation, 0), operation.regions[0].blocks[0].arguments
    if nest is None or len(operation.results) != 1 or not nest.is_pointwise or nest.gathers:
        return False
    return not _names_places(operation) and not [*arguments[len(arguments) - 1].uses]


def _names_places(operation: ir.Operation) -> bool:
    return any(inner.operation.name == "linalg.index" for inner in operation.regions[0].blocks[0].operations)


def _is_sum(operation: ir.Operation) -> bool:
    return any("reduction" in str(item) for item in operation.attributes["iterator_types"])


def _adds(operation: ir.Operation) -> bool:
    """Whether an op sums f32 along the inner one of two loops, from 0 on."""
    nest, start = loop_nest(operation, 0), operation.operands[len(operation.operands) - 1]
    if nest is None or not nest.is_row_reduction or nest.gathers or _names_places(operation):
        return False
    if len(nest.sizes) != 2 or len(operation.results) != 1:
        return False
    block = operation.regions[0].blocks[0]
    combiner, carried = _combiner(operation), block.arguments[len(block.arguments) - 1]
    is_one_sum = combiner.name == "arith.addf" and [*combiner.operands].count(carried) == 1 == len([*carried.uses])
    return is_one_sum and str(start.type.element_type) == "f32" and _is_zero(start)


def _combiner(operation: ir.Operation) -> ir.Operation:
    """The op that adds an element to what has been added up."""
    *_, end = operation.regions[0].blocks[0].operations
    return end.operation.operands[0].owner.operation


def _is_zero(start: ir.Value) -> bool:
    if isinstance(start.owner, ir.Block) or start.owner.name != "linalg.fill":
        return False
    number = start.owner.operands[0].owner
    return number.name == "arith.constant" and ir.FloatAttr(number.attributes["value"]).value == 0.0


@dataclass(frozen=True)
class Prologue:
    """What makes the left factor of a contraction, `left`; `buffers` are the kernel's inputs."""

    contraction: Contraction
    left: ir.Value
    buffers: Mapping[ir.Value, ir.Value]

    @property
    def sums(self) -> int:
        """How many sums along k there are."""
        return sum(_is_sum(operation) for operation, _ in self._walk() if operation.name == "linalg.generic")

    @property
    def reads(self) -> list[tuple[ir.Value, Dims]]:
        """The inputs that are read, and the dims of the contraction that these follow."""
        found = {(value, dims): None for operation, operands in self._walk() for value, dims in operands
                 if value in self.buffers}  # fmt: skip
        return list(found)

    def _walk(self) -> Iterator[tuple[ir.Operation, list[tuple[ir.Value, Dims]]]]:
        """Each op once, with its operands."""
        waiting, seen = [(self.left, self.contraction.left.dims)], set()
        while waiting:
            value, dims = waiting.pop()
            if value in self.buffers or (value.owner.operation, dims) in seen:
                continue
            seen.add((value.owner.operation, dims))
            operands = operands_at(value.owner.operation, dims, self.contraction)
            yield value.owner.operation, operands
            waiting.extend(operands)


def operands_at(operation: ir.Operation, dims: Dims, contraction: Contraction) -> list[tuple[ir.Value, Dims]]:
    """The tensors that an op reads where its result is asked for at `dims`; loops that sum go along k."""
    if operation.name != "linalg.generic":
        return []
    *maps, own = maps_of(operation)
    loops = {loop: dim for loop, dim in zip(own, dims, strict=True) if loop is not None}
    if _is_sum(operation):
        loops[1] = contraction.depth
    return [
        (operand, tuple(None if loop is None else loops.get(loop) for loop in map_))
        for operand, map_ in zip(list(operation.operands)[:-1], maps, strict=True)
    ]


@dataclass(frozen=True)
class DepthPlace:
    """Where a lane is along k in a step: the index of the first of its k, and whether it is there, if it may not be."""

    index: ir.Value
    is_there: ir.Value | None


@dataclass
class MadeRows:
    """Computes a lane's share of the left factor: `lanes` k at a time from each of `places`, of each of `rows`.

    `rows` are the indices of the rows that it has, one of each tile. `reduce` combines what all lanes have.
    """

    prologue: Prologue
    rows: Sequence[ir.Value]
    places: Sequence[DepthPlace]
    lanes: int
    reduce: Reduce
    done: dict[tuple[ir.Value, Dims, int, int], ir.Value] = field(default_factory=dict)

    def read(self) -> None:
        """Read all inputs, before anything is computed."""
        for value, dims in self.prologue.reads:
            for tile in range(len(self.rows)):
                for step in range(len(self.places)):
                    self.value(value, dims, tile, step)

    def left(self, tile: int, step: int) -> ir.Value:
        """The lane's elements of the left factor, a vector."""
        return self.value(self.prologue.left, self.prologue.contraction.left.dims, tile, step)

    def value(self, tensor: ir.Value, dims: Dims, tile: int, step: int) -> ir.Value:
        """A vector where a tensor follows k, else a scalar."""
        contraction = self.prologue.contraction
        key = tensor, dims, tile if contraction.rows in dims else 0, step if contraction.depth in dims else 0
        if key not in self.done:
            if tensor in self.prologue.buffers:
                self.done[key] = self._load(tensor, dims, tile, step)
            elif _is_sum(tensor.owner.operation):
                for number, total in enumerate(self._sum(tensor.owner.operation, dims)):
                    self.done[tensor, dims, number if contraction.rows in dims else 0, 0] = total
            else:
                self.done[key] = self._compute(tensor.owner.operation, dims, tile, step)
        return self.done[key]

    def _load(self, tensor: ir.Value, dims: Dims, tile: int, step: int) -> ir.Value:
        contraction = self.prologue.contraction
        point = {contraction.rows: self.rows[tile], contraction.depth: self.places[step].index}
        with aligned_accesses():
            operand = IndexedBuffer(self.prologue.buffers[tensor], dims)
            loaded = operand.load(point, contraction.depth, self.lanes, self.lanes)  # pyright: ignore[reportArgumentType]
        return loaded

    def _compute(self, operation: ir.Operation, dims: Dims, tile: int, step: int) -> ir.Value:
        arguments = self._arguments(operation, dims, tile, step)
        block = operation.regions[0].blocks[0]
        if self.prologue.contraction.depth in dims:
            return inline_vector(block, [*arguments, None], self.lanes)[0]  # pyright: ignore[reportArgumentType]
        return inline_scalar(block, [*arguments, None])[0]  # pyright: ignore[reportArgumentType]

    def _arguments(self, operation: ir.Operation, dims: Dims, tile: int, step: int) -> list[ir.Value]:
        operands = operands_at(operation, dims, self.prologue.contraction)
        return [self.value(value, place, tile, step) for value, place in operands]

    def _sum(self, operation: ir.Operation, dims: Dims) -> list[ir.Value]:
        """The sums of each tile's row over all lanes."""
        combiner = _combiner(operation)

        def combine(one: ir.Value, other: ir.Value) -> ir.Value:
            return clone_operation(combiner, [one, other]).results[0]

        own = []
        for tile in range(len(self.rows)):
            totals = [self._own_sum(operation, dims, tile, step) for step in range(len(self.places))]
            total = totals[0]
            for other in totals[1:]:
                total = combine(total, other)
            own.append(total)
        return self.reduce(own, combine)

    def _own_sum(self, operation: ir.Operation, dims: Dims, tile: int, step: int) -> ir.Value:
        """The sum of a lane's elements in a step."""
        arguments = self._arguments(operation, dims, tile, step)
        start = arith.constant(ir.F32Type.get(), ir.FloatAttr.get(ir.F32Type.get(), 0.0))
        block, total = operation.regions[0].blocks[0], start
        for lane in range(self.lanes):
            elements = [_element(argument, lane) for argument in arguments]
            total = inline_scalar(block, [*elements, total])[0]
        there = self.places[step].is_there
        return total if there is None else arith.select(there, total, start)


def _element(value: ir.Value, lane: int) -> ir.Value:
    """One of a vector, or a scalar for all."""
    return vector.extract(value, [], [lane]) if isinstance(value.type, ir.VectorType) else value

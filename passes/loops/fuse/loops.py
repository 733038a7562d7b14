"""What the fuser needs to know of one op: the loops it walks, what it reads, and how."""

from __future__ import annotations

import re
from functools import cached_property

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.remembering import once

# Ops that only rename memory; they stay in the host program and bufferization resolves them.
VIEWS = (
    *("tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice", "linalg.transpose"),
    *("blu.row_windows", "blu.barrier"),
)
# Ops that a kernel repeats for itself rather than reading their result.
REPEATED = ("arith.constant", "tensor.empty", "linalg.fill")
OF_PRODUCT = "blu.of_product"
"""Of a sum over ranges of rows: a product makes what it adds up, and may do it. Ranges are those of its warps then.

So are sums over ranges of columns, which are always of a product: its tiles'."""
OF_GRADIENT = "blu.of_gradient"
"""Of a sum over ranges of the rows of each head: a gradient of attention makes what it adds up, and does it.

Its indexing maps are (h, i, j) -> (h, i, j) and (h, i, j) -> (h, i floordiv length, j), with any loops in h's place.
"""


def is_tensor(value: ir.Value) -> bool:
    """Whether a value is a tensor."""
    return isinstance(value.type, ir.RankedTensorType)


def is_repeated(operation: ir.Operation) -> bool:
    """Scalars and splats: cheaper to write again than to pass."""
    if operation.name == "arith.constant":
        return not is_tensor(operation.results[0])
    if operation.name in REPEATED:
        return True
    return bool(operation.results) and not any(is_tensor(result) for result in operation.results)


def is_inner_insertion(operation: ir.Operation) -> bool:
    """A tensor.insert_slice at fixed positions, which bufferization does by copying into place."""
    return operation.name == "tensor.insert_slice" and len(operation.operands) == 2


def captured(operation: ir.Operation) -> list[ir.Value]:
    """Values from outside that the op's regions use (a gather reads its table from inside its body)."""
    found: list[ir.Value] = []
    for region in operation.regions:
        for block in region.blocks:
            inside = set(block.arguments)
            for inner in block.operations:
                found.extend(value for value in inner.operation.operands if value not in inside)
                inside.update(inner.operation.results)
    return found


@dataclass(frozen=True)
class Loops:
    """What maps and types say of loops: the same for all ops that have these, and found once for them.

    `iterators` says which loops are reduced; a contraction has none. `types` are those of all operands.
    """

    indexing_maps: ir.Attribute
    iterators: ir.Attribute | None
    types: tuple[ir.Type, ...]
    num_inputs: int

    @cached_property
    def maps(self) -> list[ir.AffineMap]:
        return [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(self.indexing_maps)]

    @cached_property
    def dims(self) -> list[tuple[int, ...] | None]:
        return [_projected(item) for item in self.maps]

    @cached_property
    def reduced(self) -> tuple[bool, ...]:
        if self.iterators is None:
            kept = set(self.dims[-1] or ())
            return tuple(loop not in kept for loop in range(self.maps[0].n_dims))
        return tuple("reduction" in str(item) for item in ir.ArrayAttr(self.iterators))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        sizes = [0] * self.maps[0].n_dims
        for type_, dims in zip(self.types, self.dims, strict=True):
            for size, loop in zip(ir.RankedTensorType(type_).shape, dims or (), strict=False):
                sizes[loop] = size
        return tuple(sizes)

    @cached_property
    def result_sizes(self) -> tuple[int, ...]:
        if self.iterators is not None:
            return self.sizes
        return tuple(size for size, reduced in zip(self.sizes, self.reduced, strict=True) if not reduced)

    @cached_property
    def is_pointwise(self) -> bool:
        identity = tuple(range(len(self.sizes)))
        is_parallel = self.iterators is not None and not any(self.reduced)
        return is_parallel and all(dims == identity for dims in self.dims[self.num_inputs :])

    @cached_property
    def reduces_rows(self) -> bool:
        """Whether only the last loop of an op that is no contraction is reduced."""
        return self.iterators is not None and self.reduced == (False,) * (len(self.reduced) - 1) + (True,)

    @cached_property
    def is_row_reduction(self) -> bool:
        rows = tuple(range(len(self.sizes) - 1))
        return self.reduces_rows and all(dims == rows for dims in self.dims[self.num_inputs :])

    @cached_property
    def is_scan(self) -> bool:
        rank, results = len(self.reduced), self.dims[self.num_inputs :]
        whole = [dims for dims in results if dims != tuple(range(rank - 1)) and sorted(dims or ()) == [*range(rank)]]
        return self.reduces_rows and bool(whole)

    @cached_property
    def range_length(self) -> int:
        if len(self.maps) != 2 or self.dims[0] != (0, 1) or (self.maps[1].n_dims, len(self.maps[1].results)) != (2, 2):
            return 0
        row, column = self.maps[1].results
        if not isinstance(row, ir.AffineFloorDivExpr) or column != ir.AffineExpr.get_dim(1):
            return 0
        known = row.lhs == ir.AffineExpr.get_dim(0) and isinstance(row.rhs, ir.AffineConstantExpr)
        return row.rhs.value if known else 0

    @cached_property
    def columns_length(self) -> int:
        if len(self.maps) != 2 or self.dims[0] != (0, 1) or not self.reduces_rows:
            return 0
        found = re.fullmatch(r"\(d0, d1\) -> \(d0, d1 floordiv (\d+)\)", str(self.maps[1]))
        return int(found.group(1)) if found else 0

    @cached_property
    def dealt(self) -> tuple[int, int] | None:
        if len(self.maps) != 2 or self.dims != [(0, 1), None]:
            return None
        found = re.fullmatch(r"\(d0, d1\) -> \(\(d0 floordiv (\d+)\) mod (\d+), d1\)", str(self.maps[1]))
        piece, ranges = map(int, found.groups()) if found else (0, 0)
        return (piece, ranges) if found and self.sizes[0] % (piece * ranges) == 0 else None


@dataclass
class LoopNest:
    """A linalg op as loops: `sizes` of all of them, which are reduced, and the map of each tensor operand."""

    operation: ir.Operation
    index: int
    inputs: list[ir.Value]
    outputs: list[ir.Value]
    loops: Loops

    @property
    def maps(self) -> list[ir.AffineMap]:
        return self.loops.maps

    @property
    def dims(self) -> list[tuple[int, ...] | None]:
        """For each operand the loop of each of its dimensions, or None where the map is no projection."""
        return self.loops.dims

    @property
    def reduced(self) -> tuple[bool, ...]:
        return self.loops.reduced

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.loops.sizes

    @property
    def result_sizes(self) -> tuple[int, ...]:
        """The sizes of all loops; of a contraction's only those that its result keeps."""
        return self.loops.result_sizes

    @property
    def is_contraction(self) -> bool:
        return self.loops.iterators is None

    @property
    def is_pointwise(self) -> bool:
        """All loops parallel, and every result in loop order."""
        return self.loops.is_pointwise

    @cached_property
    def gathers(self) -> bool:
        """Whether the body reads a tensor where numbers say."""
        return any(is_tensor(value) for value in self.captured)

    def fits_sums_of(self, domain: tuple[int, ...]) -> bool:
        """Whether this can be done with a product's sums of these sizes, while they are in registers.

        What follows a product reads other tensors at the place of the sum, and nowhere else.
        """
        return self.is_pointwise and self.sizes == domain and not self.gathers

    @cached_property
    def is_widening(self) -> bool:
        """Whether all that is done is to widen halves: every reader does that better for itself."""
        if not self.is_pointwise or not self.operation.regions:
            return False
        return [item.operation.name for item in self.operation.regions[0].blocks[0].operations][:-1] == ["arith.extf"]

    @property
    def is_row_reduction(self) -> bool:
        """Only the last loop is reduced, and results are in loop order."""
        return self.loops.is_row_reduction

    @property
    def is_scan(self) -> bool:
        """Only the last loop is reduced, and a result keeps what the reduction has come to at every step of it.

        Its indexing maps are (i, j) -> (i, j), (i, j) -> (i) for what is carried, and (i, j) -> (i, j) for the result.
        """
        return self.loops.is_scan

    @property
    def range_length(self) -> int:
        """How many rows each result of a sum over ranges of rows is the sum of; 0 for any other op.

        Its indexing maps are (i, j) -> (i, j) and (i, j) -> (i floordiv length, j).
        """
        return self.loops.range_length

    @property
    def columns_length(self) -> int:
        """How many columns each result of a sum over ranges of columns is the sum of; 0 for any other op.

        Its indexing maps are (i, j) -> (i, j) and (i, j) -> (i, j floordiv length).
        """
        return self.loops.columns_length

    @property
    def dealt(self) -> tuple[int, int] | None:
        """Of a sum over ranges to which rows are dealt out, how many rows each gets at a time, and how many there are.

        Its indexing maps are (i, j) -> (i, j) and (i, j) -> ((i floordiv piece) mod ranges, j).
        """
        return self.loops.dealt

    @property
    def sums_product(self) -> bool:
        """Whether this is a sum over ranges of rows or columns that the product may make which makes its terms."""
        return OF_PRODUCT in self.operation.attributes and bool(self.range_length or self.columns_length)

    @property
    def sums_gradient(self) -> bool:
        """Whether this is a sum over ranges of rows that a gradient of attention does."""
        return OF_GRADIENT in self.operation.attributes

    @cached_property
    def reads(self) -> list[tuple[ir.Value, tuple[int, ...] | None]]:
        """What the op reads, and how: the loops of the value's dimensions; None for values read inside of the body."""
        direct = list(zip(self.inputs, self.dims, strict=False))
        return [*direct, *((value, None) for value in self.captured)]

    @cached_property
    def captured(self) -> list[ir.Value]:
        """As the function `captured`."""
        return captured(self.operation)


@once
def _loops(about: tuple[ir.Attribute, ir.Attribute | None, tuple[ir.Type, ...], int]) -> Loops:
    return Loops(*about)


def _projected(map_: ir.AffineMap) -> tuple[int, ...] | None:
    dims = []
    for expression in map_.results:
        if not isinstance(expression, ir.AffineDimExpr):
            return None
        dims.append(expression.position)
    return tuple(dims)


def loop_nest(operation: ir.Operation, index: int) -> LoopNest | None:
    """The loops of a linalg op, or None for ops that are no loops of projections (templates, updates)."""
    if operation.name not in ("linalg.generic", "linalg.contract"):
        return None
    operands, attributes = list(operation.operands), operation.attributes
    num_inputs = len(operands) - len(operation.results)
    types = tuple([operand.type for operand in operands])
    iterators = attributes["iterator_types"] if operation.name == "linalg.generic" else None
    loops = _loops((attributes["indexing_maps"], iterators, types, num_inputs))
    nest = LoopNest(operation, index, operands[:num_inputs], operands[num_inputs:], loops)
    if None in nest.dims and not (nest.range_length or nest.dealt or nest.sums_gradient or nest.sums_product):
        return None
    return nest

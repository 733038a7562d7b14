"""The inner kernel of a GEMM: a tile of rows x columns that lives in registers while k runs.

Every element is one chain of multiply-adds in the order of k, starting from 0 or from what earlier k-blocks left (or,
where k is long, a sum of chains of a fixed length): its bits depend neither on the tile nor on the k-blocks nor on the
vector width (where there is FMA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, scf, vector
from blu.passes.cpu.kernel import for_range
from blu.passes.kernels import lanes as vectors

Fetch = Callable[[int, ir.Value], ir.Value]


@dataclass(frozen=True)
class RegisterTile:
    """`rows` x `counts` vectors of `lanes` columns; each count tells how many lanes of that vector exist."""

    rows: int
    counts: tuple[int, ...]
    lanes: int
    accumulator: ir.Type

    @property
    def vector(self) -> ir.VectorType:
        return vectors.vector_type(self.lanes, self.accumulator)

    def zeros(self) -> list[ir.Value]:
        return [vectors.constant(self.vector, 0)] * (self.rows * len(self.counts))

    def accumulate(
        self, sums: Sequence[ir.Value], depth: tuple[ir.Value | int, ir.Value | int], left: Fetch, right: Fetch
    ) -> list[ir.Value]:
        """Run k over `depth` = (begin, end): sums[i, j] += left(i, k) * right(j, k). Row-major list of vectors.

        `left(i, k)` gives the scalar of row i, `right(j, k)` the j-th vector of columns.
        """
        with for_range(*depth, carried=list(sums)) as loop:
            k, sums = loop.induction_variable, list(loop.inner_iter_args)
            panel = [widen(right(j, k), self.accumulator) for j in range(len(self.counts))]
            for i in range(self.rows):
                factor = vectors.splat(widen(left(i, k), self.accumulator), self.lanes)
                for j, column in enumerate(panel):
                    place = i * len(panel) + j
                    sums[place] = multiply_add(factor, column, sums[place])
            scf.yield_(sums)
        return list(loop.results)

    def accumulate_ahead(
        self, sums: Sequence[ir.Value], depth: tuple[ir.Value, ir.Value], left: Fetch, right: Fetch,
        steps: int, ahead: Callable[[ir.Value], None],
    ) -> list[ir.Value]:  # fmt: skip
        """The same, with `ahead(k)` emitted before every `steps` steps of k."""
        begin, end = depth
        with for_range(begin, end, steps, carried=list(sums)) as loop:
            k = loop.induction_variable
            ahead(k)
            part = (k, arith.minsi(vectors.offset(k, steps), end))
            scf.yield_(self.accumulate(loop.inner_iter_args, part, left, right))
        return list(loop.results)


def multiply_add(left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """One fused multiply-add for floats (apart only where the machine has no FMA); wrapping arithmetic for integers."""
    if isinstance(ir.VectorType(left.type).element_type, ir.IntegerType):
        return arith.addi(arith.muli(left, right), total)
    return vector.fma(left, right, total)


def add(left: ir.Value, right: ir.Value) -> ir.Value:
    """The sum of two vectors of sums."""
    is_integer = isinstance(ir.VectorType(left.type).element_type, ir.IntegerType)
    return arith.addi(left, right) if is_integer else arith.addf(left, right)


def widen(value: ir.Value, element: ir.Type) -> ir.Value:
    """A scalar or vector of a narrow float (or narrow integer) in the type that sums have."""
    type_ = value.type.element_type if vectors.is_vector(value) else value.type
    if type_ == element:
        return value
    wide = vectors.vector_type(value.type.shape[0], element) if vectors.is_vector(value) else element
    return arith.extf(wide, value) if isinstance(element, ir.FloatType) else arith.extsi(wide, value)


def load_tile(buffer: ir.Value, row: ir.Value, tile: RegisterTile) -> list[ir.Value]:
    """The sums that an earlier k-block left in a scratch buffer of whole vectors."""
    return [
        vector.load(tile.vector, buffer, [vectors.offset(row, i), vectors.index(j * tile.lanes)])
        for i in range(tile.rows)
        for j in range(len(tile.counts))
    ]


def store_tile(sums: Sequence[ir.Value], buffer: ir.Value, row: ir.Value, tile: RegisterTile) -> None:
    """Write the sums of a tile, in rows of vectors, from `row` on."""
    for place, total in enumerate(sums):
        i, j = divmod(place, len(tile.counts))
        vector.store(total, buffer, [vectors.offset(row, i), vectors.index(j * tile.lanes)])


def scratch(shape: Sequence[int], element: ir.Type) -> ir.Value:
    """An aligned buffer on the stack of the kernel."""
    return memref.alloca(ir.MemRefType.get(shape, element), [], [], alignment=64)

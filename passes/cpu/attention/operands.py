"""What an attention kernel reads and writes: matrices in memory with any strides, one per head."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir, memref, vector
from blu.dialects.core.op import attributes_of, operands_of
from blu.passes.cpu.gemm.tile import scratch, widen
from blu.passes.cpu.kernel import KernelBody
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.attention import AttentionSizes, splat_of
from blu.passes.kernels.rows.layout import flatten, is_bool

Index = ir.Value | int

LINE_BYTES = 64
PREFETCH_TO_L2 = 2


def scaled(value: ir.Value, factor: int) -> ir.Value:
    """`value * factor` of indices."""
    return value if factor == 1 else arith.muli(value, vectors.index(factor))


def clamped(value: ir.Value, low: ir.Value | int, high: ir.Value | int) -> ir.Value:
    """An index within [low, high] (`low` wins)."""
    low, high = (vectors.index(bound) if isinstance(bound, int) else bound for bound in (low, high))
    return arith.maxsi(arith.minsi(value, high), low)


@dataclass(frozen=True)
class HeadMatrix:
    """Rows x columns that begin at element `base` of the memref `flat`. Stride 0: the same for all.

    Values are read in the type `accumulator`: narrow floats are widened, a bool is 0 or 1.
    """

    flat: ir.Value
    base: ir.Value
    row_stride: int
    column_stride: int
    accumulator: ir.Type

    def row(self, row: Index) -> HeadMatrix:
        """The matrix from a row on."""
        return HeadMatrix(self.flat, self.place(row, 0), self.row_stride, self.column_stride, self.accumulator)

    def column(self, column: Index) -> HeadMatrix:
        """The matrix from a column on."""
        return HeadMatrix(self.flat, self.place(0, column), self.row_stride, self.column_stride, self.accumulator)

    def place(self, row: Index, column: Index) -> ir.Value:
        """The element's index in `flat`; constants are added last, where they fold into the address."""
        place, distance = self.base, 0
        for number, stride in ((row, self.row_stride), (column, self.column_stride)):
            if isinstance(number, int):
                distance += number * stride
            elif stride:
                place = arith.addi(place, scaled(number, stride))
        return vectors.offset(place, distance)

    def scalar(self, row: Index, column: Index) -> ir.Value:
        return self.read(memref.load(self.flat, [self.place(row, column)]))

    def load(self, row: Index, column: Index, lanes: int, count: int | None = None) -> ir.Value:
        """`count` of `lanes` neighbours in a row; the others are 0."""
        if self.column_stride == 1:
            return self.read(vectors.load(self.flat, [self.place(row, column)], lanes, count))
        return self.gather([self.place(row, column)] * lanes, self.column_stride, lanes if count is None else count)

    def load_rows(self, rows: Sequence[tuple[Index, int]]) -> ir.Value:
        """The first elements of some rows (each an index and a distance from it), as a vector."""
        return self.gather([self.row(row).place(distance, 0) for row, distance in rows], 0, len(rows))

    def gather(self, places: Sequence[ir.Value], stride: int, count: int) -> ir.Value:
        """One scalar load for each lane: the element `lane * stride` after its place."""
        element = ir.MemRefType(self.flat.type).element_type
        parts = [memref.load(self.flat, [vectors.offset(places[lane], lane * stride)]) for lane in range(count)]
        parts += [vectors.constant(element, 0)] * (len(places) - count)
        return self.read(vector.from_elements(vectors.vector_type(len(places), element), parts))

    def read(self, value: ir.Value) -> ir.Value:
        """A loaded scalar or vector in the accumulator's type."""
        type_ = value.type.element_type if vectors.is_vector(value) else value.type
        if not isinstance(type_, ir.IntegerType):
            return widen(value, self.accumulator)
        result = self.accumulator
        return arith.uitofp(
            vectors.vector_type(value.type.shape[0], result) if vectors.is_vector(value) else result, value
        )

    def fetch(self, row: ir.Value, columns: int) -> None:
        """Prefetch a row into L2."""
        element = ir.MemRefType(self.flat.type).element_type
        line = LINE_BYTES * 8 // element.width
        for column in range(0, columns if self.column_stride == 1 else 0, line):
            memref.prefetch(self.flat, [self.place(row, column)], False, PREFETCH_TO_L2, True)

    def store(self, value: ir.Value, row: Index, column: Index, count: int) -> None:
        """Round a vector to the memory's type and write its first `count` lanes."""
        element = ir.MemRefType(self.flat.type).element_type
        lanes = ir.VectorType(value.type).shape[0]
        if element != self.accumulator:
            value = arith.truncf(vectors.vector_type(lanes, element), value)
        place = self.place(row, column)
        if self.column_stride == 1:
            vectors.store(value, self.flat, [place], count)
            return
        for lane in range(count):
            at = vectors.offset(place, lane * self.column_stride)
            memref.store(vector.extract(value, [], [lane]), self.flat, [at])


@dataclass(frozen=True)
class Stack:
    """Matrices stacked along leading dimensions: shape [..., rows, columns]."""

    flat: ir.Value
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    is_bool: bool
    accumulator: ir.Type

    def matrix(self, leading: Sequence[ir.Value]) -> HeadMatrix:
        """One of them; dimensions of size 1 and missing ones are the same for all indices."""
        base = vectors.index(0)
        missing = len(leading) + 2 - len(self.shape)
        steps = (0,) * missing + tuple(
            0 if size == 1 else step for size, step in zip(self.shape, self.strides, strict=True)
        )
        for place, step in zip(leading, steps, strict=False):
            base = base if not step else arith.addi(base, scaled(place, step))
        return HeadMatrix(self.flat, base, steps[-2], steps[-1], self.accumulator)


@dataclass(frozen=True)
class Problem(AttentionSizes):
    """One attention: shapes are [*leading, heads, rows, columns], as in blu.dialects.ops.attention."""

    query: Stack
    key: Stack
    value: Stack
    output: Stack
    mask: Stack | None
    offset: ir.Value | None
    causal: bool
    scale: float
    accumulator: ir.Type

    @property
    def is_wide(self) -> bool:
        """Whether it computes in f64."""
        return isinstance(self.accumulator, ir.F64Type)

    def limit(self, query: ir.Value) -> ir.Value:
        """How many keys the query at an index sees: those before this one."""
        if not self.causal:
            return vectors.index(self.keys)
        return clamped(arith.addi(query, vectors.offset(self.offset, 1)), 0, self.keys)


def read_problem(operation: ir.Operation, body: KernelBody) -> Problem:
    """Read the op; emits what is the same for all blocks at the current insertion point."""
    return problem_of(operation, body, operands_of(operation))


def accumulator_of(operand: ir.Value) -> ir.Type:
    """What a kernel computes in for an operand: f64 for f64, else f32."""
    element = ir.RankedTensorType(operand.type).element_type
    return element if isinstance(element, ir.F64Type) else ir.F32Type.get()


def problem_of(operation: ir.Operation, body: KernelBody, operands: Sequence[ir.Value | None]) -> Problem:
    """The problem of (query, key, value, mask, offset); its output is the op's first result."""
    query, key, value, mask, offset = operands
    attributes = attributes_of(operation)
    accumulator = accumulator_of(query)
    buffer = {name: stack(item, body, accumulator) for name, item in (("query", query), ("key", key), ("value", value))}
    problem = Problem(
        **buffer,
        output=result_stack(operation.results[0], body, accumulator),
        mask=None if mask is None else stack(mask, body, accumulator),
        offset=None,
        causal=attributes["causal"],
        scale=attributes["scale"],
        accumulator=accumulator,
    )
    if not problem.causal:
        return problem
    return Problem(**{**vars(problem), "offset": _read_offset(offset, body, problem)})


def result_stack(result: ir.Value, body: KernelBody, accumulator: ir.Type) -> Stack:
    """The memory that a result goes to."""
    return _stack_of(dict(body.outputs)[result], ir.RankedTensorType(result.type).shape, accumulator)


def stack(tensor: ir.Value, body: KernelBody, accumulator: ir.Type) -> Stack:
    """An operand of the op, in a buffer or the same everywhere."""
    if tensor in body.buffers:
        return _stack_of(body.buffers[tensor], ir.RankedTensorType(tensor.type).shape, accumulator)
    return _splat_of(tensor, accumulator)


def _stack_of(buffer: ir.Value, shape: Sequence[int], accumulator: ir.Type) -> Stack:
    strides = tuple(vectors.strides_of(buffer))
    is_bit = is_bool(ir.MemRefType(buffer.type).element_type)
    return Stack(flatten(buffer), tuple(shape), strides, is_bit, accumulator)


def _splat_of(tensor: ir.Value, accumulator: ir.Type) -> Stack:
    """A tensor that the kernel fills itself: one element in scratch, with strides of 0."""
    value, element = splat_of(tensor)
    shape = ir.RankedTensorType(tensor.type).shape
    flat = scratch([1], value.type)
    memref.store(value, flat, [vectors.index(0)])
    return Stack(flat, tuple(shape), (0,) * len(shape), is_bool(element), accumulator)


def _read_offset(offset: ir.Value | None, body: KernelBody, problem: Problem) -> ir.Value:
    """The position of the first query among the keys."""
    if offset is None:
        return vectors.index(problem.keys - problem.queries)
    wide = memref.load(stack(offset, body, problem.accumulator).flat, [vectors.index(0)])
    i64 = ir.IntegerType.get_signless(64)
    wide = wide if wide.type == i64 else arith.extsi(i64, wide)
    return arith.index_cast(ir.IndexType.get(), problem.cut_offset(wide))

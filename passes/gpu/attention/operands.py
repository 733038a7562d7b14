"""What an attention kernel on a GPU reads and writes: matrices in global memory with any strides, one per head."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, func, ir, llvm, memref
from blu.dialects.core.op import attributes_of, operands_of
from blu.passes.gpu import numbers
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.numbers import Number
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.attention import AttentionSizes, splat_of

COPY_BYTES = 16
"""What one thread copies at a time, where memory is laid out for it."""


@dataclass(frozen=True)
class HeadMatrix:
    """Rows x columns from the address `base` on (i64, in bytes); strides in elements.

    With `constant` there is no memory: it is every element.
    """

    base: ir.Value | None
    shape: tuple[int, int]
    strides: tuple[int, int]
    element: ir.Type
    is_aligned: bool
    constant: ir.Value | None = None

    @property
    def size(self) -> int:
        """Bytes of an element; a bool has one."""
        return max(8, self.element.width) // 8

    def address(self, row: Number, column: Number) -> ir.Value:
        """The address of an element, i64."""
        place = self.base
        for position, stride in zip((row, column), self.strides, strict=True):
            place = further(place, position, stride * self.size)
        return place

    def load(self, row: Number, column: Number) -> ir.Value:
        """An element as it is in memory; a bool as i8."""
        if self.constant is not None:
            return self.constant
        is_bool = isinstance(self.element, ir.IntegerType) and self.element.width == 1
        type_ = ir.IntegerType.get_signless(8) if is_bool else self.element
        return llvm.load(type_, pointer(self.address(row, column)), alignment=self.size)

    def store(self, value: ir.Value, row: Number, column: Number) -> None:
        """Round an f32 and write it."""
        if not isinstance(self.element, ir.F32Type):
            value = arith.truncf(self.element, value)
        llvm.store(value, pointer(self.address(row, column)), alignment=self.size)


@dataclass(frozen=True)
class AttentionOperand:
    """Matrices stacked along leading dimensions: shape [..., rows, columns]."""

    start: ir.Value | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: ir.Type
    is_aligned: bool
    constant: ir.Value | None = None

    @property
    def size(self) -> int:
        return max(8, self.element.width) // 8

    def matrix(self, leading: Sequence[Number]) -> HeadMatrix:
        """One of them. Missing leading dimensions, and those of size 1, are the same for all."""
        base, missing = self.start, len(leading) + 2 - len(self.shape)
        strides = (0,) * missing + self.strides
        for position, stride in zip(leading, strides, strict=False):
            base = further(base, position, stride * self.size) if base is not None else None
        shape = ((1,) * missing + self.shape)[-2:]
        return HeadMatrix(base, (shape[0], shape[1]), (strides[-2], strides[-1]), self.element, self.is_aligned,
                      self.constant)  # fmt: skip


@dataclass(frozen=True)
class Problem(AttentionSizes):
    """One attention: shapes are [*leading, heads, rows, columns], as in blu.dialects.ops.attention.

    `offset` is the position of the first query among the keys (i32), `factor` what scores are multiplied with.
    """

    query: AttentionOperand
    key: AttentionOperand
    value: AttentionOperand
    mask: AttentionOperand | None
    offset: Number
    causal: bool
    factor: float
    precision: str

    @property
    def element(self) -> str:
        """The PTX name of the type that is multiplied: bf16, f16, tf32, or f32, which is three products of tf32."""
        stored = str(self.query.element)
        return "tf32" if stored == "f32" and self.precision == "tf32" else stored

    @property
    def size(self) -> int:
        """Bytes of an element of the operands."""
        return self.query.size

    @property
    def adds_mask(self) -> bool:
        """Whether numbers are added to scores."""
        return self.mask is not None and not isinstance(self.mask.element, ir.IntegerType)

    def key_head(self, head: Sequence[ir.Value]) -> list[ir.Value]:
        """The head of keys that a head of queries looks at."""
        return [*head[:-1], numbers.divide(head[-1], self.groups)]

    def limit(self, query: Number) -> Number:
        """How many keys a query sees: those before this one."""
        if not self.causal:
            return self.keys
        seen = numbers.add(numbers.add(query, self.offset), 1)
        return numbers.larger(numbers.smaller(seen, self.keys), 0)


def pointer(address: ir.Value) -> ir.Value:
    """An address of global memory as a pointer."""
    return llvm.inttoptr(ir.Type.parse("!llvm.ptr<1>"), address)


def further(address: ir.Value, position: Number, stride: int) -> ir.Value:
    """The address `position * stride` bytes on."""
    i64 = ir.IntegerType.get_signless(64)
    if isinstance(position, int):
        distance = position * stride
        return arith.addi(address, arith.constant(i64, ir.IntegerAttr.get(i64, distance))) if distance else address
    if not stride:
        return address
    wide = arith.extsi(i64, position)
    return arith.addi(address, arith.muli(wide, arith.constant(i64, ir.IntegerAttr.get(i64, stride))))


def split_head(number: ir.Value, heads: Sequence[int]) -> list[ir.Value]:
    """The indices of the `number`-th head."""
    indices: list[ir.Value] = []
    for size in reversed(heads):
        indices.insert(0, numbers.number(0) if size == 1 else numbers.remainder(number, size))
        number = numbers.divide(number, size)
    return indices


def read_operand(tensor: ir.Value, frame: GpuKernel) -> AttentionOperand:
    """An operand of the op, in a buffer or the same everywhere."""
    shape = tuple(ir.RankedTensorType(tensor.type).shape)
    if tensor in frame.buffers:
        return operand_of(frame.buffers[tensor])
    value, element = splat_of(tensor)
    return AttentionOperand(None, shape, (0,) * len(shape), element, False, value)


def operand_of(buffer: ir.Value) -> AttentionOperand:
    """A buffer as matrices."""
    type_ = ir.MemRefType(buffer.type)
    shape, element = tuple(type_.shape) or (1,), type_.element_type  # a mask may be one number
    size = max(8, element.width) // 8
    _, offset = type_.get_strides_and_offset()
    strides = tuple(
        0 if length == 1 else stride for length, stride in zip(shape, vectors.strides_of(buffer) or (0,), strict=True)
    )
    index = memref.extract_aligned_pointer_as_index(buffer)
    start = further(arith.index_cast(ir.IntegerType.get_signless(64), index), offset if prod(shape) else 0, size)
    steps = [offset, *strides[:-1]]
    dense = shape[-1] == 1 or strides[-1] == 1
    is_aligned = dense and shape[-1] * size % COPY_BYTES == 0 and all(step * size % COPY_BYTES == 0 for step in steps)
    return AttentionOperand(start, shape, strides, element, is_aligned)


PIECE = "blu.attention_piece"


def forward_in(kernel: func.FuncOp) -> ir.Operation:
    """The blu.attention, or piece of one, that a kernel is around."""
    operations = (item.operation for item in kernel.entry_block.operations)
    return next(item for item in operations if item.name in ("blu.attention", PIECE))


def forward_operands(operation: ir.Operation) -> list[ir.Value | None]:
    """(query, key, value, mask, offset) of a blu.attention, or of a piece, which has no mask."""
    operands = operands_of(operation)
    return [*operands[:3], None, operands[3]] if operation.name == PIECE else operands


def size_of(operand: ir.Value) -> int:
    """Bytes of an element of a tensor."""
    return ir.RankedTensorType(operand.type).element_type.width // 8


def sums_of(frame: GpuKernel) -> AttentionOperand | None:
    """Where a piece writes the two numbers of sums of weights, [.., heads, queries, 2]; None where it is not one."""
    return operand_of(frame.outputs[1][1]) if len(frame.outputs) > 1 else None


def read_problem(operation: ir.Operation, frame: GpuKernel, operands: Sequence[ir.Value | None]) -> Problem:
    """The problem of (query, key, value, mask, offset)."""
    query, key, value, mask, offset = operands
    attributes = attributes_of(operation)
    problem = Problem(
        query=read_operand(query, frame),
        key=read_operand(key, frame),
        value=read_operand(value, frame),
        mask=None if mask is None else read_operand(mask, frame),
        offset=0,
        causal=attributes["causal"],
        factor=attributes["scale"],
        precision=attributes["precision"],
    )
    if not problem.causal:
        return problem
    return Problem(**{**vars(problem), "offset": _read_offset(offset, frame, problem)})


def _read_offset(offset: ir.Value | None, frame: GpuKernel, problem: Problem) -> Number:
    """The position of the first query among the keys."""
    if offset is None:
        return problem.keys - problem.queries
    is_stored = offset in frame.buffers
    value = memref.load(frame.buffers[offset], []) if is_stored else read_operand(offset, frame).constant
    assert value is not None
    value = problem.cut_offset(value)
    return value if value.type.width == 32 else arith.trunci(numbers.i32(), value)

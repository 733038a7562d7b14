"""Copies of factors of products: their kernels, and who shares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir, tensor
from blu.passes.framework.families import ROWS, mark
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.lower.factors.turn_rows import SWAP, is_transposed, matrix_of
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, projection, transpose


@dataclass(frozen=True)
class Wish:
    """A call's operand that is to be a copy, turned around or not, by a kernel of such a name if it needs its own."""

    call: func.CallOp
    number: int
    is_turned: bool
    name: str

    @property
    def given(self) -> ir.Value:
        return self.call.operands_[self.number]


@dataclass
class Copier:
    """Gives calls copies of their factors, whose rows begin at multiples of 16 bytes, turned around if asked.

    Calls in a block that have the same factor share its copy, and calls whose factors make up a matrix share that of
    the matrix.
    """

    module: ir.Module
    parts: Mapping[ir.Value, _Part]
    kernels: dict[ir.Type, str] = field(default_factory=dict)
    copies: dict[tuple[ir.Block, ir.Value, bool, str], ir.Value] = field(default_factory=dict)

    def copy(self, wish: Wish) -> None:
        """Do what is wished."""
        with ir.InsertionPoint(wish.call), wish.call.location:
            part = self.parts.get(wish.given)
            swaps, whole = is_transposed(wish.given) != wish.is_turned, part.whole() if part else wish.given
            source = transpose(whole, SWAP) if swaps else whole
            key = (wish.call.operation.block, matrix_of(whole), swaps, str(source.type))
            if key not in self.copies:
                self.copies[key] = self._copy_of(source, f"{wish.name}_whole" if part else wish.name)
            copy = transpose(self.copies[key], SWAP) if swaps else self.copies[key]
            wish.call.operation.operands[wish.number] = part.of(copy) if part else copy

    def _copy_of(self, source: ir.Value, name: str) -> ir.Value:
        type_ = ir.RankedTensorType(source.type)
        if type_.shape[-1] * type_.element_type.width // 8 % COPY_BYTES:
            return _with_longer_rows(source)
        if type_ not in self.kernels:
            self.kernels[type_] = _copy_kernel(self.module, name, type_)
        return func.CallOp([type_], self.kernels[type_], [source]).results[0]


@dataclass(frozen=True)
class _Part:
    """A factor that is a part of a matrix, or of the matrix turned around."""

    slice: tensor.ExtractSliceOp
    is_transposed: bool

    @classmethod
    def find(cls, value: ir.Value) -> _Part | None:
        """Read it off a factor; None where it is none, or one whose rows would begin at no multiples of 16 bytes."""
        is_transposed = False
        while not isinstance(value.owner, ir.Block) and value.owner.name in ("linalg.transpose", "blu.barrier"):
            is_transposed ^= value.owner.name == "linalg.transpose"
            value = value.owner.operands[0]
        if isinstance(value.owner, ir.Block) or not isinstance(value.owner.opview, tensor.ExtractSliceOp):
            return None
        part = cls(value.owner.opview, is_transposed)
        offsets, sizes, strides = part.bounds
        shapes = [list(ir.RankedTensorType(item.type).shape) for item in (value, part.slice.source)]
        lanes = COPY_BYTES * 8 // ir.RankedTensorType(value.type).element_type.width
        is_matrix = shapes[0] == sizes and len(sizes) == 2 and strides == [1, 1]
        is_aligned = not any(size % lanes for size in (*offsets, *shapes[1]))
        return part if is_matrix and is_aligned else None

    @property
    def bounds(self) -> list[list[int]]:
        """Offsets, sizes and strides."""
        return [list(item) for item in (self.slice.static_offsets, self.slice.static_sizes, self.slice.static_strides)]

    @property
    def matrix(self) -> ir.Value:
        """What it is a part of, the same for all parts."""
        return matrix_of(self.slice.source)

    def whole(self) -> ir.Value:
        """The matrix, as the factor has its rows and columns."""
        return transpose(self.slice.source, SWAP) if self.is_transposed else self.slice.source

    def of(self, whole: ir.Value) -> ir.Value:
        """This part of a matrix like `whole()`."""
        bounds = [item[::-1] if self.is_transposed else item for item in self.bounds]
        type_ = ir.RankedTensorType.get(bounds[1], ir.RankedTensorType(whole.type).element_type)
        return tensor.extract_slice(type_, whole, [], [], [], *bounds)


def parts_of(factors: Sequence[ir.Value]) -> dict[ir.Value, _Part]:
    """Of factors those that are parts of matrices of which all is somebody's factor."""
    found = {factor: part for factor in factors if (part := _Part.find(factor)) is not None}
    sizes: dict[ir.Value, dict[str, int]] = {}
    for part in found.values():
        sizes.setdefault(part.matrix, {})[str(part.bounds[:2])] = prod(part.bounds[1])
    needed = {matrix for matrix, each in sizes.items() if sum(each.values()) >= _elements(matrix)}
    return {factor: part for factor, part in found.items() if part.matrix in needed}


def _elements(matrix: ir.Value) -> int:
    return prod(ir.RankedTensorType(matrix.type).shape)


def _with_longer_rows(matrix: ir.Value) -> ir.Value:
    """A copy whose rows begin at multiples of 16 bytes: a view of one with more columns, which nobody reads."""
    type_ = ir.RankedTensorType(matrix.type)
    (rows, columns), lanes = type_.shape, COPY_BYTES * 8 // type_.element_type.width
    longer = empty((rows, -(-columns // lanes) * lanes), type_.element_type)
    bounds = [[0, 0], [rows, columns], [1, 1]]
    whole = tensor.insert_slice(matrix, longer, [], [], [], *bounds)
    return tensor.extract_slice(type_, whole, [], [], [], *bounds)


def _copy_kernel(module: ir.Module, name: str, type_: ir.RankedTensorType) -> str:
    """A kernel that gives what it is given."""
    with ir.InsertionPoint(module.body):
        kernel = func.FuncOp(name, ([type_], [type_]), visibility="private")
        mark(kernel, ROWS)
        block = kernel.add_entry_block([ir.Location.current])
    with ir.InsertionPoint(block):
        target = empty(type_.shape, type_.element_type)
        maps = [projection(2, [0, 1])] * 2
        (copy,) = generic(list(block.arguments), [target], maps, [PARALLEL] * 2, lambda given, before: given)
        func.ReturnOp([copy])
    return name

"""How a row kernel lays its memrefs over the iteration space, with dimensions collapsed where strides allow."""

from __future__ import annotations

from collections.abc import Sequence

from blu.dataclass import dataclass
from blu.dialects.core.mlir import builtin, ir, memref
from blu.passes.kernels import lanes as vectors
from blu.passes.kernels.body import Kernel
from blu.passes.kernels.rows.program import RowProgram, captured
from blu.passes.kernels.rows.space import Access


@dataclass(frozen=True)
class Layout:
    """The space after collapsing. `merged` maps each dimension of the program to the one that it became a part of;
    `rows` and `columns` are in walking order, outermost first (the vector dimension last in its list)."""

    sizes: dict[int, int]
    merged: dict[int, int]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    vector_dim: int | None

    def dims(self, old: frozenset[int]) -> frozenset[int]:
        return frozenset(self.merged.get(dim, dim) for dim in old)

    def strides(self, access: Access, steps: Sequence[int]) -> dict[int, int]:
        """Stride of a memref by dimension of the space, for an access in dimensions of the program."""
        return {dim: step for dim, step in zip(access, steps, strict=True) if dim is not None and dim in self.sizes}


def collapse(program: RowProgram, frame: Kernel) -> Layout:
    """Merge dimensions that every memref walks as one, and put the rest in order."""
    maps = _stride_maps(program, frame)
    fixed = _indexed(program)
    sizes = dict(enumerate(program.sizes))
    merged = {dim: dim for dim in sizes}
    order = sorted(sizes, key=lambda dim: -max((steps.get(dim, 0) for steps in maps), default=0))
    for outer in order:
        inner = _partner(outer, sizes, maps, fixed, program)
        if inner is None:
            continue
        sizes[inner] *= sizes.pop(outer)
        merged = {dim: inner if now == outer else now for dim, now in merged.items()}
    vector_dim = None if program.vector_dim is None else merged[program.vector_dim]
    left = sorted((dim for dim in order if dim in sizes), key=lambda dim: dim == vector_dim)
    columns = tuple(dim for dim in left if dim in program.columns)
    return Layout(sizes, merged, tuple(dim for dim in left if dim not in program.columns), columns, vector_dim)


def _partner(
    outer: int, sizes: dict[int, int], maps: list[dict[int, int]], fixed: set[int], program: RowProgram
) -> int | None:
    """The dimension that every memref walks right inside of `outer`."""
    for inner in sizes:
        same_side = (inner in program.columns) == (outer in program.columns)
        if inner == outer or not same_side or inner in fixed or outer in fixed:
            continue
        if outer != program.vector_dim and all(m.get(outer, 0) == m.get(inner, 0) * sizes[inner] for m in maps):
            return inner
    return None


def _stride_maps(program: RowProgram, frame: Kernel) -> list[dict[int, int]]:
    maps = []
    for node in program.nodes:
        values = [*zip(node.operation.operands, node.accesses, strict=True)]
        values += [(result, node.result_access(place)) for place, result in enumerate(node.operation.results)]
        for value, access in values:
            for steps in all_strides(frame, value):
                maps.append({dim: step for dim, step in zip(access, steps, strict=True) if dim is not None})
    return maps


def strides(frame: Kernel, value: ir.Value) -> tuple[int, ...] | None:
    """The strides of the memref behind an input or an output tensor, in elements; None for any other value."""
    return next(iter(all_strides(frame, value)), None)


def all_strides(frame: Kernel, value: ir.Value) -> list[tuple[int, ...]]:
    """The strides of all memrefs that hold a value: one may be several outputs."""
    memrefs = [frame.buffers[value]] if value in frame.buffers else []
    memrefs += [buffer for output, buffer in frame.outputs if output == value]
    return [tuple(vectors.strides_of(buffer)) for buffer in memrefs]


def _indexed(program: RowProgram) -> set[int]:
    """Dimensions whose index some body reads: they keep their own loop."""
    found: set[int] = set()
    for node in program.nodes:
        for operation in node.body.operations:
            if operation.operation.name == "linalg.index":
                dim = node.dims[operation.attributes["dim"].value]
                found |= set() if dim is None else {dim}
    return found


@dataclass(frozen=True)
class FlatBuffer:
    """A memref as a run of elements, and its strides by dimension of the space. A bool is a byte (as numpy has it),
    because a vector of i1 in memory would be packed bits."""

    flat: ir.Value
    element: ir.Type
    strides: dict[int, int]


def flatten(value: ir.Value) -> ir.Value:
    """The memref `value` as one dimension of stride 1 (bool as i8) at the current insertion point."""
    type_ = ir.MemRefType(value.type)
    steps, offset = type_.get_strides_and_offset()
    empty = 0 in type_.shape
    span = 0 if empty else 1 + sum((size - 1) * step for size, step in zip(type_.shape, steps, strict=True))
    layout = ir.StridedLayoutAttr.get(offset, [1])
    flat_type = ir.MemRefType.get([span], type_.element_type, layout)
    flat = memref.reinterpret_cast(flat_type, value, [], [], [], [offset], [span], [1])
    if not is_bool(type_.element_type):
        return flat
    bytes_type = ir.MemRefType.get([span], ir.IntegerType.get_signless(8), layout)
    return builtin.UnrealizedConversionCastOp([bytes_type], [flat]).results[0]


def is_bool(type_: ir.Type) -> bool:
    """Whether an element type is i1."""
    return isinstance(type_, ir.IntegerType) and type_.width == 1


def tables(program: RowProgram) -> set[ir.Value]:
    """Tensors that bodies gather from."""
    return {table for node in program.nodes for table in captured(node)}

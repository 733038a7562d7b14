"""Factors of products that are turned around by the kernel that makes their rows: no copy reads them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import end_of
from blu.passes.framework.base import find
from blu.passes.framework.families import ROWS, family_of
from blu.passes.framework.kernels import callee_of
from blu.passes.gpu.rows.split_column_sums import dealt_maps
from blu.passes.gpu.rows.sums import has_rows, range_length
from blu.passes.gpu.rows.turned import PIECE, can_turn
from blu.passes.loops.fuse.loops import loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, empty, generic, maps_attribute, projection, transpose

SWAP = [1, 0]
VIEWS = ("linalg.transpose", "tensor.extract_slice", "blu.barrier")
_WHOLE = ("linalg.transpose", "blu.barrier")
Place = tuple[ir.Operation, int]
"""An operand of a call, by its number."""


def is_transposed(value: ir.Value) -> bool:
    """Whether a matrix is a transposed view of one whose rows lie in memory."""
    found = False
    while not isinstance(value.owner, ir.Block):
        view = value.owner.operation
        if view.name not in VIEWS:
            break
        found ^= view.name == "linalg.transpose"
        value = view.operands[ir.OpResult(value).result_number]
    return found


def matrix_of(value: ir.Value) -> ir.Value:
    """The matrix that a value is, turned around or not, and as it was before it was kept from being computed early."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _WHOLE:
        value = value.owner.operation.operands[ir.OpResult(value).result_number]
    return value


@dataclass
class RowTurner:
    """Has kernels of rows that add up columns, too, leave some of their rows turned around.

        %dx, %y = call @rows_0(%x, %g)                            (32768x768xf32 both)
        %t = linalg.transpose %y : tensor<768x32768xf32>
        %dw = call @gemm_0(%t, %h)

    becomes, with a kernel whose threads write `t` where they wrote `y`, if nobody else reads that,

        %dx, %t = call @rows_0_turned_1(%x, %g)
        %dw = call @gemm_0(%t, %h)
    """

    module: ir.Module
    kernels: dict[str, func.FuncOp]
    lengths: dict[str, int] = field(default_factory=dict)

    def maker(self, value: ir.Value, reader: ir.Operation) -> ir.OpResult | None:
        """The rows that a factor of a reader is, if whoever makes them could leave them turned around."""
        value = matrix_of(value)
        if isinstance(value.owner, ir.Block) or value.owner.name != "func.call":
            return None
        call = value.owner.operation
        if call.block != reader.block or ir.RankedTensorType(value.type).element_type != ir.F32Type.get():
            return None
        name, shape = callee_of(call), list(ir.RankedTensorType(value.type).shape)
        length = self._length(name)
        return ir.OpResult(value) if length and len(shape) == 2 and can_turn(*shape, length) else None

    def _length(self, name: str) -> int:
        """The rows that each sum of columns of a kernel is of; 0 where it is of another kind."""
        if name not in self.lengths:
            kernel = self.kernels.get(name)
            is_rows = kernel is not None and family_of(kernel) == ROWS and has_rows(kernel)
            self.lengths[name] = range_length(kernel) if is_rows else 0
        return self.lengths[name]

    def turn(self, factors: Iterable[Place]) -> None:
        """Have these operands made as is wished, all of which have a maker."""
        wanted: dict[ir.Operation, dict[int, list[Place]]] = {}
        for reader, number in factors:
            rows = self.maker(reader.operands[number], reader)
            assert rows is not None, "rows that nobody could turn around"
            wanted.setdefault(rows.owner.operation, {}).setdefault(rows.result_number, []).append((reader, number))
        left = {callee_of(call) for call in wanted}
        for call, places in wanted.items():
            self._turn(call, places)
        used = {callee_of(call.operation) for call in find(self.module, func.CallOp)}
        for name in left - used:
            self.kernels[name].operation.erase()

    def _turn(self, call: ir.Operation, places: Mapping[int, Sequence[Place]]) -> None:
        """Call a kernel that leaves these results turned around as well; those that nobody else reads only so."""
        moved = {place for each in places.values() for place in each}
        dropped = [number for number in places if not _is_read(call.results[number], moved)]
        kept = [number for number in range(len(call.results)) if number not in dropped]
        kernel = self._variant(callee_of(call), kept, sorted(places))
        with ir.InsertionPoint(call), call.location:
            made = func.CallOp(kernel, list(call.operands)).results
        for place, number in enumerate(sorted(places)):
            for reader, operand in places[number]:
                turned = made[len(kept) + place]
                with ir.InsertionPoint(reader), reader.location:
                    swaps = not is_transposed(reader.operands[operand])
                    reader.operands[operand] = transpose(turned, SWAP) if swaps else turned
        for number in dropped:
            _erase_views(call.results[number])
        for place, number in enumerate(kept):
            call.results[number].replace_all_uses_with(made[place])
        call.erase()

    def _variant(self, name: str, kept: list[int], turned: list[int]) -> func.FuncOp:
        """A kernel with some of another's results, and some turned around after them."""
        variant = f"{name}_{'_'.join(map(str, kept))}_turned_{'_'.join(map(str, turned))}"
        if variant not in self.kernels:
            self.kernels[variant] = _with_turned(self.kernels[name], variant, kept, turned)
        return self.kernels[variant]


def _is_read(value: ir.Value, places: set[Place]) -> bool:
    """Whether anybody reads a value, or a view of it, but at these places."""
    for use in value.uses:
        reader = use.owner.operation
        if reader.name in _WHOLE and len(reader.results) == 1 and use.operand_number == 0:
            if _is_read(reader.results[0], places):
                return True
        elif (reader, use.operand_number) not in places:
            return True
    return False


def _erase_views(value: ir.Value) -> None:
    for use in list(value.uses):
        view = use.owner.operation
        _erase_views(view.results[0])
        view.erase()


def _with_turned(kernel: func.FuncOp, name: str, kept: list[int], turned: list[int]) -> func.FuncOp:
    clone = kernel.operation.clone(ir.InsertionPoint.after(kernel.operation)).opview
    _deal_rows(clone)
    clone.attributes["sym_name"] = ir.StringAttr.get(name)
    end = end_of(clone.entry_block)
    with ir.InsertionPoint(end), end.location:
        results = [end.operands[number] for number in kept]
        results += [_turned(end.operands[number]) for number in turned]
        func.ReturnOp(results)
    end.erase()
    inputs = [argument.type for argument in clone.arguments]
    clone.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(inputs, [item.type for item in results]))
    return clone


def _deal_rows(kernel: func.FuncOp) -> None:
    """Have blocks take turns at rows, so that what they write at the same time lies together."""
    for item in kernel.entry_block.operations:
        nest = loop_nest(item.operation, 0) if item.operation.name == "linalg.generic" else None
        if nest is not None and nest.range_length > PIECE:
            item.operation.attributes["indexing_maps"] = maps_attribute(
                dealt_maps(PIECE, nest.sizes[0] // nest.range_length)
            )


def _turned(value: ir.Value) -> ir.Value:
    """Rows as columns."""
    type_ = ir.RankedTensorType(value.type)
    target = empty(type_.shape[::-1], type_.element_type)
    maps = [projection(2, [0, 1]), projection(2, SWAP)]
    (result,) = generic([value], [target], maps, [PARALLEL] * 2, lambda given, before: given)
    return result

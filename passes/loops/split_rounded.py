"""The pass that writes what is rounded to bf16 too once: as that, and as the bits which it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.core.modules import end_of
from blu.passes.framework.base import Pass, find, replace
from blu.passes.framework.families import ROWS, family_of
from blu.passes.framework.kernels import callee_of, calls_of, kernels_in
from blu.passes.loops.fuse.loops import loop_nest
from blu.passes.loops.lower_to_linalg.generic import PARALLEL, Body, empty, generic, projection

Slot = tuple[str, int]
"""A kernel's name, and the number of a result or an argument."""


@dataclass(frozen=True)
class SplitRounded(Pass):
    """Kernels of rows that write a result in f32 and in bf16 write the bf16, and what it lacks in 16 bits.

        %1:2 = call @rows_0(%0) : (..) -> (tensor<65536x768xf32>, tensor<65536x768xbf16>)       (one rounds the other)
        %2 = call @gemm_0(%1#1)
        %3 = call @rows_1(%1#0)

    becomes

        %1:2 = call @rows_0(%0) : (..) -> (tensor<65536x768xi16>, tensor<65536x768xbf16>)
        %2 = call @gemm_0(%1#1)
        %3 = call @rows_1(%1#0, %1#1)

    Four bytes are written rather than six, and four are read. The bits of a float are those of its rounding, with zeros
    behind them, plus a number of 16 bits with a sign. Where it lies half way between two roundings and is rounded
    towards 0, that would be 32,768, and the float becomes its neighbour. So gradients of residuals go from layer to
    layer. This is done for results of `least_bytes` that only kernels of rows read, and only elementwise.
    """

    level = "linalg"
    least_bytes: int = 32 << 20

    def run(self, module: ir.Module) -> None:
        links = _Links.of(module, self.least_bytes)
        given = links.settle()
        for name, number in given:
            _write_remainder(links.kernels[name], number, links.roundings[name, number])
        taken = sorted({slot for slot in given for slot in links.readers(slot)})
        for name, number in taken:
            _read_both(links.kernels[name], number)
        _call_anew(module, links, given, taken)
        self.count("results", len(given))


@dataclass
class _Links:
    """Kernels of rows, their calls in order, and of results in f32 the numbers of those that round them."""

    kernels: dict[str, func.FuncOp]
    calls: dict[str, list[func.CallOp]] = field(default_factory=dict)
    roundings: dict[Slot, int] = field(default_factory=dict)

    @classmethod
    def of(cls, module: ir.Module, least_bytes: int) -> _Links:
        """Those of a module."""
        links = cls({name: kernel for name, kernel in kernels_in(module).items() if family_of(kernel) == ROWS})
        for name, kernel in links.kernels.items():
            links.roundings.update(((name, wide), narrow) for wide, narrow in _roundings(kernel, least_bytes))
        links.calls.update(calls_of(module, links.kernels if links.roundings else ()))
        return links

    def settle(self) -> list[Slot]:
        """The results that can be split: in all calls, together with all that read them."""
        given = dict.fromkeys(self.roundings)
        while True:
            values = {call.results[number] for name, number in given for call in self.calls[name]}
            refused = [slot for slot in given if not self._is_split(slot, values)]
            if not refused:
                return list(given)
            for slot in refused:
                del given[slot]

    def readers(self, slot: Slot) -> list[Slot]:
        """The arguments that calls pass a result as."""
        name, number = slot
        uses = [use for call in self.calls[name] for use in call.results[number].uses]
        return [(callee_of(use.owner.operation), use.operand_number) for use in uses]

    def _is_split(self, slot: Slot, values: set[ir.Value]) -> bool:
        """Whether only kernels that take nothing but such values, and read them elementwise, read a result."""
        name, number = slot
        uses = [use for call in self.calls[name] for use in call.results[number].uses]
        if not uses or any(use.owner.operation.name != "func.call" for use in uses):
            return False
        return all(self._takes(taker, values) for taker in self.readers(slot))

    def _takes(self, slot: Slot, values: set[ir.Value]) -> bool:
        name, number = slot
        if name not in self.kernels or not _is_read_elementwise(self.kernels[name].entry_block.arguments[number]):
            return False
        return all(call.operation.operands[number] in values for call in self.calls[name])


def _roundings(kernel: func.FuncOp, least_bytes: int) -> Iterator[tuple[int, int]]:
    """Pairs of results, in f32 and in bf16, of which one rounds the other."""
    results = list(end_of(kernel.entry_block).operands)
    for narrow, value in enumerate(results):
        source = _rounded(value)
        if source is not None and source in results and 4 * prod(ir.RankedTensorType(value.type).shape) >= least_bytes:
            yield results.index(source), narrow


def _rounded(value: ir.Value) -> ir.Value | None:
    """What a loop rounds from f32 to bf16 and does nothing else with."""
    if isinstance(value.owner, ir.Block) or not isinstance(ir.RankedTensorType(value.type).element_type, ir.BF16Type):
        return None
    operation = value.owner.operation
    nest = loop_nest(operation, 0)
    if nest is None or not nest.is_pointwise or len(nest.inputs) != 1:
        return None
    first, *others = operation.regions[0].blocks[0].operations
    is_plain = all(map(_is_identity, nest.maps))
    is_rounding = len(others) == 1 and first.operation.name == "arith.truncf"
    is_single = isinstance(ir.RankedTensorType(nest.inputs[0].type).element_type, ir.F32Type)
    return nest.inputs[0] if is_plain and is_rounding and is_single else None


def _is_read_elementwise(argument: ir.Value) -> bool:
    """Whether only loops read an argument, each element where they are."""
    return all(_reads_elementwise(use.owner.operation, use.operand_number) for use in argument.uses)


def _reads_elementwise(operation: ir.Operation, number: int) -> bool:
    nest = loop_nest(operation, 0) if operation.name == "linalg.generic" else None
    return nest is not None and number < len(nest.inputs) and _is_identity(nest.maps[number])


def _is_identity(map_: ir.AffineMap) -> bool:
    return map_ == ir.AffineMap.get_identity(map_.n_dims)


def _write_remainder(kernel: func.FuncOp, number: int, rounding: int) -> None:
    """Let a kernel return what a result's rounding lacks in place of it."""
    end = end_of(kernel.entry_block)
    wide, narrow = end.operands[number], end.operands[rounding]
    i16 = ir.IntegerType.get_signless(16)
    with ir.InsertionPoint(end), wide.owner.location:
        end.operands[number] = _pointwise([wide, narrow], i16, _remainder)
    _say_type(kernel)


def _read_both(kernel: func.FuncOp, number: int) -> None:
    """Let a kernel take an argument as what its rounding lacks, and the rounding as its last argument."""
    block = kernel.entry_block
    rest, shape = block.arguments[number], ir.RankedTensorType(block.arguments[number].type).shape
    users, location = [use.owner.operation for use in rest.uses], kernel.operation.location
    rest.set_type(ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(16)))
    narrow = block.add_argument(ir.RankedTensorType.get(shape, ir.BF16Type.get()), location)
    with ir.InsertionPoint.at_block_begin(block), location:
        wide = _pointwise([narrow, rest], ir.F32Type.get(), _put_together)
    for user in users:
        for place, operand in enumerate(user.operands):
            if operand == rest:
                user.operands[place] = wide
    _say_type(kernel)


def _pointwise(inputs: Sequence[ir.Value], element: ir.Type, body: Body) -> ir.Value:
    """A loop over tensors of one shape."""
    shape = ir.RankedTensorType(inputs[0].type).shape
    rank = len(shape)
    maps = [projection(rank, range(rank))] * (len(inputs) + 1)
    (result,) = generic(
        inputs, [empty(shape, element)], maps, [PARALLEL] * rank, lambda *elements: body(*elements[:-1])
    )
    return result


def _remainder(wide: ir.Value, narrow: ir.Value) -> ir.Value:
    """f32 and bf16 -> i16."""
    i16, i32 = (ir.IntegerType.get_signless(bits) for bits in (16, 32))
    rest = arith.subi(arith.bitcast(i32, wide), _bits_of(narrow))
    return arith.trunci(i16, arith.minsi(rest, arith.constant(i32, (1 << 15) - 1)))


def _put_together(narrow: ir.Value, rest: ir.Value) -> ir.Value:
    """bf16 and i16 -> f32."""
    bits = arith.addi(_bits_of(narrow), arith.extsi(ir.IntegerType.get_signless(32), rest))
    return arith.bitcast(ir.F32Type.get(), bits)


def _bits_of(narrow: ir.Value) -> ir.Value:
    """The bits of a bf16 as f32."""
    return arith.bitcast(ir.IntegerType.get_signless(32), arith.extf(ir.F32Type.get(), narrow))


def _say_type(kernel: func.FuncOp) -> None:
    """Write down what a kernel takes and gives now."""
    block = kernel.entry_block
    results = [value.type for value in end_of(block).operands]
    signature = ir.FunctionType.get([argument.type for argument in block.arguments], results)
    kernel.attributes["function_type"] = ir.TypeAttr.get(signature)


def _call_anew(module: ir.Module, links: _Links, given: Sequence[Slot], taken: Sequence[Slot]) -> None:
    """Have calls of kernels that give or take other things than before pass these on."""
    changed = {name for name, _ in (*given, *taken)}
    narrow: dict[ir.Value, ir.Value] = {}
    for call in [item for item in find(module, func.CallOp) if callee_of(item) in changed]:
        name, operands = callee_of(call), list(call.operation.operands)
        operands += [narrow[operands[number]] for other, number in taken if other == name]
        with ir.InsertionPoint(call), call.operation.location:
            anew = func.CallOp(links.kernels[name].type.results, name, operands)
        replace(call, list(anew.results))
        numbers = [number for other, number in given if other == name]
        narrow.update((anew.results[number], anew.results[links.roundings[name, number]]) for number in numbers)

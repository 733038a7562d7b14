"""What a kernel that waits for others may already bring into the cache: operands that no kernel writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import arith, func, ir, memref, nvvm
from blu.dialects.plan import LOOP_BODY, VIEWS
from blu.passes.framework.families import GEMM, SCAN, family_of
from blu.passes.framework.launches import ON_GPUS, arguments_of, grid_of, host_functions, kernel_of
from blu.passes.gpu.isa.prefetch import PIECE_BYTES, bulk_prefetch
from blu.passes.gpu.kernel import when
from blu.passes.gpu.numbers import add, is_below, multiply, number, smaller
from blu.passes.host.bufferize.intervals import element_bytes

_LINE = 128
"""Bytes of a line of the cache."""
_OF_GATHERS = 64 << 10
"""Bytes that are brought of an operand of which a kernel may need a few rows only."""


@dataclass(frozen=True)
class ConstantOperand:
    """The argument of a kernel with this number: `size` bytes in a row, from byte `offset` on."""

    number: int
    offset: int
    size: int


@dataclass(frozen=True)
class ReadAhead:
    """What the blocks of a launch, which are in one dimension, bring into the cache together.

    `constant` are the numbers of all arguments that no kernel writes: what is read of these need not wait.
    """

    blocks: int
    operands: tuple[ConstantOperand, ...]
    constant: frozenset[int]

    def emit(self, kernel: ir.Operation, read: frozenset[int]) -> None:
        """Let the first thread of each block bring its share, at the current insertion point, but of what is `read`."""
        operands = [operand for operand in self.operands if operand.number not in read]
        if not operands:
            return
        block, thread = nvvm.read_ptx_sreg_ctaid_x(), nvvm.read_ptx_sreg_tid_x()
        arguments = kernel.regions[0].blocks[0].arguments
        with when(is_below(thread, 1)):
            for operand in operands:
                _bring(arguments[operand.number], operand, block, self.blocks)


def _bring(argument: ir.Value, operand: ConstantOperand, block: ir.Value, blocks: int) -> None:
    share = -(-operand.size // (blocks * _LINE)) * _LINE
    with when(is_below(block, -(-operand.size // share))):
        start = multiply(block, share)
        size = smaller(share, arith.subi(number(operand.size), number(start)))
        base = arith.index_cast(_i64(), memref.extract_aligned_pointer_as_index(argument))
        bulk_prefetch(arith.addi(base, arith.extui(_i64(), number(add(start, operand.offset)))), size)


def read_ahead_of(module: ir.Module, kernels: Sequence[ir.Operation], most: int) -> dict[str, ReadAhead]:
    """For each kernel that may read ahead, what: of an operand up to `most` bytes."""
    launches: dict[str, list[ir.Operation]] = {}
    for function, launch in _launches(module):
        # What a step of a loop is given may be anything.
        launches.setdefault(kernel_of(launch), []).append(launch if LOOP_BODY not in function.attributes else None)
    found = {}
    for kernel in kernels:
        name = ir.StringAttr(kernel.attributes["sym_name"]).value
        plan = _of_kernel(kernel, launches.get(name, []), most)
        if plan is not None:
            found[name] = plan
    return found


def _launches(module: ir.Module) -> Iterator[tuple[func.FuncOp, ir.Operation]]:
    for function in host_functions(module):
        for item in function.entry_block.operations:
            if item.operation.name == ON_GPUS:
                yield function, item.operation


def _of_kernel(kernel: ir.Operation, launches: Sequence[ir.Operation | None], most: int) -> ReadAhead | None:
    made = [launch for launch in launches if launch is not None]
    grids = {grid_of(launch).blocks for launch in made}
    if not made or len(made) < len(launches) or len(grids) != 1:
        return None
    [(blocks, *others)] = grids
    limit = most if family_of(kernel).name == GEMM.name else min(most, _OF_GATHERS)
    passed = list(zip(*map(arguments_of, made), strict=True))
    constant = {place: values[0].type for place, values in enumerate(passed) if all(map(is_never_written, values))}
    operands = [_operand(place, type_, limit) for place, type_ in constant.items()]
    kept = tuple(operand for operand in operands if operand is not None)
    # The pieces of a scan are read at once, whatever their size.
    reads = bool(kept) or (bool(constant) and family_of(kernel).name == SCAN.name)
    return ReadAhead(blocks, kept, frozenset(constant)) if reads and others == [1, 1] else None


def _operand(place: int, type_: ir.Type, limit: int) -> ConstantOperand | None:
    """What is read ahead of the operand of this type that launches pass at a place, if it is worth it."""
    if not isinstance(type_, ir.MemRefType) or not type_.has_static_shape:
        return None
    strides, offset = type_.get_strides_and_offset()
    shape, nbytes = tuple(type_.shape), element_bytes(type_.element_type)
    size = product(shape) * nbytes // PIECE_BYTES * PIECE_BYTES
    in_order = tuple(strides) == tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))
    fits = 0 < size <= limit and offset >= 0 and offset * nbytes % PIECE_BYTES == 0
    return ConstantOperand(place, offset * nbytes, size) if in_order and fits else None


def is_never_written(value: ir.Value) -> bool:
    """Whether memory is a constant, or an argument that the program keeps as it is."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    if not isinstance(value.owner, ir.Block):
        maker = value.owner.operation
        return maker.name == "plan.buffer" and ir.StringAttr(maker.attributes["space"]).value == "constant"
    function, place = value.owner.owner.opview, ir.BlockArgument(value).arg_number
    return "blu.donated" not in ir.DictAttr(function.arg_attrs[place])


def _i64() -> ir.Type:
    return ir.IntegerType.get_signless(64)

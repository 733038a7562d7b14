"""What a kernel computes at its beginning from memory that nobody writes meanwhile: it need not wait for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP_BODY
from blu.passes.framework.launches import arguments_of

Launch = ir.Operation

LOADS = ("llvm.load", "memref.load", "vector.load")
PURE = (
    "arith.",
    "vector.extract",
    "vector.bitcast",
    "nvvm.read.ptx.sreg.",
    "llvm.inttoptr",
    "llvm.ptrtoint",
    "llvm.mlir.addressof",
    "llvm.extractelement",
    "memref.extract_aligned_pointer_as_index",
)


@dataclass
class EarlyReads:
    """What a kernel's beginning computes and loads from the arguments numbered `constant`.

    `read` are those of them that loads were found of.
    """

    constant: frozenset[int]
    read: set[int] = field(default_factory=set)

    def gather(self, block: ir.Block) -> ir.Operation:
        """Move it all to the top of the block; the first op that is left. Nothing is moved where nothing is loaded."""
        straight = list(_straight(block))
        made: set[ir.Operation] = set()
        for operation in straight:
            is_load = operation.name in LOADS
            has_operands = all(isinstance(value.owner, ir.Block) or value.owner in made for value in operation.operands)
            if has_operands and (not is_load or self._is_constant(operation.operands[0], made)):
                made.add(operation)
        if not self.read:
            return block.operations[0].operation
        early = made - set(_waiting_for_loads([operation for operation in straight if operation in made]))
        *_, last = (operation for operation in straight if operation in early)
        for operation in straight:
            if operation not in early:
                operation.move_after(last)
                last = operation
        return block.operations[len(early)].operation

    def _is_constant(self, address: ir.Value, made: set[ir.Operation]) -> bool:
        """Whether all memory that an address comes from is constant; then it is noted as read."""
        found: set[int] = set()
        for value in values_behind(address):
            if isinstance(value.owner, ir.Block):
                number = ir.BlockArgument(value).arg_number
                if number not in self.constant:
                    return False
                found.add(number)
            elif value.owner.name in LOADS and not (value.owner in made and _is_place(value)):
                return False
        self.read |= found
        return bool(found)


def values_behind(address: ir.Value) -> Iterator[ir.Value]:
    """An address and all that it is computed from, each value once: arguments of the kernel, and what ops give."""
    waiting, seen = [address], set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if not isinstance(value.owner, ir.Block):
            waiting.extend(value.owner.operands)


def _straight(block: ir.Block) -> Iterator[ir.Operation]:
    """The ops at the beginning of a block that do no more than to compute and to load."""
    for operation in (item.operation for item in block.operations):
        if operation.regions or not operation.name.startswith((*LOADS, *PURE)):
            return
        yield operation


def _is_place(loaded: ir.Value) -> bool:
    """Whether a value that was loaded says where in an argument something is: addresses have 64 bits."""
    return isinstance(loaded.type, ir.IntegerType) and loaded.type.width == 32


def _waiting_for_loads(operations: Sequence[ir.Operation]) -> Iterator[ir.Operation]:
    """Those that compute with what is loaded, for none of the loads: a kernel would wait there for memory."""
    needed: set[ir.Operation] = set()
    for operation in reversed(operations):
        if operation.name in LOADS or operation in needed:
            needed.update(value.owner for value in operation.operands if not isinstance(value.owner, ir.Block))
    late: set[ir.Operation] = set()
    for operation in operations:
        owners = {value.owner for value in operation.operands if not isinstance(value.owner, ir.Block)}
        is_late = any(owner in late or owner.name in LOADS for owner in owners)
        if is_late and operation not in needed and operation.name not in LOADS:
            late.add(operation)
            yield operation


def readable_early(launches: Iterable[tuple[Launch, Launch | None]]) -> frozenset[int]:
    """The arguments of a kernel that it may read before it waits, by its launches, each with the one it begins beside.

    These are the program's, and not passed to the launch before: others before that are over.
    """
    found = [frozenset(_own_arguments(launch, before)) for launch, before in launches]
    return frozenset.intersection(*found) if found else frozenset()


def _own_arguments(launch: Launch, before: Launch | None) -> Iterator[int]:
    taken = set() if before is None else {root for value in arguments_of(before) for root in _roots(value)}
    for number, value in enumerate(arguments_of(launch)):
        roots = set(_roots(value))
        if taken.isdisjoint(roots) and all(map(_is_of_program, roots)):
            yield number


def _roots(value: ir.Value) -> Iterator[ir.Value]:
    """The memory that an argument, or what stands for those of a batch, is a view of."""
    operands = () if isinstance(value.owner, ir.Block) else list(value.owner.operands)
    if not operands:
        yield value
    for operand in operands:
        yield from _roots(operand)


def _is_of_program(root: ir.Value) -> bool:
    """Whether memory is an argument of the program: what a step of a loop is given may be anything."""
    if not isinstance(root.owner, ir.Block):
        return False
    function = root.owner.owner.opview
    return isinstance(function, func.FuncOp) and LOOP_BODY not in function.attributes

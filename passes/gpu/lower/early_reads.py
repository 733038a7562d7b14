"""What a kernel computes at its beginning from memory that nobody writes meanwhile: it need not wait for that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import LOOP_BODY
from blu.passes.framework.launches import arguments_of, kernel_of
from blu.passes.gpu.isa.assembly import only_computes, text_of
from blu.passes.gpu.isa.prefetch import BULK_PREFETCH
from blu.passes.gpu.lower.read_ahead import is_never_written

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
_VIEWS = ("memref.cast", "memref.reinterpret_cast", "memref.subview", "llvm.getelementptr")


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


def written_arguments(kernel: ir.Operation) -> frozenset[int]:
    """The arguments of a kernel that it may write to: those that something else is done with than to read them."""
    arguments = kernel.regions[0].blocks[0].arguments
    return frozenset(number for number, argument in enumerate(arguments) if not _is_only_read(argument))


def _is_only_read(argument: ir.Value) -> bool:
    waiting, seen = [argument], set()
    while waiting:
        for user in {use.owner.operation for use in waiting.pop().uses} - seen:
            seen.add(user)
            if user.name in LOADS:
                waiting.extend(value for value in user.results if _may_be_address(value.type))
            elif user.name.startswith((*PURE, *_VIEWS)) or only_computes(user):
                waiting.extend(user.results)
            elif text_of(user) != BULK_PREFETCH:
                return False
    return True


def _may_be_address(type_: ir.Type) -> bool:
    """Whether what is loaded may say where memory is, as in a table of a batch: a whole number of 64 bits does."""
    element = ir.VectorType(type_).element_type if isinstance(type_, ir.VectorType) else type_
    is_number = isinstance(element, ir.FloatType) or (isinstance(element, ir.IntegerType) and element.width <= 32)
    return not is_number


def readable_early(
    launches: Iterable[tuple[Launch, Sequence[Launch]]], written: Mapping[str, frozenset[int]]
) -> frozenset[int]:
    """The arguments of a kernel that it may read before it waits, by its launches, each with those it begins beside.

    These are the program's, and none of those writes to them; `written` says of each kernel to which arguments it does.
    """
    found = [frozenset(_own_arguments(launch, running, written)) for launch, running in launches]
    return frozenset.intersection(*found) if found else frozenset()


def _own_arguments(launch: Launch, running: Sequence[Launch], written: Mapping[str, frozenset[int]]) -> Iterator[int]:
    taken = {root for other in running for value in written_by(other, written) for root in _roots(value)}
    for number, value in enumerate(arguments_of(launch)):
        roots = set(_roots(value))
        is_own = taken.isdisjoint(roots) or all(map(is_never_written, roots))
        if is_own and all(map(_is_of_program, roots)):
            yield number


def written_by(launch: Launch, written: Mapping[str, frozenset[int]]) -> Iterator[ir.Value]:
    """What a launch passes to its kernel to write to; all that it passes, if the kernel is elsewhere."""
    passed = arguments_of(launch)
    numbers = written.get(kernel_of(launch), range(len(passed)))
    return (value for number, value in enumerate(passed) if number in numbers)


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

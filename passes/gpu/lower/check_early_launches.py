"""The pass that refuses launches that begin early and touch what launches that still run may work on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import operations_in
from blu.dialects.plan import HOST_CALL, LOOP, LOOP_BODY, PART
from blu.passes.framework.base import Pass, find
from blu.passes.framework.launches import EARLY, ON_GPUS, arguments_of, host_functions, kernel_of
from blu.passes.gpu.isa import griddepcontrol, prefetch
from blu.passes.gpu.isa.assembly import only_computes, text_of
from blu.passes.gpu.lower.early_reads import LOADS, PURE, values_behind, written_arguments, written_by
from blu.passes.host.bufferize.intervals import element_bytes

_STEPS = (ON_GPUS, LOOP, HOST_CALL, "plan.start", "plan.wait")
_HARMLESS = (*PURE, "math.", "scf.if", "scf.yield")
"""Ops that touch no memory."""


@dataclass(frozen=True)
class _Memory:
    """Bytes of one of the host's buffers, from `start` on. In a loop's body arguments and results may be any others."""

    space: str
    number: int
    start: int
    size: int

    def overlaps(self, other: _Memory) -> bool:
        """Whether some byte may be in both."""
        if "elsewhere" in (self.space, other.space):
            return "arena" not in (self.space, other.space)
        is_one = (self.space, self.number) == (other.space, other.number)
        return is_one and self.start < other.start + other.size and other.start < self.start + self.size


@dataclass(frozen=True)
class CheckEarlyLaunches(Pass):
    """What a kernel reads before it waits is in no memory that launches write to which may still run.

        gpu.launch_func @kernels::@first args(%0, %1)
        gpu.launch_func @kernels::@second args(%x, %1) {blu.early}
        gpu.func @second(%a, %b) kernel {
          %c = memref.load %a[%i]                            passes: nobody writes to the program's argument %x
          %d = memref.load %b[%i]                            error: @first, which may still run, may write to %1
          griddepcontrol.wait
          ..

    Memory is what a place in the arena is: two buffers may be in the same. A launch that begins early runs beside the
    one before it, whose kernel has waited for all others if it lets it begin then; else beside those as well. The
    first of a program runs beside what the GPU was given before, which may write to anything. The module stays as it
    is.
    """

    level = "kernel"
    only_looks = True

    def run(self, module: ir.Module) -> None:
        kernels = {ir.StringAttr(item.operation.attributes["sym_name"]).value: item.operation
                   for item in find(module, "gpu.func")}  # fmt: skip
        begin_of = cache(lambda name: _Beginning.of(kernels.get(name)))
        reads_early = any(begin_of(name).reads for name in kernels)
        written = {name: written_arguments(kernel) for name, kernel in kernels.items()} if reads_early else {}
        for function in host_functions(module):
            running: list[ir.Operation] = []
            is_first = True
            for step in (item.operation for item in function.entry_block.operations if item.operation.name in _STEPS):
                if step.name != ON_GPUS:
                    running, is_first = [], False
                    continue
                begin = begin_of(kernel_of(step))
                if EARLY in step.attributes:
                    self._check(step, begin, running, written)
                if EARLY in step.attributes and is_first and begin.reads:
                    self.fail(step, f"'{kernel_of(step)}' reads before it waits for what came before the program")
                is_first = False
                running = [step, *(running if begin.lets_begin_first and EARLY in step.attributes else ())]

    def _check(
        self,
        launch: ir.Operation,
        begin: _Beginning,
        running: Sequence[ir.Operation],
        written: Mapping[str, frozenset[int]],
    ) -> None:
        name = kernel_of(launch)
        if begin.fault:
            self.fail(launch, f"the launch of '{name}' begins early, but its kernel {begin.fault}")
        for number, value in enumerate(arguments_of(launch)):
            own = list(_memory_of(value)) if number in begin.reads else ()
            for other in running if own else ():
                taken = [item for passed in written_by(other, written) for item in _memory_of(passed)]
                if any(memory.overlaps(item) for memory in own for item in taken):
                    message = f"'{name}' reads argument {number} before it waits for '{kernel_of(other)}', which may "
                    self.fail(launch, f"{message}write to the same memory")


@dataclass(frozen=True)
class _Beginning:
    """Which arguments a kernel reads before it waits; whether it lets the next one begin first; what it may not do."""

    reads: frozenset[int]
    lets_begin_first: bool
    fault: str = ""

    @classmethod
    def of(cls, kernel: ir.Operation | None) -> _Beginning:
        """That of a kernel at level "kernel", if there is one."""
        found: set[int] = set()
        lets_begin_first = False
        block = () if kernel is None else kernel.regions[0].blocks[0].operations
        for operation in (item.operation for item in block):
            text = text_of(operation)
            if text == griddepcontrol.WAIT:
                return cls(frozenset(found), lets_begin_first)
            lets_begin_first |= text == griddepcontrol.LAUNCH_DEPENDENTS
            for inner in (operation, *operations_in(operation)):
                if inner.name in LOADS:
                    found |= _arguments_behind(inner.operands[0])
                elif not _is_harmless(inner):
                    return cls(frozenset(), True, f"has '{inner.name}' before it waits")
        return cls(frozenset(), True, "does not wait")


def _is_harmless(operation: ir.Operation) -> bool:
    """Whether an op touches no memory, or only brings it into the cache."""
    is_known = text_of(operation) in (griddepcontrol.LAUNCH_DEPENDENTS, prefetch.BULK_PREFETCH)
    return is_known or only_computes(operation) or operation.name.startswith(_HARMLESS)


def _arguments_behind(address: ir.Value) -> set[int]:
    """The arguments that an address is computed from, which may be numbers that were loaded from others."""
    arguments = (value for value in values_behind(address) if isinstance(value.owner, ir.Block))
    return {ir.BlockArgument(value).arg_number for value in arguments}


def _memory_of(value: ir.Value) -> Iterator[_Memory]:
    """The memory of an argument of a launch, or of those that it stands for, that anyone may write to."""
    if isinstance(value.owner, ir.Block):
        yield from _memory_of_argument(ir.BlockArgument(value))
        return
    operation = value.owner.operation
    if operation.name != "plan.buffer":
        start = ir.IntegerAttr(operation.attributes["offset"]).value if operation.name == PART else 0
        for operand in operation.operands:
            for memory in _memory_of(operand):
                size = _bytes_of(value) if operation.name == PART else memory.size
                yield _Memory(memory.space, memory.number, memory.start + start, size)
        return
    space = ir.StringAttr(operation.attributes["space"]).value
    index, offset = (ir.IntegerAttr(operation.attributes[name]).value for name in ("index", "offset"))
    if space == "arena":
        yield _Memory(space, 0, offset, _bytes_of(value))
    elif space != "constant":
        is_inner = LOOP_BODY in operation.parent.attributes
        yield _Memory("elsewhere" if is_inner else space, index, 0, _bytes_of(value))


def _memory_of_argument(argument: ir.BlockArgument) -> Iterator[_Memory]:
    function = argument.owner.owner.opview
    if LOOP_BODY in function.attributes:
        yield _Memory("elsewhere", 0, 0, _bytes_of(argument))
    elif "arg_attrs" in function.attributes and "blu.donated" in ir.DictAttr(function.arg_attrs[argument.arg_number]):
        yield _Memory("input", argument.arg_number, 0, _bytes_of(argument))


def _bytes_of(value: ir.Value) -> int:
    type_ = ir.MemRefType(value.type)
    return product(type_.shape) * element_bytes(type_.element_type)

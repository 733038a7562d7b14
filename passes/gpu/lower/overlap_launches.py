"""The pass that lets a kernel begin while the last blocks of the one before it still run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from blu.dataclass import dataclass
from blu.dialects.core.dtypes import product
from blu.dialects.core.mlir import func, ir
from blu.dialects.plan import HOST_CALL, LOOP
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.framework.base import Pass, find
from blu.passes.framework.families import LOOPS, ROWS, SCATTER_ADD, UPDATE, family_of
from blu.passes.framework.launches import EARLY, ON_GPUS, GridLaunch, arguments_of, grid_of, host_functions, kernel_of
from blu.passes.gpu.isa import griddepcontrol
from blu.passes.gpu.lower.early_reads import EarlyReads, readable_early, written_arguments
from blu.passes.gpu.lower.read_ahead import ReadAhead, read_ahead_of
from blu.passes.host.bufferize.intervals import element_bytes
from blu.passes.kernels.launch import READS_EARLY

START = "plan.start"
_STEPS = (ON_GPUS, LOOP, START)
"""What a host program enqueues, or another stream does; its other ops give memory a name."""
Pair = tuple[ir.Operation, ir.Operation]
"""A launch, and the one that follows it and begins early."""
_WAIT, _LET_BEGIN = griddepcontrol.wait, griddepcontrol.launch_dependents
_BYTES_OF_THREAD = 4096
"""Of an argument, which threads read or write at most: those of a small grid gather from a table."""
_SYSTEM_BYTES = 1024
"""Of shared memory, which each block takes beside its own."""


@dataclass(frozen=True)
class OverlapLaunches(Pass):
    """A launch that follows another one begins early, and its kernel first of all waits for those before it.

        gpu.launch_func @kernels::@rows_0 ..
        gpu.launch_func @kernels::@gemm_0 ..
        gpu.func @gemm_0(..) kernel { .. }

    becomes

        gpu.launch_func @kernels::@rows_0 ..
        gpu.launch_func @kernels::@gemm_0 .. {blu.early}
        gpu.func @gemm_0(..) kernel {
          griddepcontrol.wait
          griddepcontrol.launch_dependents
          ..
        }

    What a launch takes to get going is hidden behind the kernel before it. The wait is over when that kernel is; since
    it has waited itself before it touched any memory, all kernels before are over as well, whoever wrote or read what
    this one reads or writes. Blocks begin when all of the kernel before have waited: they take no place from those, and
    there is one kernel that waits at a time. Launches whose blocks do not fit on a processor beside those of the one
    before do not begin early, nor does what follows a loop, or is the first of a program or of a loop's body; nor any
    of a program whose ranks exchange data: waiting blocks would keep that from the processors. Launches that are passed
    more than `most_bytes` take long beside what is hidden, and are slower with waiting blocks around them: they neither
    begin early nor have others begin before they end. Kernels without such launches on either side stay as they are.

    While a kernel waits, its blocks bring operands into the second cache that no kernel of the program writes (weights
    of what only infers), each its share; of a product up to `ahead_bytes` of each, of others up to 64 KB. So weights
    stream while earlier kernels compute. What a kernel reads of them first of all, in so many words at its beginning,
    it reads into registers before it waits. A kernel that says that it reads much so (`blu.reads_early`: attention of
    few queries, products by strips) also does that with arguments of the program, as a cache, to which no kernel writes
    that may still run. It begins early, however much it is passed, and lets the next one begin before it waits: several
    kernels then have what they read on its way. No memory is written before a wait, and none ends without it.

    A program of one launch, of rows or loops, begins early as well, however much it is passed: behind whatever the GPU
    was given before, which may be such a program. It reads nothing before it waits.
    """

    level = "kernel"
    ahead_bytes: int = 16 << 20
    most_bytes: int = 32 << 20

    def run(self, module: ir.Module) -> None:
        target = GpuTarget.of(module)
        if not target.early_launches:
            return
        everything = [item.operation for item in find(module, "gpu.func")]
        updates = {_name(kernel) for kernel in everything if family_of(kernel) in (UPDATE, SCATTER_ADD)}
        eager = {_name(kernel) for kernel in everything if READS_EARLY in kernel.attributes}
        pairs = [pair for function in host_functions(module) for pair in self._mark(function, updates, eager, target)]
        overlapping = {kernel_of(launch) for pair in pairs for launch in pair}
        kernels = [kernel for kernel in everything if _name(kernel) in overlapping]
        ahead = read_ahead_of(module, kernels, self.ahead_bytes)
        written = {_name(kernel): written_arguments(kernel) for kernel in everything} if eager else {}
        untouched = _untouched(module, pairs, eager, written)
        for kernel in _alone(module, everything, target):
            _wait_first(kernel, None, frozenset(), is_eager=False)
        for kernel in kernels:
            early = untouched.get(_name(kernel), frozenset())
            _wait_first(kernel, ahead.get(_name(kernel)), early, _name(kernel) in eager)
        self.count("kernels that read ahead", len(ahead))
        self.count("launches that begin early", len(pairs))

    def _mark(self, function: func.FuncOp, updates: set[str], eager: set[str], target: GpuTarget) -> list[Pair]:
        """Mark the launches that directly follow one they fit beside, both of them short or eager; both of each."""
        operations = [item.operation for item in function.entry_block.operations]
        steps = [item for item in operations if item.name in _STEPS]
        if any(step.name == START for step in steps):
            return []
        launches = [step for step in steps if step.name == ON_GPUS]
        short = {
            step
            for step in launches
            if kernel_of(step) in eager or _bytes_of(step, kernel_of(step) in updates) <= self.most_bytes
        }
        both = [pair for pair in pairwise(steps) if short.issuperset(pair)]
        pairs = [(before, step) for before, step in both if _fit(grid_of(before), grid_of(step), target)]
        for _, step in pairs:
            step.attributes[EARLY] = ir.UnitAttr.get()
        return pairs


def _alone(module: ir.Module, everything: Sequence[ir.Operation], target: GpuTarget) -> Iterator[ir.Operation]:
    """The kernel of a program that is one launch of rows or loops, which is marked, if it fits beside another one."""
    steps = [item.operation for function in host_functions(module) for item in function.entry_block.operations]
    launches = [step for step in steps if step.name in (*_STEPS, HOST_CALL)]
    if [step.name for step in launches] != [ON_GPUS] or not _fit(grid_of(launches[0]), grid_of(launches[0]), target):
        return
    for kernel in everything:
        if _name(kernel) == kernel_of(launches[0]) and family_of(kernel) in (ROWS, LOOPS):
            launches[0].attributes[EARLY] = ir.UnitAttr.get()
            yield kernel


def _name(kernel: ir.Operation) -> str:
    return ir.StringAttr(kernel.attributes["sym_name"]).value


def _untouched(
    module: ir.Module, pairs: Sequence[Pair], eager: set[str], written: Mapping[str, frozenset[int]]
) -> dict[str, frozenset[int]]:
    """The arguments of each eager kernel that it may read before it waits, whoever writes them at other times."""
    before = {later: first for first, later in pairs}
    launches: dict[str, list[tuple[ir.Operation, list[ir.Operation]]]] = {}
    for function in host_functions(module):
        for item in function.entry_block.operations:
            if item.operation.name == ON_GPUS and kernel_of(item.operation) in eager:
                own = launches.setdefault(kernel_of(item.operation), [])
                own.append((item.operation, list(_running(item.operation, before, eager))))
    return {name: readable_early(own, written) for name, own in launches.items()}


def _running(
    launch: ir.Operation, before: Mapping[ir.Operation, ir.Operation], eager: set[str]
) -> Iterator[ir.Operation]:
    """The launches that may not be over when one begins: those before it, up to one whose kernel has waited."""
    while launch in before:
        launch = before[launch]
        yield launch
        if kernel_of(launch) not in eager:
            return


def _wait_first(kernel: ir.Operation, ahead: ReadAhead | None, untouched: frozenset[int], is_eager: bool) -> None:
    block = kernel.regions[0].blocks[0]
    begin = EarlyReads(untouched if ahead is None else ahead.constant | untouched)
    first = begin.gather(block)
    with kernel.location:
        if ahead is not None:
            with ir.InsertionPoint.at_block_begin(block):
                ahead.emit(kernel, frozenset(begin.read))
        with ir.InsertionPoint(first):
            for step in (_LET_BEGIN, _WAIT) if is_eager else (_WAIT, _LET_BEGIN):
                step()


def _bytes_of(launch: ir.Operation, is_update: bool) -> int:
    """The bytes of all that a launch is passed, as far as its threads read or write so much; of one that updates,
    without what it changes a part of.
    """
    grid = grid_of(launch)
    most = product(grid.blocks) * grid.threads * _BYTES_OF_THREAD
    sizes = [min(most, _bytes_of_argument(value)) for value in arguments_of(launch)]
    return sum(sizes) - (max(sizes, default=0) if is_update else 0)


def _bytes_of_argument(value: ir.Value) -> int:
    """The bytes of what one argument stands for."""
    types = [ir.MemRefType(item.type) for item in _each_of(value) if isinstance(item.type, ir.MemRefType)]
    return sum(product(type_.shape) * element_bytes(type_.element_type) for type_ in types)


def _each_of(value: ir.Value) -> list[ir.Value]:
    """What the calls of a batch are passed, or the one that is passed."""
    owner = value.owner
    return [value] if isinstance(owner, ir.Block) or owner.name != "plan.each" else list(owner.operands)


def _fit(first: GridLaunch, second: GridLaunch, target: GpuTarget) -> bool:
    """Whether a block of each has room on one processor."""
    shared = first.shared_bytes + second.shared_bytes + 2 * _SYSTEM_BYTES
    threads = first.threads + second.threads
    return shared <= target.shared_bytes_per_processor and threads <= target.threads_per_processor

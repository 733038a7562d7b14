"""Kernels apart from the host program, which launches them: by calls on processors, `gpu.launch_func` on GPUs.

call @rows_0(%x, %out) {blu.blocks = 12, blu.chunk = 4}
func.func private @rows_0(memref<..>, memref<..>)             -- declared for the host program; the code takes more
module @kernels { func.func @rows_0(%x, %out, %begin: index, %end: index) { .. } }

gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) threads in (%c256, %c1, %c1) .. args(%x, %out)
gpu.module @kernels { gpu.func @rows_0(%x, %out) kernel { .. } }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blu.dataclass import dataclass, field
from blu.dialects.core.locations import describe
from blu.dialects.core.mlir import arith, func, ir
from blu.dialects.plan import BATCH
from blu.errors import PassError
from blu.passes.framework.families import is_kernel
from blu.passes.framework.kernels import callee_of
from blu.plan.schema import MAX_BLOCK_THREADS, MAX_BLOCKS, MAX_GRID, MAX_SHARED_BYTES

KERNELS = "kernels"
"""The module in a program that holds the code of its kernels."""
HOLDERS = ("builtin.module", "gpu.module")
"""What that module is, on processors and GPUs."""
ON_PROCESSORS, ON_GPUS = "func.call", "gpu.launch_func"
BLOCKS, CHUNK = "blu.blocks", "blu.chunk"
"""On processors: blocks, and how many of them a thread claims at a time."""
EARLY = "blu.early"
"""On GPUs: a launch may begin before the one before it is over; its kernel waits for that."""


@dataclass(frozen=True)
class BlockLaunch:
    """The size of a launch on processors: independent blocks, of which a thread claims `chunk` at a time."""

    count: int
    chunk: int


@dataclass(frozen=True)
class GridLaunch:
    """The size of a launch on a GPU: blocks in three dimensions, each of `threads` with `shared_bytes` of memory.

    `cluster` neighbours in the first dimension run at the same time.
    """

    blocks: tuple[int, int, int]
    threads: int
    shared_bytes: int = 0
    cluster: int = 1


def host_functions(module: ir.Module) -> list[func.FuncOp]:
    """The functions of a module that are no kernels, nor declared only."""
    functions = [item for item in module.body.operations if isinstance(item, func.FuncOp)]
    return [item for item in functions if not is_kernel(item) and not item.is_external]


def launches_in(function: func.FuncOp) -> list[ir.Operation]:
    """The launches of a host function, in order."""
    operations = [item.operation for item in function.entry_block.operations]
    return [item for item in operations if item.name in (ON_PROCESSORS, ON_GPUS)]


def kernel_of(launch: ir.Operation) -> str:
    """The name of the kernel that is launched."""
    if launch.name == ON_PROCESSORS:
        return callee_of(launch)
    return list(ir.SymbolRefAttr(launch.attributes["kernel"]).value)[-1]


def let_launch(launch: ir.Operation, kernel: str) -> None:
    """Let a launch on a GPU be one of another kernel."""
    launch.attributes["kernel"] = ir.SymbolRefAttr.get([KERNELS, kernel])


def arguments_of(launch: ir.Operation) -> list[ir.Value]:
    """What a launch passes to its kernel."""
    return list(launch.opview.kernelOperands if launch.name == ON_GPUS else launch.operands)


def blocks_of(launch: ir.Operation) -> BlockLaunch:
    """The size of a launch on processors. PassError for one that cannot be."""
    if BLOCKS not in launch.attributes or CHUNK not in launch.attributes:
        message = f"the call of '{kernel_of(launch)}' does not say how many blocks run ({BLOCKS}, {CHUNK})"
        raise _refused(launch, message)
    count, chunk = (ir.IntegerAttr(launch.attributes[name]).value for name in (BLOCKS, CHUNK))
    if not 0 <= count <= MAX_BLOCKS:
        message = f"kernel '{kernel_of(launch)}' has {count} blocks, and one launch can have {MAX_BLOCKS}"
        raise _refused(launch, message, "Use smaller shapes.")
    if chunk < 1:
        raise _refused(launch, f"kernel '{kernel_of(launch)}' is launched in chunks of {chunk} blocks")
    return BlockLaunch(count, chunk)


def grid_of(launch: ir.Operation) -> GridLaunch:
    """The size of a launch on a GPU. PassError for one that no GPU takes, or that is not known yet."""
    view, name = launch.opview, kernel_of(launch)
    if len(view.asyncDependencies) or view.asyncToken is not None:
        raise _refused(launch, f"the launch of '{name}' has async tokens: launches run in the order of the text")
    blocks = tuple(_size(launch, size) for size in (view.gridSizeX, view.gridSizeY, view.gridSizeZ))
    threads, *others = (_size(launch, size) for size in (view.blockSizeX, view.blockSizeY, view.blockSizeZ))
    cluster, *more = (_size(launch, size) for size in (view.clusterSizeX, view.clusterSizeY, view.clusterSizeZ))
    shared = view.dynamicSharedMemorySize
    shared_bytes = 0 if shared is None else _size(launch, shared)
    if not all(1 <= size <= limit for size, limit in zip(blocks, MAX_GRID, strict=True)):
        raise _refused(launch, f"the grid of '{name}' is {_shown(blocks)}; a GPU takes 1 to {_shown(MAX_GRID)} blocks")
    if others != [1, 1] or not 1 <= threads <= MAX_BLOCK_THREADS:
        message = f"blocks of '{name}' have {_shown((threads, *others))} threads; they can be 1 to {MAX_BLOCK_THREADS}"
        raise _refused(launch, f"{message}, in one dimension")
    if more != [1, 1] or cluster < 1 or blocks[0] % cluster:
        message = f"clusters of '{name}' are {_shown((cluster, *more))} blocks of a grid of {_shown(blocks)}"
        raise _refused(launch, f"{message}: they must divide its first dimension")
    if not 0 <= shared_bytes <= MAX_SHARED_BYTES:
        message = f"blocks of '{name}' ask for {shared_bytes} bytes of shared memory; no GPU has more than"
        raise _refused(launch, f"{message} {MAX_SHARED_BYTES}")
    return GridLaunch((blocks[0], blocks[1], blocks[2]), threads, shared_bytes, cluster)


def holders_in(program: ir.Operation) -> list[ir.Operation]:
    """The modules of kernels in a program."""
    operations = [item.operation for item in program.regions[0].blocks[0].operations]
    return [item for item in operations if item.name in HOLDERS]


def code_of(module: ir.Module) -> list[ir.Operation]:
    """Kernels and what they refer to: what is in the module of kernels, or all of a module that has no program."""
    if holders := holders_in(module.operation):
        return [item.operation for holder in holders for item in holder.regions[0].blocks[0].operations]
    host = {function.operation for function in host_functions(module)}
    return [item.operation for item in module.body.operations if item.operation not in host]


def check_launches(function: func.FuncOp) -> None:
    """PassError at the line of the first launch of a host function that cannot be."""
    code = _code_by_name(function.operation.parent)
    for launch in launches_in(function):
        if launch.name == ON_GPUS:
            grid_of(launch)
        else:
            blocks_of(launch)
        _check_parameters(launch, code)


def _code_by_name(program: ir.Operation) -> dict[str, ir.Operation]:
    """The functions in the module of kernels."""
    held = [item for holder in holders_in(program) for item in holder.regions[0].blocks[0].operations]
    named = [item.operation for item in held if item.operation.name in _FUNCTIONS]
    return {ir.StringAttr(item.attributes["sym_name"]).value: item for item in named}


_FUNCTIONS = ("func.func", "gpu.func", "llvm.func")


def _check_parameters(launch: ir.Operation, code: dict[str, ir.Operation]) -> None:
    """Kernels take what their launches pass: on processors and a range of blocks, or a table of what calls pass."""
    name, given = kernel_of(launch), len(arguments_of(launch))
    if name not in code:
        raise _refused(launch, f"there is no code of a kernel '{name}' in a module @{KERNELS}")
    takes = len(code[name].regions[0].blocks[0].arguments) - (2 if launch.name == ON_PROCESSORS else 0)
    if takes != given and not (takes == 1 and BATCH in code[name].attributes):
        raise _refused(launch, f"the code of kernel '{name}' takes {takes} buffers, and the launch passes {given}")


@dataclass
class LaunchWriter:
    """Writes launches into a host function, whose numbers stand at its beginning, once each."""

    function: func.FuncOp
    _numbers: dict[tuple[str, int], ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.function.entry_block.operations:
            operation = item.operation
            if operation.name != "arith.constant" or not isinstance(operation.attributes["value"], ir.IntegerAttr):
                break
            value = operation.results[0]
            self._numbers[str(value.type), ir.IntegerAttr(operation.attributes["value"]).value] = value

    def on_gpu(self, kernel: str, grid: GridLaunch, arguments: Sequence[ir.Value]) -> ir.Operation:
        """Emit a launch on a GPU at the current insertion point and location."""
        from blu.dialects.core.mlir import gpu  # takes long to import, for nothing where there are processors only

        in_clusters = None if grid.cluster == 1 else tuple(map(self.index, (grid.cluster, 1, 1)))
        launch = gpu.LaunchFuncOp(
            [KERNELS, kernel],
            tuple(map(self.index, grid.blocks)),
            tuple(map(self.index, (grid.threads, 1, 1))),
            list(arguments),
            dynamic_shared_memory_size=self._number(ir.IntegerType.get_signless(32), grid.shared_bytes),
            cluster_size=in_clusters,
        )
        return launch.operation

    def index(self, value: int) -> ir.Value:
        """A constant of type index."""
        return self._number(ir.IndexType.get(), value)

    def _number(self, type_: ir.Type, value: int) -> ir.Value:
        key = (str(type_), value)
        if key not in self._numbers:
            before = list(self._numbers.values())
            block = self.function.entry_block
            place = ir.InsertionPoint.after(before[-1].owner) if before else ir.InsertionPoint.at_block_begin(block)
            with place, ir.Location.unknown():
                self._numbers[key] = arith.constant(type_, value)
        return self._numbers[key]


def launched_in(module: ir.Module, kernels: Iterable[str]) -> set[str]:
    """Of these kernels those that are launched; all of them in a module without a program."""
    functions = host_functions(module)
    launched = {kernel_of(launch) for function in functions for launch in launches_in(function)}
    return launched & set(kernels) if functions else set(kernels)


def _size(launch: ir.Operation, value: ir.Value | None) -> int:
    if value is None:
        return 1
    maker = value.owner
    if isinstance(maker, ir.Block) or maker.name != "arith.constant":
        raise _refused(launch, f"the launch of '{kernel_of(launch)}' has a size that is no constant")
    return ir.IntegerAttr(maker.attributes["value"]).value


def _shown(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _refused(launch: ir.Operation, message: str, advice: str = "") -> PassError:
    return PassError(message, location=describe(launch.location), advice=advice, operation=launch.name)

"""How attention on a GPU is cut: the choice of its schedule, and what that may not be.

Sizes and dtypes decide, so that blu-choose-schedules chooses all; blu-fit-schedules only does where nothing is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.attention import decode
from blu.passes.gpu.attention.attention import SharedLayout
from blu.passes.gpu.attention.key_gradient import KeyTiles
from blu.passes.gpu.attention.query_gradient import QueryTiles
from blu.passes.gpu.attention.schedule import (
    APART,
    GRADIENT_KINDS,
    KINDS,
    REGISTERS,
    SHARED,
    TOGETHER,
    WARPS,
    FewQueriesSchedule,
    GradientTilesSchedule,
    QueryTilesSchedule,
)
from blu.passes.gpu.attention.scores import STRIP
from blu.passes.gpu.isa.warp import WARP
from blu.passes.kernels.schedules import Fields, Kinds, Schedule, Scheduler, by_sizes
from blu.passes.kernels.updates import find_operation

DECODING_WARPS = 16
"""Of a block; fewer where there are so many heads that all processors have several."""
LARGEST_PAIR = 128
"""Columns up to which a warp's gradients of keys and of values fit in registers at a time."""
MOST_REGISTERS = 192
"""Of the 255 of a thread, those that may hold sums and factors."""
MOST_WARPS = 32
ROWS_OF_TILES = (16, 32, 64, 128)
STRIPS = (1, 2)
WARPS_OF_BLOCKS = (1, 2, 4, 8)


@dataclass(frozen=True)
class ScheduleSizes:
    """What a schedule is chosen by: heads in all, rows and columns of `size` bytes, and whether there is a mask."""

    heads: int
    queries: int
    keys: int
    columns: tuple[int, int]
    masked: bool
    size: int

    @classmethod
    def of(cls, operation: ir.Operation) -> ScheduleSizes:
        """Those of a blu.attention or a blu.attention_gradient."""
        operands = operands_of(operation)[operation.name == "blu.attention_gradient" :]
        query, key, value = (ir.RankedTensorType(item.type) for item in operands[:3])
        mask = operands_of(operation)[5 if operation.name == "blu.attention_gradient" else 3]
        heads, columns = prod(query.shape[:-2]), (query.shape[-1], value.shape[-1])
        return cls(heads, query.shape[-2], key.shape[-2], columns, mask is not None, query.element_type.width // 8)

    @property
    def widest(self) -> int:
        return max(self.columns)


def _choose(operation: ir.Operation, target: GpuTarget) -> Schedule:
    sizes = ScheduleSizes.of(operation)
    return _few_queries(sizes, target) if decode.suits(operation) else _tiles(sizes)


def _few_queries(sizes: ScheduleSizes, target: GpuTarget) -> FewQueriesSchedule:
    is_few = sizes.heads * sizes.queries <= 4 * target.processors
    # A thread puts together what the warps have found for one column.
    return FewQueriesSchedule(DECODING_WARPS if is_few else max(DECODING_WARPS // 4, ceil(sizes.columns[0] / WARP)))


def _tiles(sizes: ScheduleSizes) -> QueryTilesSchedule:
    """Rows of more columns leave fewer registers, as does a mask."""
    if sizes.size == 4:
        return QueryTilesSchedule(1, 32)
    if sizes.widest <= 64:
        return QueryTilesSchedule(2 if sizes.queries > WARPS * STRIP and not sizes.masked else 1, 64, REGISTERS)
    return QueryTilesSchedule(1, 64, REGISTERS) if sizes.widest <= 128 else QueryTilesSchedule(1, 32)


def _choose_gradient(operation: ir.Operation, target: GpuTarget) -> GradientTilesSchedule:
    """The largest tiles whose sums fit in registers, beside a mask, and in shared memory."""
    sizes = ScheduleSizes.of(operation)
    launches = APART if sizes.widest > LARGEST_PAIR else TOGETHER
    return GradientTilesSchedule(*_of_queries(sizes, target), *_of_keys(sizes, target), launches)


def _of_queries(sizes: ScheduleSizes, target: GpuTarget) -> tuple[int, int, int, str]:
    is_narrow = sizes.size == 2 and sizes.widest <= 64
    strips = 2 if is_narrow and sizes.queries > 4 * STRIP and not sizes.masked else 1
    keys, left = (64, REGISTERS) if is_narrow and strips == 1 else (32, SHARED)
    choices = ((warps, strips, keys, left) for warps in (4, 2, 1))
    fits = lambda choice: QueryTiles.of(*choice, sizes.columns, sizes.size).memory.bytes <= target.shared_bytes  # noqa: E731
    return next(filter(fits, choices))


def _of_keys(sizes: ScheduleSizes, target: GpuTarget) -> tuple[int, int, int, str]:
    is_narrow = sizes.size == 2 and sizes.widest <= 64
    strips = 2 if is_narrow and sizes.widest <= 48 and sizes.keys > 4 * STRIP and not sizes.masked else 1
    queries, left = (64, REGISTERS) if is_narrow and strips == 1 else (32, SHARED)
    choices = ((warps, strips, tile, left) for warps, tile in ((4, queries), (4, 16), (2, 16)))
    fits = lambda choice: KeyTiles.of(*choice, sizes.columns, sizes.size).memory.bytes <= target.shared_bytes  # noqa: E731
    return next(filter(fits, choices))


# What does not fit


def _excesses(schedule: Schedule, operation: ir.Operation, target: GpuTarget) -> Iterator[str]:
    sizes = ScheduleSizes.of(operation)
    if isinstance(schedule, FewQueriesSchedule):
        yield from _excess_few(schedule, operation, sizes)
    if isinstance(schedule, QueryTilesSchedule):
        yield from _excess_tile(STRIPS, "strips", schedule.strips)
        yield from _excess_tile(ROWS_OF_TILES, "keys", schedule.keys)
        yield from _excess_left("queries", schedule.queries, sizes)
        each = sizes.columns[1] // 2 + schedule.keys // 2
        yield from _excess_registers(schedule.strips * (each + _kept(schedule.queries, sizes.columns[0])))
        needed = SharedLayout.of(schedule, *sizes.columns, sizes.size).memory.bytes
        yield from _excess_shared(needed, target)
    if isinstance(schedule, GradientTilesSchedule):
        yield from _excess_gradient(schedule, sizes, target)


def _excess_few(schedule: FewQueriesSchedule, operation: ir.Operation, sizes: ScheduleSizes) -> Iterator[str]:
    if not decode.suits(operation):
        yield f"kind 'few_queries' takes at most {decode.FEW_QUERIES} queries, of multiples of {decode.PIECE} columns"
    if schedule.warps > MOST_WARPS or schedule.warps * WARP < sizes.columns[0]:
        least = ceil(sizes.columns[0] / WARP)
        yield f"warps = {schedule.warps}: a block has a thread for each column, {least} to {MOST_WARPS} warps"


def _excess_gradient(schedule: GradientTilesSchedule, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    for name in ("query", "key"):
        yield from _excess_tile(WARPS_OF_BLOCKS, f"{name}_warps", getattr(schedule, f"{name}_warps"))
        yield from _excess_tile(STRIPS, f"{name}_strips", getattr(schedule, f"{name}_strips"))
        yield from _excess_left(f"{name}_left", getattr(schedule, f"{name}_left"), sizes)
    yield from _excess_tile(ROWS_OF_TILES, "keys", schedule.keys)
    yield from _excess_tile(ROWS_OF_TILES, "queries", schedule.queries)
    if schedule.launches not in (TOGETHER, APART):
        yield f"launches = '{schedule.launches}': gradients of keys and values are found '{TOGETHER}' or '{APART}'"
    both = sum(sizes.columns)
    of_queries = sizes.columns[0] // 2 + schedule.keys + _kept(schedule.query_left, both)
    sums = both if schedule.launches == TOGETHER else sizes.widest
    of_keys = sums // 2 + schedule.queries + _kept(schedule.key_left, both)
    yield from _excess_registers(schedule.query_strips * of_queries)
    yield from _excess_registers(schedule.key_strips * of_keys)
    for tiles in (QueryTiles, KeyTiles):
        yield from _excess_shared(tiles.by(schedule, sizes.columns, sizes.size).memory.bytes, target)


def _kept(left: str, columns: int) -> int:
    """Registers that left factors of 16 bits take, of a strip."""
    return columns // 4 if left == REGISTERS else 0


def _excess_tile(possible: tuple[int, ...], name: str, value: int) -> Iterator[str]:
    if value not in possible:
        yield f"{name} = {value}: there are {', '.join(map(str, possible))}"


def _excess_left(name: str, value: str, sizes: ScheduleSizes) -> Iterator[str]:
    if value not in (REGISTERS, SHARED):
        yield f"{name} = '{value}': left factors are in '{REGISTERS}' or in '{SHARED}' memory"
    if value == REGISTERS and sizes.size > 2:
        yield f"{name} = '{REGISTERS}': there is no room for numbers of {8 * sizes.size} bits"


def _excess_registers(needed: int) -> Iterator[str]:
    if needed > MOST_REGISTERS:
        yield f"sums and factors take {needed} registers of each thread, of at most {MOST_REGISTERS}"


def _excess_shared(needed: int, target: GpuTarget) -> Iterator[str]:
    if needed > target.shared_bytes:
        yield f"tiles take {needed} bytes of shared memory, and a block on {target.name} has {target.shared_bytes}"


def _around(name: str, choose: Callable[[ir.Operation, GpuTarget], Schedule], kinds: Kinds) -> Scheduler:
    """The scheduler of kernels around an op."""

    def others(kernel: func.FuncOp, target: GpuTarget) -> Fields:
        sizes = ScheduleSizes.of(find_operation(kernel, name))
        return {**_tiles(sizes).fields, **_few_queries(sizes, target).fields}

    return by_sizes(
        kinds,
        lambda kernel, target: choose(find_operation(kernel, name), target),
        lambda schedule, kernel, target: _excesses(schedule, find_operation(kernel, name), target),
        others,
    )


SCHEDULER = _around("blu.attention", _choose, KINDS)
GRADIENT_SCHEDULER = _around("blu.attention_gradient", _choose_gradient, GRADIENT_KINDS)

"""How sorts on a GPU are cut: what each kind is expected to take, of which the least is chosen; what is refused.

Costs are those of instructions, of halving steps in memory, of bytes' passes, of launches, and of what waits for itself
where there is little to do. They are from times on an H100. Other GPUs are taken to differ by the number of processors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import attributes_of, operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.others.merge import find_order, key_bytes, merged_levels
from blu.passes.gpu.others.ranks import BITS, THREADS, WARPS
from blu.passes.gpu.others.schedule import BYTES, MERGE_KINDS, MERGING, MergeSchedule, RadixSchedule, SelectSchedule
from blu.passes.kernels.schedules import Schedule, by_sizes

MOST_THREADS = 1024
MOST_SELECTED = 256
"""Keys up to which they are found first and then compared with each other."""
MOST_TILE = 8192
"""Keys that a block has in registers."""
_PROCESSORS = 132
"""Of the GPU that the constants below are from."""
_INSTRUCTION = 1 / 561_000
"""Microseconds that an instruction of a warp takes, of all processors'."""
_STEP = 1.08e-6
"""Microseconds for a step of halving, of one key among a run in memory."""
_STEP_WAIT = 0.18
"""Microseconds for a step of halving in a launch that has nothing else to do."""
_BYTE = 13.5e-6
"""Microseconds to move a key by one of its bytes, all launches together."""
_BYTE_ROW = 0.022
"""Microseconds to add up a row's counts of a byte."""
_BYTE_WAIT = 6.0
"""Microseconds for all launches of a byte that have nothing else to do."""
_LAUNCH = 2.0
"""Microseconds that another launch takes if it has nothing to do."""
_BY_MERGING = MergeSchedule()
_BY_BYTES = replace(_BY_MERGING, by=BYTES, tile_threads=THREADS)


@dataclass(frozen=True)
class _Rows:
    """Rows of keys, of which the first `wanted` in order are wanted."""

    rows: float
    width: int
    bits: int
    wanted: int

    @classmethod
    def of(cls, kernel: func.FuncOp) -> _Rows:
        operation = find_order(kernel)
        keys = ir.ShapedType(operands_of(operation)[0].type)
        rows, width = keys.shape
        return cls(rows, width, 8 * key_bytes(kernel), attributes_of(operation).get("k", width))

    @property
    def passes(self) -> int:
        return self.bits // BITS

    def by_merging(self, schedule: MergeSchedule) -> float:
        """Microseconds for tiles, and for what merges their runs."""
        levels = merged_levels(self.width, self.wanted, schedule)
        width = min(self.width, schedule.tile)
        tiles = self.rows * levels[0].count * self._tile(width, schedule.by) * _INSTRUCTION
        merges = (
            _LAUNCH + runs.steps * (_STEP_WAIT + _STEP * self.rows * runs.count * runs.capacity) for runs in levels[:-1]
        )
        return _LAUNCH + self._tile_wait(width, schedule.by) + tiles + sum(merges)

    def by_radix(self) -> float:
        """Microseconds to sort whole rows byte by byte."""
        return self.passes * (_BYTE_WAIT + _BYTE_ROW * self.rows + _BYTE * self.rows * self.width)

    def _tile(self, width: int, by: str) -> float:
        """Instructions of warps to sort a tile: for each level, those of halving; for each byte, of sums and keys."""
        if by == BYTES:
            items = ceil(width / THREADS)
            # The more keys a thread has, the fewer blocks have registers.
            return self.passes * WARPS * (100 + 50 * items + 4 * items**2)
        levels = (width - 1).bit_length()
        return width / WARP * levels * (30 + 10 * levels)

    def _tile_wait(self, width: int, by: str) -> float:
        """Microseconds for one tile that has a processor for itself."""
        if by == BYTES:
            return self.passes * (0.45 + 0.2 * ceil(width / THREADS))
        return 0.08 * (width - 1).bit_length() ** 2


def _choose(kernel: func.FuncOp, target: GpuTarget) -> Schedule:
    keys = _Rows.of(kernel)
    if keys.wanted <= MOST_SELECTED and keys.wanted < keys.width:
        return SelectSchedule()
    keys = replace(keys, rows=keys.rows * _PROCESSORS / target.processors)
    costs = {_BY_MERGING: keys.by_merging(_BY_MERGING), _BY_BYTES: keys.by_merging(_BY_BYTES)}
    if keys.wanted == keys.width:
        costs[RadixSchedule()] = keys.by_radix()
    return min(costs, key=costs.__getitem__)


def _excess(schedule: Schedule, kernel: func.FuncOp, target: GpuTarget) -> Iterator[str]:
    if isinstance(schedule, RadixSchedule):
        if find_order(kernel).name != "blu.argsort":
            yield f"kind '{schedule.kind}' sorts whole rows, and only the first few are wanted"
        return
    if isinstance(schedule, SelectSchedule):
        yield from _excess_selection(schedule, kernel)
        return
    assert isinstance(schedule, MergeSchedule), "there is no other kind"
    yield from _excess_tile(schedule, kernel, target)
    for name, threads in (("tile_threads", schedule.tile_threads), ("threads", schedule.threads)):
        if threads % WARP or threads > MOST_THREADS:
            yield f"{name} = {threads}: blocks have a multiple of {WARP} threads, {MOST_THREADS} at most"
    for name, runs in (("runs", schedule.runs), ("short_runs", schedule.short_runs)):
        if runs < 2:
            yield f"{name} = {runs}: at least two runs become one"


def _excess_selection(schedule: SelectSchedule, kernel: func.FuncOp) -> Iterator[str]:
    keys = _Rows.of(kernel)
    if keys.wanted == keys.width or keys.wanted > MOST_SELECTED:
        yield f"kind '{schedule.kind}' finds the first {MOST_SELECTED} keys at most, not {keys.wanted} of {keys.width}"
    if schedule.tile < 2 * keys.wanted or schedule.tile > MOST_TILE:
        yield f"tile = {schedule.tile}: pieces have twice the keys that are wanted, and at most {MOST_TILE}"
    if schedule.short > MOST_THREADS:
        yield f"short = {schedule.short}: a warp has at most {MOST_THREADS} keys in registers"


def _excess_tile(schedule: MergeSchedule, kernel: func.FuncOp, target: GpuTarget) -> Iterator[str]:
    if schedule.tile < 2 or schedule.tile & (schedule.tile - 1):
        yield f"tile = {schedule.tile}: tiles have a power of two of keys"
    if schedule.by not in (MERGING, BYTES):
        yield f"by = '{schedule.by}': tiles are sorted by '{MERGING}' or by '{BYTES}'"
    if schedule.by == BYTES and schedule.tile_threads != THREADS:
        yield f"tile_threads = {schedule.tile_threads}: blocks that sort by bytes have {THREADS}"
    needed = 2 * schedule.tile * (key_bytes(kernel) + 4)
    if needed > target.shared_bytes:
        yield (
            f"tile = {schedule.tile}: its keys and positions take {needed} bytes of shared memory, and a block on "
            f"{target.name} has {target.shared_bytes}"
        )


MERGE_SCHEDULER = by_sizes(MERGE_KINDS, _choose, _excess)

"""How attention on a GPU is cut: the choice of its schedule, and what that may not be.

Sizes and dtypes decide, so that blu-choose-schedules chooses all; but whether Hopper's warpgroups take it, strides say,
so that it leaves the choice to blu-fit-schedules where sizes suit these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError
from blu.passes.gpu.attention.attention import SharedLayout
from blu.passes.gpu.attention.few_queries import decode
from blu.passes.gpu.attention.key_gradient import KeyTiles
from blu.passes.gpu.attention.limits import excesses, parts_misfit, strides_misfit, suits_joint, warpgroup_misfit
from blu.passes.gpu.attention.query_gradient import QueryTiles
from blu.passes.gpu.attention.schedule import (
    APART,
    GRADIENT_KINDS,
    KINDS,
    ONCE,
    REGISTERS,
    SHARED,
    STAY,
    TOGETHER,
    WARPS,
    FewQueriesSchedule,
    GradientTilesSchedule,
    JointGradientSchedule,
    PartsGradientSchedule,
    PartsSchedule,
    QueryTilesSchedule,
    SharedKeysSchedule,
    WarpgroupGradientSchedule,
    WarpgroupSchedule,
)
from blu.passes.gpu.attention.scores import STRIP
from blu.passes.gpu.attention.sizes import ScheduleSizes
from blu.passes.gpu.attention.warpgroups.order import is_one_round
from blu.passes.gpu.isa import wgmma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.kernels.schedules import Fields, Kinds, Schedule, Scheduler, make
from blu.passes.kernels.updates import find_operation

DECODING_WARPS = 16
"""Of a block that has a processor; half as many where all blocks have place at a time, else a quarter."""
_BLOCKS_AT_A_TIME = 4
"""Of half as many warps, on a processor."""
LARGEST_CLUSTER, KEYS_OF_BLOCK, CLUSTER_WARPS = 8, 64, 8
"""Blocks of a cluster at most, keys of each at least, and its warps."""
LARGEST_PAIR = 128
"""Columns up to which a warp's gradients of keys and of values fit in registers at a time."""
LARGEST_SPLIT = 80
"""Columns up to which tiles of 32 keys of f32, as sums of two tf32, leave a gradient of queries in registers."""
LEAST_WIDE, NARROW, WIDE, LONG, LONGER = 64, 80, 96, 1024, 2048
"""Columns above which groups may share tiles, and up to which three do of so many queries, and two in the launch for
gradients of queries of any; above, these are shared from so many queries on."""
SHARING_ROWS = 2 * wgmma.ROWS
LEAST_ROWS, WIDEST = 64, 256
"""Fewer queries or keys leave most of a warpgroup's tile empty; rows of more columns leave no registers."""
LARGEST_ALONE, LARGEST_OF_THREE_PANELS = 128, 192
"""Columns above which only groups that share tiles are fed; and those up to which larger tiles have room."""
WIDEST_TF32, WIDEST_TF32_GRADIENT = 128, 64
"""The same of tf32, whose left factors stay in registers: of the forward, and of gradients."""
LEAST_PARTS, ALL_PARTS, KEYS_OF_PARTS = 32, 3, 512
"""Columns of f32 from which on parts are multiplied, how many an f32 is, and keys for which a forward makes them.

On an H200 a forward of 256 keys is 9 % slower so, gradients 14 % faster.
"""
WARPGROUPS = (WarpgroupSchedule, SharedKeysSchedule, WarpgroupGradientSchedule, JointGradientSchedule)


def _choose(operation: ir.Operation, target: GpuTarget) -> Schedule:
    sizes = ScheduleSizes.of(operation)
    if decode.suits(operation):
        return _few_queries(sizes, target)
    return _choose_tiles(sizes, target)


def _choose_piece(operation: ir.Operation, target: GpuTarget) -> Schedule:
    """Of few queries nobody leaves logarithms, and ranks have many."""
    return _choose_tiles(ScheduleSizes.of(operation), target)


def _choose_tiles(sizes: ScheduleSizes, target: GpuTarget) -> Schedule:
    if suits_parts(sizes, target):
        return _parts(sizes)
    return _warpgroups(sizes, target) if suits_warpgroups(sizes, target) else _tiles(sizes, target)


def _piece_of_kind(kind: str, sizes: ScheduleSizes, target: GpuTarget) -> Schedule:
    return _by_warpgroups(kind, sizes, target) or _tiles(sizes, target)


def suits_warpgroups(sizes: ScheduleSizes, target: GpuTarget, of_gradient: bool = False) -> bool:
    """Whether warpgroups are the faster ones, as far as sizes say."""
    widest = WIDEST if sizes.size == 2 else WIDEST_TF32 if not of_gradient else WIDEST_TF32_GRADIENT
    is_long = min(sizes.queries, sizes.keys) >= LEAST_ROWS and sizes.widest <= widest
    return target.wgmma and is_long and not warpgroup_misfit(sizes)


def suits_parts(sizes: ScheduleSizes, target: GpuTarget, of_gradient: bool = False) -> bool:
    """Whether warpgroups multiply parts of f32 faster than warps do, as far as sizes say."""
    least = LEAST_PARTS if sizes.is_split else LEAST_WIDE + 1
    rows = LEAST_ROWS if of_gradient else KEYS_OF_PARTS
    is_long = min(sizes.queries, sizes.keys) >= rows and least <= sizes.widest <= LARGEST_ALONE
    has_parts = sizes.is_split or (of_gradient and sizes.size == 4)
    return target.wgmma and has_parts and is_long and not parts_misfit(sizes)


def suits_gradient(sizes: ScheduleSizes, target: GpuTarget) -> bool:
    """Whether warpgroups find the gradients faster, as far as sizes say."""
    return suits_parts(sizes, target, of_gradient=True) or suits_warpgroups(sizes, target, of_gradient=True)


def _part_gradient(sizes: ScheduleSizes) -> PartsGradientSchedule:
    return PartsGradientSchedule(ALL_PARTS if sizes.is_split else 2, 64)


def _parts(sizes: ScheduleSizes) -> PartsSchedule:
    return PartsSchedule(ALL_PARTS if sizes.is_split else 2, 2, 64, ONCE if sizes.causal else STAY)


def _warpgroups(sizes: ScheduleSizes, target: GpuTarget) -> Schedule:
    """Long rows leave shared memory the time for one reading of a tile: groups share them where all processors have
    such blocks.
    """
    if sizes.size == 4:
        return _warpgroup(sizes, target)
    if sizes.widest > LARGEST_ALONE:
        return _shared_keys(sizes)
    has_many = sizes.heads * ceil(sizes.queries / SHARING_ROWS) >= target.processors
    return _shared_keys(sizes) if has_many and sizes.widest > LEAST_WIDE else _warpgroup(sizes, target)


def _warpgroup(sizes: ScheduleSizes, target: GpuTarget) -> WarpgroupSchedule:
    """As many blocks on a processor as have registers: one alone leaves tensor cores idle while it computes weights.

    On an H200, tiles of 48 to 128 keys, or a third stage, were not faster where processors have many blocks in turn.
    Where they have not, those with most to do are soon alone with a causal mask, and then fewer steps count.
    """
    if sizes.size == 4:
        return WarpgroupSchedule(64, 1, 3 if sizes.widest <= 64 else 2)
    if sizes.widest > 64:
        return WarpgroupSchedule(64, 2, 2)
    are_few = is_one_round(sizes.heads * ceil(sizes.queries / wgmma.ROWS), target)
    is_long = sizes.causal and min(sizes.queries, sizes.keys) >= LONGER
    return WarpgroupSchedule(128, 2, 3) if is_long and are_few else WarpgroupSchedule(64, 2, 4)


def _shared_keys(sizes: ScheduleSizes) -> SharedKeysSchedule:
    if sizes.widest > LARGEST_ALONE:
        return SharedKeysSchedule(2, 112 if sizes.widest <= LARGEST_OF_THREE_PANELS else 80, 2, ONCE)
    # Three groups would have no registers for a mask as well.
    if sizes.queries < LONGER or sizes.widest > (NARROW if sizes.causal else WIDE):
        return SharedKeysSchedule(2, 128, 2, STAY)
    return SharedKeysSchedule(3, 112 if sizes.widest <= NARROW else 96, 2, STAY)


def _by_warpgroups(kind: str, sizes: ScheduleSizes, target: GpuTarget) -> Schedule | None:
    """The schedule of a kind of warpgroups."""
    if kind == SharedKeysSchedule.kind:
        return _shared_keys(sizes)
    if kind == PartsSchedule.kind:
        return _parts(sizes)
    return _warpgroup(sizes, target) if kind == WarpgroupSchedule.kind else None


def _few_queries(sizes: ScheduleSizes, target: GpuTarget) -> FewQueriesSchedule:
    """Blocks of a cluster share the keys of a query where there is a processor for each.

    Measured on an H100 with 600 keys: 12 queries of 64 columns take 8 blocks each, 96 are slower with four.
    """
    count, blocks = sizes.heads * sizes.queries, LARGEST_CLUSTER if target.wgmma else 1
    while blocks > 1 and (count * blocks > target.processors or sizes.keys < KEYS_OF_BLOCK * blocks):
        blocks //= 2
    if blocks > 1:
        return FewQueriesSchedule(max(CLUSTER_WARPS, ceil(sizes.columns[0] / WARP)), blocks)
    if count <= target.processors:
        return FewQueriesSchedule(DECODING_WARPS)
    share = 2 if count <= _BLOCKS_AT_A_TIME * target.processors else 4
    # A thread puts together what the warps have found for one column.
    return FewQueriesSchedule(max(DECODING_WARPS // share, ceil(sizes.columns[0] / WARP)))


def _tiles(sizes: ScheduleSizes, target: GpuTarget) -> QueryTilesSchedule:
    """Rows of more columns leave fewer registers, as does a mask. Two strips read half as much for each product."""
    if sizes.size == 4:
        wide = QueryTilesSchedule(2, 32)
        fits = SharedLayout.of(wide, *sizes.columns, sizes.size).memory.bytes <= target.shared_bytes
        is_wide = not sizes.is_split and not sizes.masked and sizes.queries > WARPS * STRIP
        return wide if is_wide and fits else QueryTilesSchedule(1, 32)
    if sizes.widest <= 64:
        return QueryTilesSchedule(2 if sizes.queries > WARPS * STRIP and not sizes.masked else 1, 64, REGISTERS)
    return QueryTilesSchedule(1, 64, REGISTERS) if sizes.widest <= 128 else QueryTilesSchedule(1, 32)


def _choose_gradient(operation: ir.Operation, target: GpuTarget) -> Schedule:
    sizes = ScheduleSizes.of(operation)
    if suits_parts(sizes, target, of_gradient=True):
        return _part_gradient(sizes)
    if suits_joint(operation, target):
        return JointGradientSchedule()
    is_by_groups = suits_warpgroups(sizes, target, of_gradient=True)
    return _warpgroup_gradient(sizes, target) if is_by_groups else _gradient_tiles(sizes, target)


def _gradient_of_kind(kind: str, sizes: ScheduleSizes, target: GpuTarget) -> Schedule:
    if kind == PartsGradientSchedule.kind:
        return _part_gradient(sizes)
    if kind == JointGradientSchedule.kind:
        return JointGradientSchedule()
    is_of_warpgroups = kind == WarpgroupGradientSchedule.kind
    return _warpgroup_gradient(sizes, target) if is_of_warpgroups else _gradient_tiles(sizes, target)


def _warpgroup_gradient(sizes: ScheduleSizes, target: GpuTarget) -> WarpgroupGradientSchedule:
    """Groups share tiles where they do in the forward, and of up to 128 columns in the launch for queries alone.

    Tiles of 80 or 112 keys were no faster.
    """
    if sizes.size == 4:
        return WarpgroupGradientSchedule(64, 2, 2, 64, 2, 2)
    if sizes.widest <= 64:
        return WarpgroupGradientSchedule(64, 2, 4, 64, 2, 3)
    if sizes.widest > LARGEST_ALONE:
        tiles = (64, 2, 1, 64, 2, 1) if sizes.widest <= LARGEST_OF_THREE_PANELS else (48, 2, 1, 32, 3, 1)
        return WarpgroupGradientSchedule(*tiles, 2, 2, APART)
    apart = WarpgroupGradientSchedule(64, 2, 2, 64, 2, 2)
    if not isinstance(_warpgroups(sizes, target), SharedKeysSchedule):
        return apart
    if sizes.widest > WIDE and sizes.queries < LONG:
        return apart
    return replace(apart, keys=64 if sizes.causal else 96, query_blocks=1, query_groups=2)


def _gradient_tiles(sizes: ScheduleSizes, target: GpuTarget) -> GradientTilesSchedule:
    """The largest tiles whose sums fit in registers, beside a mask, and in shared memory."""
    launches = APART if sizes.widest > LARGEST_PAIR else TOGETHER
    return GradientTilesSchedule(*_of_queries(sizes, target), *_of_keys(sizes, target), launches)


def _of_queries(sizes: ScheduleSizes, target: GpuTarget) -> tuple[int, int, int, str]:
    is_narrow = sizes.size == 2 and sizes.widest <= 64
    strips = 2 if is_narrow and sizes.queries > 4 * STRIP and not sizes.masked else 1
    is_wide = _is_wide(sizes, LARGEST_SPLIT if sizes.is_split else 64)
    keys, left = (64, REGISTERS) if is_narrow and strips == 1 else (16 if is_wide else 32, SHARED)
    choices = ((warps, strips, keys, left) for warps in (4, 2, 1))
    fits = lambda choice: QueryTiles.of(*choice, sizes.columns, sizes.size).memory.bytes <= target.shared_bytes  # noqa: E731
    return next(filter(fits, choices))


def _is_wide(sizes: ScheduleSizes, most: int = 64) -> bool:
    """Whether rows of four bytes have more columns than `most`, so that larger tiles leave too few registers."""
    return sizes.size == 4 and sizes.widest > most


def _of_keys(sizes: ScheduleSizes, target: GpuTarget) -> tuple[int, int, int, str]:
    is_narrow = sizes.size == 2 and sizes.widest <= 64
    has_room = sizes.widest <= (48 if sizes.size == 2 else 0 if sizes.is_split else 64)
    strips = 2 if has_room and sizes.keys > 4 * STRIP and not sizes.masked else 1
    queries, left = (64, REGISTERS) if is_narrow and strips == 1 else (16 if _is_wide(sizes) else 32, SHARED)
    cuts = ((4, queries), (4, 16), (2, 16))
    # Of tf32, smaller blocks, of which there are more on a processor, are faster.
    is_small = _is_wide(sizes) and not sizes.is_split
    choices = ((warps, strips, tile, left) for warps, tile in (cuts[2:] if is_small else cuts))
    fits = lambda choice: KeyTiles.of(*choice, sizes.columns, sizes.size).memory.bytes <= target.shared_bytes  # noqa: E731
    return next(filter(fits, choices))


def _around(
    name: str,
    choose: Callable[[ir.Operation, GpuTarget], Schedule],
    of_kind: Callable[[str, ScheduleSizes, GpuTarget], Schedule],
    kinds: Kinds,
) -> Scheduler:
    """The scheduler of kernels around an op."""

    def make_schedule(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Schedule:
        operation = find_operation(kernel, name)
        chosen = choose(operation, target)
        if isinstance(chosen, WARPGROUPS) and not given and strides_misfit(kernel, operation):
            chosen = of_kind("", ScheduleSizes.of(operation), target)
        kind = str(given.get("kind", chosen.kind))
        is_other = kind != chosen.kind and kind in kinds
        like = of_kind(kind, ScheduleSizes.of(operation), target) if is_other else chosen
        schedule = make(kinds, {"kind": chosen.kind, **given}, like.fields)
        if schedule != chosen and (message := next(excesses(schedule, operation, target), "")):
            raise ParseError(message)
        return schedule

    def choose_fields(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Fields:
        """Nothing where strides decide."""
        schedule = make_schedule(kernel, target, given)
        return {} if isinstance(schedule, WARPGROUPS) and not given else schedule.fields

    def fit(kernel: func.FuncOp, target: GpuTarget, given: Fields) -> Schedule:
        schedule = make_schedule(kernel, target, given)
        message = strides_misfit(kernel, find_operation(kernel, name)) if isinstance(schedule, WARPGROUPS) else ""
        if message:
            raise ParseError(message)
        return schedule

    return Scheduler(choose_fields, fit)


def _forward_of_kind(kind: str, sizes: ScheduleSizes, target: GpuTarget) -> Schedule:
    if kind == FewQueriesSchedule.kind:
        return _few_queries(sizes, target)
    return _by_warpgroups(kind, sizes, target) or _tiles(sizes, target)


SCHEDULER = _around("blu.attention", _choose, _forward_of_kind, KINDS)
PIECE_KINDS = {kind: cls for kind, cls in KINDS.items() if cls is not FewQueriesSchedule}
PIECE_SCHEDULER = _around("blu.attention_piece", _choose_piece, _piece_of_kind, PIECE_KINDS)
GRADIENT_SCHEDULER = _around("blu.attention_gradient", _choose_gradient, _gradient_of_kind, GRADIENT_KINDS)

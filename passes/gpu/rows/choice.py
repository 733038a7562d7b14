"""How a row kernel on a GPU is cut: the choice of its schedule, by sizes first, then by strides.

Only blu-choose-schedules and blu-fit-schedules choose. What they have chosen is written on the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, gcd, prod

from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.rows.ahead import find_sources
from blu.passes.gpu.rows.bodies import WIDEST, element_bytes
from blu.passes.gpu.rows.group import RowGroup, RowOperand, elements_of
from blu.passes.gpu.rows.schedule import (
    AHEAD,
    DIRECTLY,
    INPUTS,
    VALUES,
    ColumnRangesSchedule,
    ColumnsSchedule,
    PointsSchedule,
    RowRangesSchedule,
    RowsAheadSchedule,
    RowSchedule,
    RowsSchedule,
    SlicesSchedule,
    SquaresSchedule,
    SweepSchedule,
)
from blu.passes.gpu.rows.sums import RangeGroup, copied_ahead
from blu.passes.gpu.rows.transposes import find_square
from blu.passes.gpu.rows.walks import RowKernel
from blu.passes.kernels.rows.program import RowProgram
from blu.passes.kernels.schedules import Schedule

WARP = 32
BLOCK = 128
"""Threads of a block whose rows are worked on by a part of it."""
WORDS_OF_WARP_ROW = 96
"""Registers that a thread may use for its share of a row's inputs, where one warp has a row."""
WORDS = {128: 72, 256: 72, 512: 64, 1024: 28}
"""The same for blocks that have a row, by their threads: some blocks should fit on a processor."""
HIDDEN_WORDS = {128: 64, 256: 64, 640: 48}
"""The same for rows of which nothing else is kept: few, but more than fit with all that is made from them."""
FEW_ROWS = 64
"""Rows that leave most processors without work, so that only the time of one row counts."""
FEW_VECTORS = 2
"""Vectors of a thread in such a row."""
READ_CLUSTERS = ((2, 640, 52, 1), (4, 640, 52, 1), (8, 640, 52, 1))
"""Blocks that can have a row together, their threads, registers for a thread's part of a row, and blocks of a
processor, best first. 8 are the most blocks that every Hopper GPU runs at the same time."""
WRITTEN_CLUSTERS = ((2, 640, 36, 1), (4, 192, 68, 3), (4, 640, 52, 1), (8, 640, 52, 1))
"""The same for rows along which something is written: with more registers, ptxas would spill some."""
HALVES_CLUSTERS = ((4, 320, 24, 2), (4, 640, 28, 1), (8, 640, 52, 1))
"""The same where all that is kept of such rows has 16 bits: also for rows that one block could have."""
FEW_CLUSTERS = {4: ((8, 128, 50, 7), (8, 640, 52, 1)), 2: ((8, 128, 28, 7), (8, 640, 32, 1))}
"""The same for rows that are fewer than twice the processors, by the bytes of an element of the one input that they
have: about as many clusters run at the same time as there are rows."""
WRITTEN_LANES = 4
"""Elements that a thread writes at once, where a row in its registers leaves none for more."""
SWEEP_THREADS = 1024
"""One block to a processor: what it reads again is still in the second-level cache."""
FEW_ELEMENTS = 16
"""Elements that a thread of a sweep reads at once, below which two such blocks have registers on a processor."""
SLICE_THREADS = 512
FLAT_THREADS = 128
FLAT_IN_FLIGHT = 32
"""Bytes that a thread of a pointwise kernel has asked for before it computes; others ask meanwhile."""
COLUMN_BLOCK = 256
IN_FLIGHT = 64
"""The same for a step of a loop over a row or a column."""
SUM_BLOCK = 256
"""Threads of a block whose rows are worked on by a part of it, and columns added up: as many as have registers."""
SUM_WORDS_OF_WARP_ROW = 192
"""Registers that a thread may use for its share of a row and of sums, where a warp has a row."""
SUM_WORDS = {256: 80, 512: 80, 1024: 24}
"""The same for blocks that have a row, by their threads."""
BLOCKS_PER_PROCESSOR = 4
SLICE = 8192
"""Elements of a row that a block should have at least."""
ALONE = 4 * SLICE
"""Elements that one block reads in the time of a launch."""
RANGE = 64
"""Rows of a column that a block should have at least."""
FEW_COLUMN_ROWS = 1024
"""Rows of a column that one block adds up alone."""
MOST_PARTS = 256
COLUMN_THREADS = 32
"""Threads beside each other in a block that reduces columns."""
FEWEST_COLUMN_THREADS = 8
"""Threads that read a piece of a row together: of 16 bytes each, 128."""
COLUMN_CLUSTER = 8
"""Blocks that add up columns together, where that takes no second launch then."""
COLUMN_CLUSTER_BLOCK = 256
COLUMN_CLUSTER_WIDTHS = (32, 16, 8)
"""Threads beside each other in such blocks, best first."""
FEW_BLOCKS = 64


# Before strides are known


def count_parts(program: RowProgram, target: GpuTarget) -> int:
    """In how many parts to split reductions: rows that are few and long, and columns that are long."""
    width = prod(program.sizes[dim] for dim in program.columns)
    points = prod(program.sizes) // width
    wanted = BLOCKS_PER_PROCESSOR * target.processors
    if program.across:
        enough = points >= 2 * target.processors or width < 2 * SLICE or _is_soon_added_up(program)
        return 1 if enough else min(ceil(width / SLICE), ceil(wanted / points), MOST_PARTS)
    lanes = WIDEST // max(element_bytes(type_) for type_ in elements_of(program))
    if width <= FEW_COLUMN_ROWS or cluster_width(width, ceil(points / lanes), target):
        return 1
    tiles = ceil(points / (lanes * COLUMN_THREADS))
    return max(1, min(width // RANGE, ceil(wanted / tiles), MOST_PARTS))


def cluster_width(rows: int, count: int, target: GpuTarget) -> int:
    """Threads beside each other in clusters that each have some of `count` vectors of columns, and add up all rows: as
    many as leave a block for each processor, or 0 where there would be too few blocks, or no time to gain."""
    if not target.clusters or rows <= FEW_COLUMN_ROWS:
        return 0
    blocks = {width: COLUMN_CLUSTER * ceil(count / width) for width in COLUMN_CLUSTER_WIDTHS}
    most = max(blocks.values())
    enough = [width for width in COLUMN_CLUSTER_WIDTHS if blocks[width] >= min(target.processors, most)]
    return enough[0] if target.processors <= 2 * most else 0


def _is_soon_added_up(program: RowProgram) -> bool:
    """Whether a block finds all results of a group sooner than another launch begins that would put parts together."""
    is_wide = any(program.is_wide(value) for value in program.outputs)
    is_once = all(program.levels[number] == 0 for number in program.reductions)
    return prod(program.sizes) <= ALONE and is_once and not is_wide


# With strides


def choose_kind(group: RowGroup, target: GpuTarget, split: int) -> Schedule:
    """The schedule of a group, whose reductions have memory for so many parts."""
    if not group.layout.columns:
        square = find_square(group.program, group.layout, group.frame)
        return SquaresSchedule(square.side) if square else choose_points(group)
    if not group.program.across:
        return choose_columns(group, target, split)
    if split == 1:
        return choose_rows(group, target)
    return _choose_few(group, target) or choose_slices(group, split)


def choose_rows(group: RowGroup, target: GpuTarget) -> Schedule:
    """The schedule of a row for each team of threads."""
    schedule = _choose_alone(group)
    is_long = isinstance(schedule, SweepSchedule) or (isinstance(schedule, RowsSchedule) and schedule.keeps == INPUTS)
    return (is_long and _choose_ahead(group, target, schedule)) or schedule


def _choose_alone(group: RowGroup) -> RowsSchedule | SweepSchedule:
    """The same without regard to what could be read ahead."""
    operands, lanes, width = group.operands, group.lanes, group.width
    inputs = [operand for operand in operands if operand.is_input]
    raw, made = kept_words(operands, lanes), max(sum(operand.words for operand in inputs), 1.0)
    team = team_of_warp(width, lanes)
    is_alone = group.rows < FEW_ROWS and width > FEW_VECTORS * lanes * team
    if width <= WORDS_OF_WARP_ROW * team / made and not is_alone:
        return RowsSchedule(BLOCK, lanes, team)
    for keeps, need, limits in ((VALUES, made, WORDS), (INPUTS, raw, HIDDEN_WORDS)):
        if keeps == INPUTS and group.writes_rows:
            lanes = min(lanes, WRITTEN_LANES)
        fitting = {threads: ceil(width / (lanes * threads)) for threads in limits}
        fitting = {threads: chunks for threads, chunks in fitting.items() if chunks * lanes * need <= limits[threads]}
        if fitting:
            threads = _fast_alone(fitting) if is_alone else min(fitting)
            return RowsSchedule(threads, lanes, threads, keeps)
    return choose_sweep(group)


def _choose_ahead(group: RowGroup, target: GpuTarget, alone: Schedule) -> RowsAheadSchedule | None:
    """The schedule of blocks, or clusters of them, that read ahead, if there are enough rows, which fit."""
    if not target.tma or group.rows <= target.processors:
        return None
    if not isinstance(alone, RowsSchedule) or _is_better_shared(group, alone):
        return _choose_cluster(group, target, _clusters(group, kept_words(group.operands, group.lanes)))
    schedule = RowsAheadSchedule(alone.threads, alone.lanes)
    return schedule if can_read_ahead(group, schedule, target) else None


def can_read_ahead(group: RowGroup, schedule: RowsAheadSchedule, target: GpuTarget) -> bool:
    """Whether what walks read can be copied, and fits in shared memory."""
    return bool(find_sources(RowKernel.plan(group, schedule.cut(group.width)), group.frame, target))


def _choose_few(group: RowGroup, target: GpuTarget) -> RowsAheadSchedule | None:
    """The schedule of clusters that have a few long rows, of one input, in their registers: none reads it twice."""
    inputs = [operand for operand in group.operands if operand.is_input]
    if len(inputs) != 1 or not inputs[0].is_kept:
        return None
    return _choose_cluster(group, target, FEW_CLUSTERS.get(inputs[0].size, ()))


def _choose_cluster(
    group: RowGroup, target: GpuTarget, clusters: tuple[tuple[int, int, int, int], ...]
) -> RowsAheadSchedule | None:
    """The schedule of the first blocks of some that have a row in their registers together, if it can be copied."""
    lanes, need = group.lanes, kept_words(group.operands, group.lanes)
    for blocks, threads, limit, per_processor in clusters if target.tma else ():
        if ceil(group.width / (lanes * threads * blocks)) * lanes * need <= limit:
            schedule = RowsAheadSchedule(threads, lanes, blocks, per_processor)
            return schedule if can_read_ahead(group, schedule, target) else None
    return None


def _is_better_shared(group: RowGroup, schedule: RowsSchedule) -> bool:
    """Whether several blocks should have a row although one could: two on a processor write faster than one there."""
    if schedule.threads != max(HIDDEN_WORDS):
        return False
    return _clusters(group, kept_words(group.operands, group.lanes)) is HALVES_CLUSTERS


def _clusters(group: RowGroup, need: float) -> tuple[tuple[int, int, int, int], ...]:
    if not group.writes_rows:
        return READ_CLUSTERS
    return WRITTEN_CLUSTERS if need > 0.5 else HALVES_CLUSTERS


def kept_words(operands: list[RowOperand], lanes: int) -> float:
    """Registers for an element of a row of which only what is read in several walks is kept, as it was read."""
    kept = [operand for operand in operands if operand.is_input and operand.is_kept]
    return max(sum(ceil(operand.size * lanes / 4) / lanes for operand in kept), 0.5)


def _fast_alone(fitting: dict[int, int]) -> int:
    """Threads of a block that has a processor for itself: as many as have something to wait for, of some numbers of
    threads with the vectors that each would have."""
    return min((threads for threads, chunks in fitting.items() if chunks <= FEW_VECTORS), default=max(fitting))


def team_of_warp(width: int, lanes: int) -> int:
    """As many threads of a warp as have something to do, a power of two."""
    vectors_of_row = max(1, width // lanes)
    return min(WARP, 1 << (vectors_of_row - 1).bit_length())


def choose_sweep(group: RowGroup) -> SweepSchedule:
    """The schedule of blocks that walk over rows in loops."""
    unroll = _sweep_unroll(group)
    # A second block on a processor, for which there are registers, would drive out of the second-level cache what this
    # one reads again.
    return SweepSchedule(SWEEP_THREADS, group.lanes, unroll, 1 if group.lanes * unroll < FEW_ELEMENTS else 2)


def choose_slices(group: RowGroup, split: int) -> SlicesSchedule:
    """The schedule of blocks that each have a slice of a row."""
    return SlicesSchedule(SLICE_THREADS, group.lanes, _sweep_unroll(group), split)


def _sweep_unroll(group: RowGroup) -> int:
    return max(1, min(8, IN_FLIGHT // max(_vector_bytes(group.operands, group.lanes), 1)))


def _vector_bytes(operands: list[RowOperand], lanes: int) -> int:
    return sum(operand.size * lanes for operand in operands if operand.is_input)


def choose_columns(group: RowGroup, target: GpuTarget, split: int) -> ColumnsSchedule:
    """The schedule of threads that each have some columns."""
    lanes, unroll = _column_vectors(group)
    if split == 1 and (width := cluster_width(group.width, group.rows // lanes, target)):
        threads, blocks = COLUMN_CLUSTER_BLOCK, COLUMN_CLUSTER
        return ColumnsSchedule(threads, lanes, width, unroll, cluster=blocks, per_processor=BLOCKS_PER_PROCESSOR)
    fewest = FEWEST_COLUMN_THREADS if split == 1 else COLUMN_THREADS
    return ColumnsSchedule(COLUMN_BLOCK, lanes, _column_width(group.rows // lanes, fewest), unroll, split)


def choose_column_ranges(group: RangeGroup) -> ColumnRangesSchedule:
    """The same where each block has a range of rows: it takes whole steps, if it can."""
    lanes, most = _column_vectors(group)
    width = _column_width(group.rows // lanes, COLUMN_THREADS)
    depth = COLUMN_BLOCK // width
    length = group.sums[0].length
    unroll = max([count for count in range(1, most + 1) if length % (depth * count) == 0], default=1)
    return ColumnRangesSchedule(COLUMN_BLOCK, lanes, width, unroll)


def _column_vectors(group: RowGroup) -> tuple[int, int]:
    """Elements of a vector, as wide as the widest type allows, and vectors that a thread has under way."""
    sizes = [operand.size for operand in group.operands if operand.stride == 1]
    lanes = gcd(WIDEST // max(sizes, default=WIDEST), group.vector_size)
    return lanes, max(1, min(8, 2 * IN_FLIGHT // max(_vector_bytes(group.operands, lanes), 1)))


def _column_width(count: int, fewest: int) -> int:
    """Vectors beside each other in a block, of `count`: at least `fewest` if there are so many.

    Where there is one range of rows only, more blocks have fewer columns each.
    """
    width = min(COLUMN_THREADS, 1 << (count - 1).bit_length())
    while width > fewest and ceil(count / width) < FEW_BLOCKS:
        width //= 2
    return width


def choose_points(group: RowGroup) -> PointsSchedule:
    """The schedule of threads that each have some elements."""
    lanes, elements = group.lanes, prod(group.layout.sizes.values())
    unroll = max(1, min(4, FLAT_IN_FLIGHT // max(_vector_bytes(group.operands, lanes), WIDEST)))
    while unroll > 1 and elements < FLAT_THREADS * lanes * unroll * 512:
        unroll //= 2
    return PointsSchedule(FLAT_THREADS, lanes, unroll)


def choose_row_ranges(group: RangeGroup, target: GpuTarget) -> RowRangesSchedule:
    """How threads share a row, so that inputs and sums of columns stay in registers."""
    inputs, width = [operand for operand in group.operands if operand.is_input], group.width
    # Inputs, of which most is read, come in whole vectors: narrower outputs may be written in parts of them.
    lanes = gcd(WIDEST // max((operand.size for operand in inputs), default=WIDEST), width)
    need = sum(operand.words for operand in inputs) + len(group.sums)
    team = team_of_warp(width, lanes)
    if ceil(width / (lanes * team)) * lanes * need <= SUM_WORDS_OF_WARP_ROW:
        schedule = RowRangesSchedule(SUM_BLOCK, lanes, team)
        # Where a block has a row, others read while its threads wait for each other.
        return replace(schedule, reads=AHEAD if copied_ahead(group, schedule, target) else DIRECTLY)
    fitting = [threads for threads, limit in SUM_WORDS.items()
               if ceil(width / (lanes * threads)) * lanes * need <= limit]  # fmt: skip
    threads = fitting[0] if fitting else max(SUM_WORDS)
    return RowRangesSchedule(threads, lanes, threads)


def choose_block(group: RowGroup) -> RowSchedule:
    """The threads and the vectors of a block that has a row in registers, whether or not that is best."""
    vectors = ceil(group.width / group.lanes)
    threads = min(1024, ceil(vectors / (FEW_VECTORS * WARP)) * WARP)
    return RowsSchedule(threads, group.lanes, threads)


def reduction_types(program: RowProgram, split: int) -> list[ir.MemRefType]:
    """The buffers for what parts of reductions come to: one for each result of a reduction."""
    points = prod(program.sizes) // prod(program.sizes[dim] for dim in program.columns)
    return [ir.MemRefType.get([split * points], element) for element in elements_of(program)]

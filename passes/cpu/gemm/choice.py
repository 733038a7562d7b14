"""How a matrix product on the CPU is cut: the choice of its schedule, and what that may not be.

The rules come from measurements on an Intel Xeon with AVX-512 (bench/ has the numbers):
* up to 8 rows, the weights are read once and memory is the limit: wide tiles read them in place, fetching ahead;
* from there on, the first tile of rows packs a panel for a chunk of about 128 rows, while the next panel is fetched;
* with many rows, a few panels stay packed in L2 together and the rows stream by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from blu.dialects.core.mlir import func
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.cpu.gemm import gemv, gemv_rows
from blu.passes.cpu.gemm.gemm import contraction_of, product_of
from blu.passes.cpu.gemm.merged import has_parts
from blu.passes.cpu.gemm.schedule import (
    CHAIN,
    KINDS,
    PanelTilesSchedule,
    ReadColumnsSchedule,
    ReadRowsSchedule,
    is_long,
)
from blu.passes.kernels.contraction import Contraction
from blu.passes.kernels.schedules import Fields, Schedule, by_strides

FEW_ROWS = 8
MANY_ROWS = 384
CHUNK_ROWS = 128
WHOLE_DEPTH = 768
"""k in one piece up to this; else in equal blocks of at most `DEPTH_BLOCK`."""
DEPTH_BLOCK = 512
LEAST_ROWS, MOST_ROWS = 256, 1024
"""Of chunks whose panels are packed together: fewer than the most only where there would be too few blocks."""
BLOCKS = 8
"""Blocks of the grid to aim at: enough to keep a few threads evenly busy."""
GROUP_PANELS = 12
TOTALS_BYTES = 128 * 1024
"""Limit of the scratch memory in which sums wait between blocks of k."""
SET_BYTES = 432 * 1024
"""Limit of the panels that are packed together: they share L2 with the rows."""
IN_PLACE_BYTES = 32 * 1024
"""A right operand up to this size stays in L1, where packing gains nothing."""
READ_COLUMNS = 512
"""Columns of a block that reads the matrix along k."""
READ_ROWS_COLUMNS = 384
"""Columns of a block that reads it along its rows."""
READ_ROWS_BLOCKS = 8
SHARED_TERMS = 1 << 19
"""Of a product of few rows and columns: from so many on, two threads have half of its columns each."""
BLOCK_TERMS = 1 << 21
"""So many terms, 40 us, are no block for one thread while others wait."""
READ_ROWS_BYTES = 32 * 1024
"""Limit of the scratch memory for the sums of such a block."""
MOST_STACK_BYTES = 1 << 20
"""Of what others may wish for, on the stack of a thread."""


def _choose_kind(contraction: Contraction, target: CpuTarget) -> Schedule:
    if contraction.is_empty:
        return PanelTilesSchedule(1, 1, 1, 1, 1)
    if gemv_rows.accepts(contraction):
        return _read_rows(contraction, target)
    return _read_columns(contraction, target) if gemv.accepts(contraction) else _tiles(contraction, target)


def _read_rows(contraction: Contraction, target: CpuTarget) -> ReadRowsSchedule:
    """Shares of the columns: enough for some threads, none larger than the scratch memory."""
    rows, columns, lanes = (
        contraction.size(contraction.rows),
        contraction.size(contraction.columns),
        _lanes(contraction, target),
    )
    row_bytes = rows * columns * contraction.accumulator.width // 8
    is_shared = columns > lanes and rows * columns * contraction.size(contraction.depth) >= SHARED_TERMS
    wanted = min(READ_ROWS_BLOCKS, columns // READ_ROWS_COLUMNS)
    groups = max(1 + is_shared, wanted, -(-row_bytes // READ_ROWS_BYTES))
    return ReadRowsSchedule(max(1, -(-columns // (groups * lanes))) * lanes)


def _read_columns(contraction: Contraction, target: CpuTarget) -> ReadColumnsSchedule:
    lanes = _lanes(contraction, target)
    count = -(-contraction.size(contraction.columns) // lanes)
    return ReadColumnsSchedule(max(1, min(READ_COLUMNS // lanes, count // 8)) * lanes)


def _lanes(contraction: Contraction, target: CpuTarget) -> int:
    return target.lanes(contraction.accumulator.width // 8)


def _tiles(contraction: Contraction, target: CpuTarget) -> PanelTilesSchedule:
    schedule = _choose(contraction, target)
    if not is_long(contraction):
        return schedule
    panel_bytes = schedule.chunk_rows * schedule.columns * contraction.accumulator.width // 8
    group = max(1, min(schedule.group_panels, TOTALS_BYTES // panel_bytes))
    return replace(schedule, depth_block=CHAIN, group_panels=group, packed_panels=min(schedule.packed_panels, group))


def _choose(contraction: Contraction, target: CpuTarget) -> PanelTilesSchedule:
    rows, columns = contraction.size(contraction.rows), contraction.size(contraction.columns)
    lanes = target.lanes(contraction.accumulator.width // 8)
    whole_vectors = max(1, -(-columns // lanes))
    sums = target.gemm_rows * target.gemm_vectors
    if rows <= FEW_ROWS and _in_rows(contraction):
        tile_rows = max(1, min(rows, 4))
        tile_vectors = min(sums // tile_rows, whole_vectors)
        panels = -(-columns // (tile_vectors * lanes))
        group = _group(contraction, panels, 1)
        ahead = 8 if tile_rows > 1 else 0
        return PanelTilesSchedule(tile_rows, tile_vectors, lanes, _whole_depth(contraction), rows or 1, group, 0, ahead)
    tile_rows, tile_vectors = _choose_tile(rows, whole_vectors, target)
    panels = -(-columns // (tile_vectors * lanes))
    if rows >= MANY_ROWS:
        return _many_rows(contraction, tile_rows, tile_vectors, lanes, panels)
    chunks = max(1 + _is_shared(contraction, tile_rows, panels), round(rows / CHUNK_ROWS))
    chunk_rows = -(-rows // chunks // tile_rows) * tile_rows
    if _stays_in_cache(contraction):
        group = _group(contraction, panels, chunks)
        return PanelTilesSchedule(tile_rows, tile_vectors, lanes, _whole_depth(contraction), chunk_rows, group, 0)
    depth = _depth_block(contraction)
    group = _group(contraction, panels, chunks)
    if depth < contraction.size(contraction.depth) or contraction.outer_depth:
        panel_bytes = chunk_rows * tile_vectors * lanes * contraction.accumulator.width // 8
        # The rows are read again for every group: half as many groups, as far as the scratch memory goes.
        group = max(1, min(2 * group, TOTALS_BYTES // panel_bytes))
        return PanelTilesSchedule(tile_rows, tile_vectors, lanes, depth, chunk_rows, group, 1)
    return PanelTilesSchedule(tile_rows, tile_vectors, lanes, depth, chunk_rows, 1, 1, claim=group)


def _is_shared(contraction: Contraction, tile_rows: int, panels: int) -> bool:
    """Whether a product that would be one block is worth two, of half of its rows: panels are packed for each."""
    rows, columns = contraction.size(contraction.rows), contraction.size(contraction.columns)
    terms = rows * columns * contraction.size(contraction.depth)
    is_alone = panels <= 2 and not any(contraction.size(dim) > 1 for dim in contraction.outer)
    return is_alone and rows >= 2 * tile_rows and terms >= BLOCK_TERMS


def _in_rows(contraction: Contraction) -> bool:
    """Whether the right operand can be read in place: neighbours along the columns lie side by side."""
    return contraction.right.stride(contraction.columns) in (1, None)


def _stays_in_cache(contraction: Contraction) -> bool:
    """A right operand in the type of the sums that is so small that each tile may read it in place."""
    panel = contraction.size(contraction.depth) * contraction.size(contraction.columns)
    same_type = contraction.right.element == contraction.accumulator
    small = panel * contraction.accumulator.width // 8 <= IN_PLACE_BYTES
    return _in_rows(contraction) and same_type and small


def _whole_depth(contraction: Contraction) -> int:
    return max(1, contraction.size(contraction.depth))


def _depth_block(contraction: Contraction) -> int:
    """Equal blocks of k, or all of k."""
    depth = _whole_depth(contraction)
    if depth <= WHOLE_DEPTH:
        return depth
    blocks = -(-depth // DEPTH_BLOCK)
    return -(-depth // blocks // 16) * 16


def _group(contraction: Contraction, panels: int, chunks: int) -> int:
    """Panels per block of the grid, so that there are about `BLOCKS` blocks or more."""
    outer = prod(contraction.size(dim) for dim in contraction.outer)
    return max(1, min(GROUP_PANELS, panels * chunks * outer // BLOCKS, panels))


def _many_rows(contraction: Contraction, rows: int, vectors: int, lanes: int, panels: int) -> PanelTilesSchedule:
    """A set of panels stays packed in L2 and the rows stream by."""
    count = contraction.size(contraction.rows)
    depth = _whole_depth(contraction)
    panel_bytes = depth * vectors * lanes * contraction.accumulator.width // 8
    together = min(3, panels, SET_BYTES // panel_bytes)
    has_blocks = contraction.outer_depth or has_parts(contraction, contraction.depth) or is_long(contraction)
    if together < 2 or has_blocks:
        depth, group = _depth_block(contraction), min(5, panels)
        return PanelTilesSchedule(rows, vectors, lanes, depth, _even_chunks(count, rows, -(-panels // group)), group, 1)
    chunks = max(-(-count // MOST_ROWS), min(count // LEAST_ROWS, -(-BLOCKS * together // panels)))
    chunk_rows = -(-count // chunks // rows) * rows
    return PanelTilesSchedule(rows, vectors, lanes, depth, chunk_rows, together, together)


def _even_chunks(count: int, rows: int, groups: int) -> int:
    """Rows of chunks of about as many as `CHUNK_ROWS`, of which the last has about as many as the others.

    Where there are few blocks, chunks are an even number: two threads have equal shares.
    """
    chunks = -(-count // CHUNK_ROWS)
    if chunks * groups < 2 * BLOCKS:
        chunks += chunks % 2
    return -(-count // chunks // rows) * rows


def _choose_tile(rows: int, whole_vectors: int, target: CpuTarget) -> tuple[int, int]:
    """Rows and vectors of a tile: the target's own, or one that cuts a narrow result with less waste.

    Two equal panels are half of the code of a panel and a narrow one.
    """
    sums = target.gemm_rows * target.gemm_vectors
    own = (target.gemm_rows, target.gemm_vectors)
    others = [(sums // width, width) for width in (4, 3, 2, 1) if width != own[1]]
    if own[1] < whole_vectors < 2 * own[1] and rows < MANY_ROWS and not whole_vectors % 2:
        others.append((own[0], whole_vectors // 2))
    tiles = [own, *(tile for tile in others if _registers(*tile) <= target.registers)]
    return min(((min(r, rows or 1), v) for r, v in tiles), key=lambda tile: _cost(tile, rows, whole_vectors))


def _registers(rows: int, vectors: int) -> int:
    """What a tile keeps while k runs: its sums, a row of the panel, and a factor."""
    return rows * vectors + vectors + 1


def _cost(tile: tuple[int, int], rows: int, whole_vectors: int) -> float:
    """Time of one step of k: a tile takes its multiply-adds or its loads, two of either a cycle."""
    tile_rows, tile_vectors = tile
    full, rest = divmod(whole_vectors, tile_vectors)
    each = [tile_vectors] * full + ([rest] if rest else [])
    return -(-rows // tile_rows) * sum(max(tile_rows * width, tile_rows + width) for width in each)


# What does not fit


def _excesses(schedule: Schedule, kernel: func.FuncOp, target: CpuTarget) -> Iterator[str]:
    contraction = contraction_of(kernel)
    lanes, size = _lanes(contraction, target), contraction.accumulator.width // 8
    if isinstance(schedule, PanelTilesSchedule):
        yield from _excess_tiles(schedule, contraction, target)
        return
    assert isinstance(schedule, ReadRowsSchedule | ReadColumnsSchedule), "there is no other kind"
    accepts, most = (
        (gemv_rows.accepts, gemv_rows.MOST_ROWS)
        if isinstance(schedule, ReadRowsSchedule)
        else (gemv.accepts, gemv.MOST_ROWS)
    )
    if not accepts(contraction):
        along = "columns" if isinstance(schedule, ReadRowsSchedule) else "k"
        neighbours = f"a matrix whose neighbours along {along} are so in memory"
        yield f"kind '{schedule.kind}' takes at most {most} rows, and {neighbours}"
    if schedule.columns % lanes:
        yield f"columns = {schedule.columns}: blocks have a multiple of {lanes} columns, a vector of {target.name}"
    needed = contraction.size(contraction.rows) * schedule.columns * size
    if isinstance(schedule, ReadRowsSchedule) and needed > MOST_STACK_BYTES:
        yield f"columns = {schedule.columns}: their sums take {needed} bytes, of {MOST_STACK_BYTES}"


def _excess_tiles(schedule: PanelTilesSchedule, contraction: Contraction, target: CpuTarget) -> Iterator[str]:
    rows = schedule.rows
    columns, size, lanes = schedule.columns, contraction.accumulator.width // 8, _lanes(contraction, target)
    if contraction.is_empty:
        yield "there is nothing to multiply"
    if schedule.lanes != lanes:
        yield f"lanes = {schedule.lanes}: a vector of {target.name} has {lanes} elements here"
    if _registers(rows, schedule.vectors) > target.registers:
        tile = f"a tile of {rows} x {schedule.vectors} vectors"
        yield f"{tile} takes more than the {target.registers} registers of {target.name}"
    if schedule.chunk_rows % rows and schedule.chunk_rows < contraction.size(contraction.rows):
        yield f"chunk_rows = {schedule.chunk_rows}: blocks have a multiple of {rows} rows, or all"
    if is_long(contraction) and schedule.depth_block != CHAIN:
        yield f"depth_block = {schedule.depth_block}: sums of so many products are of chains of {CHAIN}, on all targets"
    if schedule.packed_panels > schedule.group_panels:
        yield f"packed_panels = {schedule.packed_panels}: a block has {schedule.group_panels} panels"
    if not schedule.packed_panels and not _in_rows(contraction):
        yield "packed_panels = 0: columns that do not lie side by side are not read in place"
    packed = schedule.packed_panels * min(schedule.depth_block, contraction.size(contraction.depth)) * columns * size
    totals = schedule.group_panels * schedule.chunk_rows * columns * size
    for name, needed in (("packed panels", packed), ("sums of a block", totals)):
        if needed > MOST_STACK_BYTES:
            yield f"{name} take {needed} bytes, of {MOST_STACK_BYTES}"


def _choose_of(kernel: func.FuncOp, target: CpuTarget) -> Schedule:
    return _choose_kind(contraction_of(kernel), target)


def _others(kernel: func.FuncOp, target: CpuTarget) -> Fields:
    contraction = contraction_of(kernel)
    if contraction.is_empty or None in (contraction.rows, contraction.columns):
        return {}
    return {**_read_columns(contraction, target).fields, **_tiles(contraction, target).fields}


SCHEDULER = replace(by_strides(KINDS, _choose_of, _excesses, _others), line=lambda kernel: product_of(kernel).location)

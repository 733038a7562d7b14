"""How a GEMM is cut: the register tile, the blocks of k, rows and columns, and whether the right operand is packed.

The rules come from measurements on an Intel Xeon with AVX-512 (bench/ has the numbers):
* up to 8 rows, the weights are read once and memory is the limit: wide tiles read them in place, fetching ahead;
* from there on, the first tile of rows packs a panel for a chunk of about 128 rows, while the next panel is fetched;
* with many rows, a few panels stay packed in L2 together and the rows stream by.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from blu.dialects.targets.cpu import CpuTarget
from blu.passes.kernels.contraction import Contraction

FEW_ROWS = 8
MANY_ROWS = 384
CHUNK_ROWS = 128
WHOLE_DEPTH = 768
"""k in one piece up to this; else in equal blocks of at most `DEPTH_BLOCK`."""
DEPTH_BLOCK = 512
LONG_DEPTH = 512
"""Beyond this many products, an element is no longer one chain of additions but the sum of chains of `CHAIN`.

The rounding error grows with the length of a chain: with these, GPT-2's gradients are as exact as PyTorch's.
"""
CHAIN = 256
BLOCKS = 8
"""Blocks of the grid to aim at: enough to keep a few threads evenly busy."""
GROUP_PANELS = 12
TOTALS_BYTES = 128 * 1024
"""Limit of the scratch memory in which sums wait between blocks of k."""
SET_BYTES = 432 * 1024
"""Limit of the panels that are packed together: they share L2 with the rows."""
IN_PLACE_BYTES = 32 * 1024
"""A right operand up to this size stays in L1, where packing gains nothing."""


@dataclass(frozen=True)
class ProductTiling:
    """A tile of `rows` x (`vectors` x `lanes`) sums in registers; k in blocks of `depth_block`.

    A block of the grid has `chunk_rows` rows (a multiple of `rows`, or all) and `group_panels` panels of columns.
    Panels of the right operand are packed `packed_panels` at a time and used by all rows of the chunk (0: read in
    place, fetching `fetch_ahead` rows ahead). `claim` is how many blocks a thread takes at a time.
    """

    rows: int
    vectors: int
    lanes: int
    depth_block: int
    chunk_rows: int
    group_panels: int = 1
    packed_panels: int = 1
    fetch_ahead: int = 0
    claim: int = 1

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def is_long(contraction: Contraction) -> bool:
    """Whether the elements are sums of chains. Sizes alone decide, so that bits do not depend on schedules."""
    return (
        prod(contraction.size(dim) for dim in contraction.outer_depth) * contraction.size(contraction.depth)
        > LONG_DEPTH
    )


def choose_schedule(contraction: Contraction, target: CpuTarget) -> ProductTiling:
    """The schedule for a contraction on a target."""
    schedule = _choose(contraction, target)
    if not is_long(contraction):
        return schedule
    panel_bytes = schedule.chunk_rows * schedule.columns * contraction.accumulator.width // 8
    group = max(1, min(schedule.group_panels, TOTALS_BYTES // panel_bytes))
    return replace(schedule, depth_block=CHAIN, group_panels=group, packed_panels=min(schedule.packed_panels, group))


def _choose(contraction: Contraction, target: CpuTarget) -> ProductTiling:
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
        return ProductTiling(tile_rows, tile_vectors, lanes, _whole_depth(contraction), rows or 1, group, 0, ahead)
    tile_rows, tile_vectors = _choose_tile(rows, whole_vectors, target)
    panels = -(-columns // (tile_vectors * lanes))
    if rows >= MANY_ROWS:
        return _many_rows(contraction, tile_rows, tile_vectors, lanes, panels)
    chunks = max(1, round(rows / CHUNK_ROWS))
    chunk_rows = -(-rows // chunks // tile_rows) * tile_rows
    if _stays_in_cache(contraction):
        group = _group(contraction, panels, chunks)
        return ProductTiling(tile_rows, tile_vectors, lanes, _whole_depth(contraction), chunk_rows, group, 0)
    depth = _depth_block(contraction)
    group = _group(contraction, panels, chunks)
    if depth < contraction.size(contraction.depth) or contraction.outer_depth:
        panel_bytes = chunk_rows * tile_vectors * lanes * contraction.accumulator.width // 8
        # The rows are read again for every group: half as many groups, as far as the scratch memory goes.
        group = max(1, min(2 * group, TOTALS_BYTES // panel_bytes))
        return ProductTiling(tile_rows, tile_vectors, lanes, depth, chunk_rows, group)
    return ProductTiling(tile_rows, tile_vectors, lanes, depth, chunk_rows, claim=group)


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


def _many_rows(contraction: Contraction, rows: int, vectors: int, lanes: int, panels: int) -> ProductTiling:
    """A set of panels stays packed in L2 and the rows stream by."""
    count = contraction.size(contraction.rows)
    chunks = max(1, -(-count // 1024))
    chunk_rows = -(-count // chunks // rows) * rows
    depth = _whole_depth(contraction)
    panel_bytes = depth * vectors * lanes * contraction.accumulator.width // 8
    together = min(3, panels, SET_BYTES // panel_bytes)
    if together < 2 or contraction.outer_depth:
        depth, group = _depth_block(contraction), min(5, panels)
        return ProductTiling(rows, vectors, lanes, depth, CHUNK_ROWS // rows * rows, group)
    return ProductTiling(rows, vectors, lanes, depth, chunk_rows, together, together)


def _choose_tile(rows: int, whole_vectors: int, target: CpuTarget) -> tuple[int, int]:
    """Rows and vectors of a tile: the target's own, or one that cuts a narrow result with less waste."""
    sums = target.gemm_rows * target.gemm_vectors
    own = (target.gemm_rows, target.gemm_vectors)
    tiles = [own, *((sums // width, width) for width in (2, 3, 4, 1) if width != own[1])]
    return min(((min(r, rows or 1), v) for r, v in tiles), key=lambda tile: _cost(tile, rows, whole_vectors))


def _cost(tile: tuple[int, int], rows: int, whole_vectors: int) -> float:
    """Time of one step of k: a tile takes its multiply-adds or its loads, two of either a cycle."""
    tile_rows, tile_vectors = tile
    full, rest = divmod(whole_vectors, tile_vectors)
    each = [tile_vectors] * full + ([rest] if rest else [])
    return -(-rows // tile_rows) * sum(max(tile_rows * width, tile_rows + width) for width in each)

"""What schedules of attention on a GPU may not be, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.core.op import operands_of
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.attention.attention import SharedLayout
from blu.passes.gpu.attention.few_queries import decode
from blu.passes.gpu.attention.few_queries.inserted_rows import inserts_rows
from blu.passes.gpu.attention.key_gradient import KeyTiles
from blu.passes.gpu.attention.query_gradient import QueryTiles
from blu.passes.gpu.attention.schedule import (
    APART,
    LAUNCHES,
    ONCE,
    REGISTERS,
    SHARED,
    STAY,
    TOGETHER,
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
from blu.passes.gpu.attention.warpgroups import panels, part_gradient, part_keys, roles
from blu.passes.gpu.attention.warpgroups.five_products.layout import COLUMNS, JointLayout, blocks_of, tiles_of
from blu.passes.gpu.attention.warpgroups.forward import ForwardLayout
from blu.passes.gpu.attention.warpgroups.key_gradient import KeyLayout
from blu.passes.gpu.attention.warpgroups.panels import PIECE
from blu.passes.gpu.attention.warpgroups.query_gradient import QueryLayout
from blu.passes.gpu.attention.warpgroups.shared_keys import SharedKeysLayout
from blu.passes.gpu.attention.warpgroups.stages import THREADS
from blu.passes.gpu.attention.warpgroups.turned import TURNED_ROWS
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.kernels.schedules import Schedule

MOST_REGISTERS = 192
"""Of the 255 of a thread, those that may hold sums and factors."""
MOST_WARPS = 32
ADDRESSES = 12
"""Registers of a thread of a warpgroup for what is neither sum nor factor, at the very least."""
ROWS_OF_TILES = (16, 32, 64, 128)
STRIPS = (1, 2)
WARPS_OF_BLOCKS = (1, 2, 4, 8)
MOST_ROWS, MOST_STAGES = 256, 8
CLUSTERS = (1, 2, 4, 8)
REGISTERS_OF_PROCESSOR = 65536
PARTS = (2, 3)
MOST_LEADING = panels.MOST_DIMENSIONS - 3
"""Dimensions of more than one head, beside that of parts."""
LEAST_JOINT, MOST_WAITING = 2048, 1 / 30
"""Rows of a head, and of all time that of the first blocks' waiting. On an H100, gradients of 4x16x4096 are 7 % faster
than by two launches, of 8x16x2048 2 % (both wait for 1 of 32); 1x16x8192 and 2x16x4096 (1 of 16) -4 and 2 %."""
RESERVED_BYTES = 1024
"""Of the shared memory of a processor, for each block."""


def excesses(schedule: Schedule, operation: ir.Operation, target: GpuTarget) -> Iterator[str]:
    """What a schedule asks for that there is not, a sentence each."""
    sizes = ScheduleSizes.of(operation)
    if isinstance(schedule, FewQueriesSchedule):
        yield from _excess_few(schedule, operation, sizes, target)
    elif operation.name == "blu.attention" and inserts_rows(operation):
        yield "only kind 'few_queries' puts new rows into what it reads"
    if isinstance(schedule, QueryTilesSchedule):
        yield from _excess_tile(STRIPS, "strips", schedule.strips)
        yield from _excess_tile(ROWS_OF_TILES, "keys", schedule.keys)
        yield from _excess_left("queries", schedule.queries, sizes)
        each = sizes.columns[1] // 2 + schedule.keys // 2
        yield from _excess_registers(schedule.strips * (each + _kept(schedule.queries, sizes.columns[0], sizes.size)))
        needed = SharedLayout.of(schedule, *sizes.columns, sizes.size).memory.bytes
        yield from _excess_shared(needed, target)
    if isinstance(schedule, WarpgroupSchedule):
        yield from _excess_warpgroup(schedule, sizes, target)
    if isinstance(schedule, SharedKeysSchedule):
        yield from _excess_shared_keys(schedule, sizes, target)
    if isinstance(schedule, PartsSchedule):
        yield from _excess_parts(schedule, sizes, target)
    yield from _excess_of_gradient(schedule, operation, sizes, target)


def _excess_of_gradient(
    schedule: Schedule, operation: ir.Operation, sizes: ScheduleSizes, target: GpuTarget
) -> Iterator[str]:
    if isinstance(schedule, PartsGradientSchedule):
        yield from _excess_part_gradient(schedule, sizes, target)
    if isinstance(schedule, WarpgroupGradientSchedule):
        yield from _excess_warpgroup_gradient(schedule, sizes, target)
    if isinstance(schedule, JointGradientSchedule):
        yield from _excess_joint(schedule, operation, sizes, target)
    if isinstance(schedule, GradientTilesSchedule):
        yield from _excess_gradient(schedule, sizes, target)


def _excess_few(
    schedule: FewQueriesSchedule, operation: ir.Operation, sizes: ScheduleSizes, target: GpuTarget
) -> Iterator[str]:
    if not decode.suits(operation):
        yield f"kind 'few_queries' takes at most {decode.FEW_QUERIES} queries, of multiples of {decode.PIECE} columns"
    if schedule.warps > MOST_WARPS or schedule.warps * WARP < sizes.columns[0]:
        least = ceil(sizes.columns[0] / WARP)
        yield f"warps = {schedule.warps}: a block has a thread for each column, {least} to {MOST_WARPS} warps"
    if schedule.blocks not in CLUSTERS:
        yield f"blocks = {schedule.blocks}: clusters have {', '.join(map(str, CLUSTERS))} blocks"
    elif schedule.blocks > 1 and not target.wgmma:
        yield f"blocks = {schedule.blocks}: {target.name} has no clusters of blocks"


def _excess_gradient(schedule: GradientTilesSchedule, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    for name in ("query", "key"):
        yield from _excess_tile(WARPS_OF_BLOCKS, f"{name}_warps", getattr(schedule, f"{name}_warps"))
        yield from _excess_tile(STRIPS, f"{name}_strips", getattr(schedule, f"{name}_strips"))
        yield from _excess_left(f"{name}_left", getattr(schedule, f"{name}_left"), sizes)
    yield from _excess_tile(ROWS_OF_TILES, "keys", schedule.keys)
    yield from _excess_tile(ROWS_OF_TILES, "queries", schedule.queries)
    yield from _excess_launches(schedule.launches)
    both = sum(sizes.columns)
    of_queries = sizes.columns[0] // 2 + schedule.keys + _kept(schedule.query_left, both, sizes.size)
    sums = both if schedule.launches == TOGETHER else sizes.widest
    of_keys = sums // 2 + schedule.queries + _kept(schedule.key_left, both, sizes.size)
    yield from _excess_registers(schedule.query_strips * of_queries)
    yield from _excess_registers(schedule.key_strips * of_keys)
    for tiles in (QueryTiles, KeyTiles):
        yield from _excess_shared(tiles.by(schedule, sizes.columns, sizes.size).memory.bytes, target)


def _kept(left: str, columns: int, size: int) -> int:
    """Registers that left factors of `size` bytes take, of a strip."""
    return columns * size // 8 if left == REGISTERS else 0


def _excess_tile(possible: tuple[int, ...], name: str, value: int) -> Iterator[str]:
    if value not in possible:
        yield f"{name} = {value}: there are {', '.join(map(str, possible))}"


def _excess_left(name: str, value: str, sizes: ScheduleSizes) -> Iterator[str]:
    if value not in (REGISTERS, SHARED):
        yield f"{name} = '{value}': left factors are in '{REGISTERS}' or in '{SHARED}' memory"
    if value == REGISTERS and sizes.is_split:
        yield f"{name} = '{REGISTERS}': there is no room for numbers of {8 * sizes.size} bits"


def _excess_launches(launches: str) -> Iterator[str]:
    if launches not in LAUNCHES:
        yield f"launches = '{launches}': gradients of keys and values are found '{TOGETHER}' or '{APART}'"


def _excess_registers(needed: int) -> Iterator[str]:
    if needed > MOST_REGISTERS:
        yield f"sums and factors take {needed} registers of each thread, of at most {MOST_REGISTERS}"


def _excess_shared(needed: int, target: GpuTarget) -> Iterator[str]:
    if needed > target.shared_bytes:
        yield f"tiles take {needed} bytes of shared memory, and a block on {target.name} has {target.shared_bytes}"


def _excess_warpgroup(schedule: WarpgroupSchedule, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    yield from _excess_of_warpgroups(sizes, target)
    yield from _excess_rows("keys", schedule.keys)
    yield from _excess_stages("stages", schedule.stages, sizes)
    yield from _excess_turned("keys", schedule.keys, sizes)
    depth, width = sizes.columns
    needed = _forward_registers(schedule.keys, width)
    if sizes.size == 4:  # weights are as wide as scores, and queries stay
        needed += schedule.keys // 4 + depth // 2
    yield from _excess_blocks(needed, schedule.per_processor)
    layout = ForwardLayout.of(schedule, depth, width, sizes.size)
    yield from _excess_together(layout.memory.bytes, schedule.per_processor, target)


def _excess_shared_keys(schedule: SharedKeysSchedule, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    yield from _excess_of_warpgroups(sizes, target)
    yield from _excess_rows("keys", schedule.keys)
    yield from _excess_stages("stages", schedule.stages, sizes)
    yield from _excess_sharing(sizes)
    if schedule.blocks not in (STAY, ONCE):
        yield f"blocks = '{schedule.blocks}': blocks '{STAY}', or come '{ONCE}'"
    depth, width = sizes.columns
    yield from _excess_groups(_forward_registers(schedule.keys, width), schedule.groups)
    yield from _excess_shared(SharedKeysLayout.by(schedule, depth, width).memory.bytes, target)


def _excess_of_parts(parts: int, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    if not target.wgmma:
        yield f"kind 'wgmma_parts' is for Hopper's warpgroups, which {target.name} has none of"
    if message := parts_misfit(sizes):
        yield message
    if parts not in PARTS:
        yield f"parts = {parts}: there are {', '.join(map(str, PARTS))}"


def _excess_part_gradient(schedule: PartsGradientSchedule, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    yield from _excess_of_parts(schedule.parts, sizes, target)
    yield from _excess_rows("rows", schedule.rows)
    if 64 % schedule.rows:
        yield f"rows = {schedule.rows}: the numbers of queries are there for each 64 of them"
    yield from _excess_blocks(sizes.widest + schedule.parts * schedule.rows // 4, 1)
    for layout in (part_gradient.query_layout, part_gradient.key_layout):
        yield from _excess_shared(layout(schedule, *sizes.columns).memory.bytes, target)


def _excess_parts(schedule: PartsSchedule, sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    yield from _excess_of_parts(schedule.parts, sizes, target)
    yield from _excess_rows("keys", schedule.keys)
    depth, width = sizes.columns
    # Sums of one tile beside those of all, scores, and weights as factors.
    yield from _excess_groups(width + schedule.keys // 2 + schedule.parts * schedule.keys // 4, schedule.groups)
    yield from _excess_shared(part_keys.layout_of(schedule, depth, width).memory.bytes, target)


def _excess_groups(needed: int, groups: int) -> Iterator[str]:
    """Groups that share tiles have the registers that a copying one leaves them."""
    if groups not in roles.REGISTERS:
        yield f"groups = {groups}: there are {', '.join(map(str, roles.REGISTERS))}"
    elif needed > (there := roles.REGISTERS[groups][1] - ADDRESSES):
        yield f"sums and factors take {needed} registers of each thread, and {groups} groups have {there}"


def _forward_registers(keys: int, width: int) -> int:
    """Sums of results, scores, and weights as factors."""
    return width // 2 + keys // 2 + keys // 4


def _excess_warpgroup_gradient(
    schedule: WarpgroupGradientSchedule, sizes: ScheduleSizes, target: GpuTarget
) -> Iterator[str]:
    yield from _excess_of_warpgroups(sizes, target)
    yield from _excess_rows("keys", schedule.keys)
    yield from _excess_rows("queries", schedule.queries)
    yield from _excess_stages("key_stages", schedule.key_stages, sizes)
    yield from _excess_stages("query_stages", schedule.query_stages, sizes)
    yield from _excess_turned("keys", schedule.keys, sizes)
    yield from _excess_turned("queries", schedule.queries, sizes)
    if max(schedule.query_groups, schedule.key_groups) > 1:
        yield from _excess_sharing(sizes)
    yield from _excess_launches(schedule.launches)
    if 64 % schedule.queries:
        yield f"queries = {schedule.queries}: the numbers of queries are there for each 64 of them"
    depth, width = sizes.columns
    of_query = depth // 2 + schedule.keys, schedule.query_groups, schedule.query_blocks, QueryLayout
    sums = depth + width if schedule.launches == TOGETHER else sizes.widest
    of_key = sums // 2 + schedule.queries, schedule.key_groups, schedule.key_blocks, KeyLayout
    held = (depth + width) // 2 if sizes.size == 4 else 0
    for needed, groups, blocks, layout in (of_query, of_key):
        num_bytes = layout.of(schedule, depth, width, sizes.size).memory.bytes
        if groups == 1:
            yield from _excess_blocks(needed + held, blocks)
            yield from _excess_together(num_bytes, blocks, target)
        else:
            yield from _excess_groups(needed, groups)
            yield from _excess_shared(num_bytes, target)


def _excess_joint(
    schedule: JointGradientSchedule, operation: ir.Operation, sizes: ScheduleSizes, target: GpuTarget
) -> Iterator[str]:
    if not target.wgmma:
        yield f"kind 'wgmma_joint' is for Hopper's warpgroups, which {target.name} has none of"
    if message := joint_misfit(operation):
        yield message
    yield from _excess_stages("stages", schedule.stages, sizes)
    yield from _excess_shared(JointLayout.of(schedule.stages, *sizes.columns).memory.bytes, target)


def _excess_of_warpgroups(sizes: ScheduleSizes, target: GpuTarget) -> Iterator[str]:
    if not target.wgmma:
        yield f"kind 'wgmma' is for Hopper's warpgroups, which {target.name} has none of"
    if message := warpgroup_misfit(sizes):
        yield message


def _excess_rows(name: str, rows: int) -> Iterator[str]:
    if rows % STRIP or rows > MOST_ROWS:
        yield f"{name} = {rows}: a tile has multiples of {STRIP} rows, at most {MOST_ROWS}"


def _excess_stages(name: str, stages: int, sizes: ScheduleSizes) -> Iterator[str]:
    """Of f32, a stage is read long before its product has ended, and may be filled again."""
    least = 2 if sizes.size == 2 else 1
    if not least <= stages <= MOST_STAGES:
        yield f"{name} = {stages}: there are {least} to {MOST_STAGES}"


def _excess_turned(name: str, rows: int, sizes: ScheduleSizes) -> Iterator[str]:
    if sizes.size == 4 and rows % TURNED_ROWS:
        yield f"{name} = {rows}: a tile of 32 bits has multiples of {TURNED_ROWS} rows"


def _excess_sharing(sizes: ScheduleSizes) -> Iterator[str]:
    if sizes.size != 2:
        yield f"groups share tiles of 16 bits, not of {8 * sizes.size}"


def _excess_blocks(needed: int, blocks: int) -> Iterator[str]:
    """ptxas gives each thread a multiple of 8 registers, and at most 255."""
    there = min(255, REGISTERS_OF_PROCESSOR // (blocks * THREADS) // 8 * 8)
    if needed + ADDRESSES > there:
        yield f"sums and factors take {needed} registers of each thread, and {blocks} blocks have {there - ADDRESSES}"


def _excess_together(needed: int, blocks: int, target: GpuTarget) -> Iterator[str]:
    yield from _excess_shared(needed, target)
    there = target.shared_bytes_per_processor
    if blocks * (needed + RESERVED_BYTES) > there:
        yield f"{blocks} blocks take {needed} bytes of shared memory each, a processor has {there}"


def warpgroup_misfit(sizes: ScheduleSizes) -> str:
    """Why warpgroups do not take an attention of such sizes; "" if they do."""
    if sizes.size > 4 or sizes.is_split:
        return f"kind 'wgmma' multiplies numbers of 16 bits and tf32, not of {8 * sizes.size} bits"
    if sizes.masked:
        return "kind 'wgmma' leaves no registers for a mask"
    if not sizes.heads or not sizes.queries or not sizes.keys:
        return "kind 'wgmma' takes at least one query and one key"
    if any(columns % PIECE for columns in sizes.columns):
        return f"kind 'wgmma' takes rows of multiples of {PIECE} columns"
    return ""


def joint_misfit(operation: ir.Operation) -> str:
    """Why no block finds all gradients of its keys; "" if blocks do."""
    sizes, (*_, sums) = ScheduleSizes.of(operation), operands_of(operation)
    if sizes.size != 2 or sizes.columns != (COLUMNS, COLUMNS):
        return f"kind 'wgmma_joint' takes rows of {COLUMNS} numbers of 16 bits"
    if sums is None:
        return "kind 'wgmma_joint' takes the sums that the forward has left"
    return warpgroup_misfit(sizes).replace("'wgmma'", "'wgmma_joint'")


def suits_joint(operation: ir.Operation, target: GpuTarget) -> bool:
    """Whether blocks that find all gradients of their keys are faster than two launches, as far as sizes say.

    The first of them wait, each a tile for the one before it: rows must be long, and heads many.
    """
    sizes = ScheduleSizes.of(operation)
    is_long = not sizes.causal and min(sizes.queries, sizes.keys) >= LEAST_JOINT
    if not target.wgmma or not is_long or joint_misfit(operation):
        return False
    blocks = blocks_of(sizes.keys)
    heads = prod(ir.RankedTensorType(operands_of(operation)[2].type).shape[:-2])
    tiles = ceil(heads * blocks / target.processors) * sizes.heads // heads * tiles_of(sizes.queries)
    return blocks <= MOST_WAITING * tiles


def parts_misfit(sizes: ScheduleSizes) -> str:
    """Why warpgroups do not multiply parts of an attention of such sizes; "" if they do."""
    if sizes.size != 4:
        return f"kind 'wgmma_parts' multiplies parts of numbers of 32 bits, not of {8 * sizes.size}"
    if sizes.leading > MOST_LEADING:
        return f"tensor maps of parts have at most {MOST_LEADING} dimensions of heads"
    return warpgroup_misfit(replace(sizes, size=2, is_split=False)).replace("'wgmma'", "'wgmma_parts'")


def strides_misfit(kernel: func.FuncOp, operation: ir.Operation) -> str:
    """Why the copy engine does not bring the operands of a kernel over buffers; "" if it does, or there are none."""
    frame = GpuKernel.read(kernel)
    if not frame.buffers:
        return ""
    for operand in operands_of(operation)[: 5 if operation.name == "blu.attention_gradient" else 3]:
        if operand not in frame.buffers:
            return "the copy engine reads operands that are in memory"
        if message := panels.misfit(ir.MemRefType(frame.buffers[operand].type)):
            return message
    return ""

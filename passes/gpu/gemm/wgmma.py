"""Matrix products by Hopper's warpgroups: which it takes, the tensor maps of their factors, and what writes results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm import held
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm.boxes.gradient_plan import GradientPlan
from blu.passes.gpu.gemm.boxes.plan import BoxPlan, reserve_boxes
from blu.passes.gpu.gemm.boxes.row_gradients import GradientBoxes
from blu.passes.gpu.gemm.boxes.row_sums import RowBoxes, RowPlan, keeps_f32
from blu.passes.gpu.gemm.boxes.writer import Boxes
from blu.passes.gpu.gemm.held import HeldOutput
from blu.passes.gpu.gemm.output import (
    Output,
    Sink,
    choose_lanes,
    choose_together,
    epilogue_reader,
    epilogue_sink,
)
from blu.passes.gpu.gemm.pingpong import THREADS, BlockCode
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.ring import Ring, Walk
from blu.passes.gpu.gemm.schedule import FLOAT8, OF_FLOAT8, WARPGROUP_STEPS, WARPGROUP_TILES, WgmmaSchedule
from blu.passes.gpu.gemm.slabs import SLAB, Slabs, SlabWriter, TilePosition, Write
from blu.passes.gpu.gemm.split import PART, REST_PARTS, Read, SharedRest
from blu.passes.gpu.gemm.tensor_map import FactorMap
from blu.passes.gpu.isa import tma, wgmma
from blu.passes.gpu.isa.tma import TileMap
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.lower import fast_math
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.epilogue import Epilogue
from blu.passes.kernels.launch import MAPS

Plan = BoxPlan | RowPlan | GradientPlan
INSTRUCTIONS = ("bf16", "f16", "tf32", *OF_FLOAT8)
LEAST_TILES, LEAST_DEPTH, DEEP = 64, 64, 4096
"""Products with fewer tiles leave most multiprocessors idle, unless k is so deep that it is split."""
ADDED_TILES: dict[tuple[int, int], float] = {
    tile: step for tile, step in WARPGROUP_STEPS.items() if prod(tile) <= 64 * 128
}
"""Those of fp8: a thread holds the sums of a step as well, and ptxas 13.0 spills with more of them."""
_LEAST_STEPS = 8
"""Of the parts of a k whose first part is longer."""
_FEW_ACROSS, _FEW_DOWN = 16, 2
"""Where multiprocessors have several whole rows of such few tiles at a time, so many rows are walked together: on an
H200, 0.98 of the time with eight of them at 65536x768x3072, 0.97 where GELU has two results of 3072 columns."""
_BAND = 8 << 20
"""Bytes of the left factor that rounds of tiles find again in the L2 cache, of 50 MB: of 8192x50304x768 in bf16 all
rounds together read 170 MB with 6.3 of it in a band, 213 with 12.6, and 631 with 1.6."""
_SHORT, _GAIN = 64, 1.1
"""Rows of the lower tiles, and how much better a narrower tile has to be than the largest, which was measured more."""


def suits(product: Product, instruction: str | None, target: GpuTarget) -> bool:
    """Whether this kernel takes a product: the copy engine reads it where it lies, in the products' own type."""
    if not target.wgmma or instruction not in INSTRUCTIONS or product.is_degenerate:
        return False
    schedule = _largest(product, instruction, 1)
    if misfit(product, schedule):
        return False
    if instruction in OF_FLOAT8:
        return True
    return product.depth * product.runs >= DEEP or Walk(product, schedule).tiles >= LEAST_TILES


def _largest(product: Product, instruction: str, split: int) -> WgmmaSchedule:
    """The largest tiles of a product, by how its factors lie."""
    registers = _in_registers(product) if instruction == "tf32" else "none"
    rows, columns = WARPGROUP_TILES[registers]
    largest = WgmmaSchedule(instruction, rows, columns, split=split, registers=registers)
    return _cut(largest, *max(ADDED_TILES)) if instruction == FLOAT8 else largest


def tiled(product: Product, instruction: str, target: GpuTarget, split: int = 1) -> WgmmaSchedule:
    """The schedule of a product, by how its factors lie: of tiles, those that take the fewest clocks."""
    schedule = _largest(product, instruction, split)
    if split > 1:
        return _of_parts(product, schedule, target)
    schedule = replace(schedule, group=_rows_together(product, schedule))
    if schedule.registers != "none":
        return schedule
    possible = ADDED_TILES if instruction == FLOAT8 else [tile for tile in WARPGROUP_STEPS if tile[0] == schedule.rows]
    narrower = (_cut(schedule, *tile) for tile in possible)
    return min(narrower, key=lambda item: _clocks(product, item, target))


def largest(schedule: WgmmaSchedule) -> WgmmaSchedule:
    """The same with tiles that are ranges of what follows: the largest."""
    rows, columns = WARPGROUP_TILES[schedule.registers]
    return replace(schedule, rows=rows, columns=columns, stages=WgmmaSchedule.stages)


def _rows_together(product: Product, schedule: WgmmaSchedule) -> int:
    """How many rows of tiles are walked together: as many as stay in the cache, where each such band reads all of a
    right factor that does not."""
    if product.columns <= _FEW_ACROSS * WARPGROUP_TILES["none"][1]:
        return _FEW_DOWN
    deep = product.depth * product.runs * schedule.element_bytes
    group, down = schedule.group, Walk(product, schedule).down
    while product.columns * deep > _BAND and group < down and 2 * group * schedule.rows * deep <= _BAND:
        group *= 2
    return group


def _cut(schedule: WgmmaSchedule, rows: int, columns: int) -> WgmmaSchedule:
    """The same with other tiles, and as many bytes of them under way."""
    stages = schedule.stages * (schedule.rows + schedule.columns) // (rows + columns)
    return replace(schedule, rows=rows, columns=columns, stages=stages)


def _of_parts(product: Product, schedule: WgmmaSchedule, target: GpuTarget) -> WgmmaSchedule:
    """The tiles of a product whose k is split, and the length of its first part."""
    tiles: dict[tuple[int, int], float] = {(schedule.rows, schedule.columns): 1}
    if schedule.instruction == FLOAT8:
        tiles = ADDED_TILES
    elif schedule.registers == "none":
        tiles = tiles_of_parts(product.rows, product.columns, product.outer, target)
    steps, split = Walk(product, schedule).all_steps, schedule.split
    found = []
    for (rows, columns), clocks in tiles.items():
        cut = _cut(schedule, rows, columns)
        results = Walk(product, cut).results
        for lead in leads(results, steps, split, target):
            group = cut.group if lead == 1 else Walk(product, cut).shorter_way
            found.append((walked(results, steps, split, lead, target) * clocks, replace(cut, lead=lead, group=group)))
    return min(found, key=lambda item: item[0])[1]


def leads(results: int, steps: int, split: int, target: GpuTarget) -> list[int]:
    """How long the first part of a split k may be, in others: as they are, or what leaves all blocks the same work.

    With a longer one there is a block for each of so many `results`, and the others share out what is left of k; 0:
    wherever tiles begin (split.py).
    """
    spare = target.processors - results
    even = ceil(results * (split - 1) / spare) if split > 1 and spare > 0 else 1
    found = [1, even] if even > 1 and steps // (split - 1 + even) >= _LEAST_STEPS else [1]
    shares = split == REST_PARTS and SharedRest(results, steps, target.processors).fits(_LEAST_STEPS)
    return [*found, 0] if shares else found


def walked(results: int, steps: int, split: int, lead: int, target: GpuTarget) -> int:
    """The steps of k of all tiles of a multiprocessor, at most."""
    if lead == 0:
        rest = SharedRest(results, steps, target.processors)
        return max(rest.first, rest.each)
    if lead == 1:
        return ceil(results * split / target.processors) * ceil(steps / split)
    others = ceil(results * (split - 1) / (target.processors - results))
    return max(lead, others) * ceil(steps / (split - 1 + lead))


def tiles_of_parts(rows: int, columns: int, outer: int, target: GpuTarget) -> dict[tuple[int, int], float]:
    """The tiles that a product whose k is split may have, and what a step of k is said to take: that in which the rest
    of rows and columns is small, and where those are too few for all multiprocessors, narrower ones."""
    largest = WARPGROUP_TILES["none"]
    high = _SHORT if rows <= _SHORT else largest[0]
    own = {tile: step for tile, step in WARPGROUP_STEPS.items() if tile[0] == high}
    clocks = {tile: step if tile[1] == largest[1] else step * _GAIN for tile, step in own.items()}
    best = min(clocks, key=lambda tile: ceil(columns / tile[1]) * clocks[tile])
    is_few = ceil(rows / high) * ceil(columns / best[1]) * outer * 2 <= target.processors
    return {tile: step for tile, step in clocks.items() if tile == best or (is_few and tile[1] < best[1])}


def _clocks(product: Product, schedule: WgmmaSchedule, target: GpuTarget) -> int:
    """What a step of k takes of all tiles of a multiprocessor."""
    return ceil(Walk(product, schedule).tiles / target.processors) * WARPGROUP_STEPS[schedule.rows, schedule.columns]


def _in_registers(product: Product) -> str:
    """Which factor has its neighbours along k not side by side; of two, the right one."""
    if not product.right.is_deep:
        return "right"
    return "none" if product.left.is_deep else "left"


def misfit(product: Product, schedule: WgmmaSchedule) -> str:
    """Why the copy engine does not bring the factors of a product as the instruction takes them; "" if it does."""
    instruction = schedule.instruction
    size = schedule.element_bytes
    factors = (product.left, product.right)
    if not all(factor.bytes == size for factor in factors):
        return f"products of {instruction} take factors of {size} bytes"
    if found := next(filter(None, (FactorMap(factor, product.contraction).misfit for factor in factors)), ""):
        return found
    if instruction in OF_FLOAT8 and not all(factor.is_deep for factor in factors):
        return "products of fp8 take factors whose neighbours along k lie side by side"
    if instruction == "tf32" and not any(factor.is_deep for factor in factors):
        return "products of tf32 take a factor whose neighbours along k lie side by side"
    if instruction == "tf32" and schedule.registers != _in_registers(product):
        wanted = _in_registers(product)
        return f"registers = '{schedule.registers}': by how its factors lie, this product has registers = '{wanted}'"
    least = max(LEAST_DEPTH, schedule.depth)
    return f"k is at least {least}, not {product.depth}" if product.depth < least else ""


def share_out(schedule: WgmmaSchedule) -> tuple[SharedMemory, int, int, int]:
    """The shared memory of a block, and where its tiles, barriers and staged sums begin. Boxes come after that."""
    shared = SharedMemory()
    tiles, barriers = Ring.reserve(shared, schedule)
    return shared, tiles, barriers, shared.take(2 * Slabs(schedule).bytes * (schedule.sums == "staged"), alignment=128)


def shared_bytes(schedule: WgmmaSchedule) -> int:
    """The most shared memory that a block takes."""
    shared = share_out(schedule)[0]
    if schedule.sums == "boxed":
        reserve_boxes(shared)
    return shared.bytes


def emit_with(kernel: func.FuncOp, read: Read, schedule: WgmmaSchedule, target: GpuTarget) -> list[func.FuncOp]:
    """Replace a kernel whose product `suits`; `read` gives the product and the epilogue of an opened kernel."""
    planned = _plan_of(*read(GpuKernel.read(kernel)), schedule)
    moved, size = (planned.map_count, planned.cluster) if planned else (0, 1)
    schedule = replace(schedule, group=1) if size > 1 else schedule  # the blocks of a cluster take tiles of one row
    frame = GpuKernel.open(kernel, (tma.map_type(),) * (2 + moved))
    product, epilogue = read(frame)
    walk, (shared, tiles, barriers, staging) = Walk(product, schedule), share_out(schedule)
    plan = _plan_of(product, epilogue, schedule)
    places, filled = reserve_boxes(shared) if plan else (0, 0)
    _describe_maps(frame, product, schedule, plan.maps(list(frame.replacement.arguments)) if plan else [])
    blocks = min(target.clusters_at_once(size) * size, walk.tiles)
    with product.contraction.operation.location, frame.launch((blocks,), THREADS, shared.bytes, size) as here:
        base, thread = shared_address(frame), numbers.as_number(here.thread)
        maps = [tma.map_pointer(argument) for argument in list(frame.replacement.arguments)[-2 - moved :]]
        number, at = numbers.as_number(here.block[0]), (numbers.add(base, places), numbers.add(base, filled))
        boxes = _boxes_of(plan, *at, maps[2:], number) if plan else None
        ring = Ring(schedule, numbers.add(base, tiles), numbers.add(base, barriers))
        slabs = numbers.add(base, staging)
        block = BlockCode(walk, ring, (maps[0], maps[1]), slabs, number, blocks, thread, boxes)
        block.emit(partial(_writer, frame, product, epilogue, schedule))
    launched = gemm_split.finish(frame, read, schedule.split)
    fast_math.mark(launched, fuses=True)
    return launched


def _writer(
    frame: GpuKernel, product: Product, epilogue: Epilogue, schedule: WgmmaSchedule, thread: ir.Value
) -> SlabWriter | Write:
    """What writes sums, for a thread of a warpgroup: the outputs, or the sums of a part of k."""
    if schedule.sums == "held":
        return _held_writer(frame, product, epilogue, schedule, thread)
    if schedule.split == 1:
        lanes = choose_lanes(epilogue, [operand for _, operand in epilogue.outputs])
        together = choose_together(epilogue, lanes)
        pieces = schedule.down * SLAB // lanes // wgmma.THREADS
        reader = epilogue_reader(epilogue, pieces, lanes)
        output = Output(product, epilogue_sink(epilogue), lanes, together, thread, wgmma.THREADS, reader)
        return SlabWriter(
            lambda staged, at: output.read_ahead(staged, product.outer_point(at.outer), at.row, at.column),
            lambda staged, at, known: output.write(staged, product.outer_point(at.outer), at.row, at.column, known),
        )
    sink = gemm_split.partial_sink(product, gemm_split.scratch_of(frame))
    output = Output(product, sink, gemm_split.choose_part_lanes(product), 4, thread, wgmma.THREADS)
    return SlabWriter(
        lambda staged, at: None,
        lambda staged, at, known: output.write(
            staged, {PART: at.part, **product.outer_point(at.outer)}, at.row, at.column
        ),
    )


def held_lanes(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> int:
    """How many sums a thread works on at a time in its registers; 0 where tensors do not lie for that."""
    if schedule.split > 1:
        chosen = gemm_split.choose_part_lanes(product)
    else:
        chosen = choose_lanes(epilogue, [operand for _, operand in epilogue.outputs])
    lanes = held.lanes_of(schedule, chosen)
    return lanes if lanes and product.columns % lanes == 0 else 0


def _held_writer(
    frame: GpuKernel, product: Product, epilogue: Epilogue, schedule: WgmmaSchedule, thread: ir.Value
) -> Write:
    lanes, reader = held_lanes(product, epilogue, schedule), None
    together = held.choose_together(epilogue, lanes)
    if schedule.split > 1:
        sink: Sink = gemm_split.partial_sink(product, gemm_split.scratch_of(frame))
    else:
        sink, reader = epilogue_sink(epilogue), held.reader_of(epilogue)
    output = HeldOutput(product, schedule, sink, reader, lanes, together, held.read_ahead(epilogue), thread)

    def write(sums: list[ir.Value], place: TilePosition) -> None:
        point = {PART: place.part, **product.outer_point(place.outer)}
        output.write(sums, point, place.row, place.column)

    return write


def _plan_of(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> Plan | None:
    """The boxes in which a kernel reads and writes, if it does."""
    if schedule.sums != "boxed":
        return None
    if not epilogue.row_numbers:
        return BoxPlan(product, epilogue, schedule)
    return (RowPlan if keeps_f32(epilogue) else GradientPlan)(product, epilogue, schedule)


def _boxes_of(plan: Plan, places: ir.Value, barriers: ir.Value, maps: Sequence[ir.Value], block: ir.Value) -> Boxes:
    """The boxes of a block."""
    if isinstance(plan, BoxPlan):
        return Boxes(plan, places, barriers, maps)
    rank = numbers.remainder(block, plan.cluster)
    if isinstance(plan, GradientPlan):
        return GradientBoxes(plan.tile, places, barriers, maps, rank, plan)
    return RowBoxes(plan.wide, places, barriers, maps, rank, plan)


def _describe_maps(frame: GpuKernel, product: Product, schedule: WgmmaSchedule, boxes: Sequence[TileMap]) -> None:
    """Say on the kernel what its last arguments are maps of."""
    arguments = list(frame.replacement.arguments)
    sides = ((product.left, schedule.rows), (product.right, schedule.columns))
    maps = [
        FactorMap(factor, product.contraction).describe(arguments.index(factor.buffer), extent, schedule)
        for factor, extent in sides
    ]
    attributes = [item.to_attribute() for item in (*maps, *boxes)]
    frame.replacement.operation.attributes[MAPS] = ir.ArrayAttr.get(attributes)

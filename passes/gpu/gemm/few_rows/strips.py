"""Up to 32 rows times a matrix, as when several sequences are decoded: tensor cores, fed straight from global memory.

A block computes a strip of columns, whose k its warps share out. What is computed is the transposed product: columns
are the 16 rows of an instruction, and rows are its 8 columns, so that there is little to fill up. Since k may be summed
in any order, a lane takes k that lie side by side. What it has to read of the matrix comes first in the kernel, as much
as registers hold, before anything of the other factor: where launches overlap, that is read before the kernel waits
(overlap_launches.py). The warps' sums are added in shared memory, in order.
"""

from __future__ import annotations

from math import ceil

from blu.dataclass import dataclass
from blu.dialects.core.mlir import arith, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu import numbers
from blu.passes.gpu.gemm.few_rows.prologue import Prologue
from blu.passes.gpu.gemm.few_rows.rows import start_of
from blu.passes.gpu.gemm.few_rows.strip import TILE_ROWS, DeepStrip, Strip, StripLane, TurnedStrip
from blu.passes.gpu.gemm.output import PADDING, Output, Reader, Staged, aligned_accesses, choose_lanes, epilogue_sink
from blu.passes.gpu.gemm.problem import COPY_BYTES, Product
from blu.passes.gpu.gemm.schedule import StripsSchedule
from blu.passes.gpu.isa import barrier
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.shared import SharedMemory, shared_address
from blu.passes.kernels.contraction import Contraction, Point
from blu.passes.kernels.epilogue import Epilogue, Known
from blu.passes.kernels.launch import READS_EARLY

MOST_ROWS = 32
COLUMNS, WARPS = (16, 32, 64), (8, 16)
"""Columns of a strip, and warps of a block, that there may be."""
_ALIGNED = 8
"""Columns and k come in multiples of so many."""
_DEEPEST = 1 << 12
"""k for which no other blocks are needed to share it, where strips have few processors at work."""
_MADE_ROWS, _ROWS_AHEAD = 8, 48
"""Rows that a kernel makes, at most, and registers of a thread for them. On an H100, a decoded token takes 0.94 of the
time that it takes with two kernels where there are 8 rows, and 1.03 where there are 32, by twice as many warps."""
_BESIDE = 8
"""Registers of a thread for what it reads beside the sums, before they are there."""
_THREADS = 512
"""Of all blocks on a processor, each of which may have 128 registers."""


def takes(contraction: Contraction, rows: int, columns: int, depth: int, outer: int, target: GpuTarget) -> bool:
    """Whether a product of halves is one of strips, by its sizes: tiles would leave processors without work."""
    is_aligned = not (columns % _ALIGNED or depth % _ALIGNED)
    is_few = outer * ceil(columns / COLUMNS[-1]) < target.processors
    is_short = depth <= _DEEPEST or 2 * outer * ceil(columns / COLUMNS[0]) >= target.processors
    is_one_run = all(contraction.size(dim) == 1 for dim in contraction.outer_depth)
    return 0 < rows <= MOST_ROWS and depth > 0 and is_short and is_aligned and is_few and is_one_run


def suits(product: Product) -> bool:
    """Whether there is such a kernel: a few rows of halves, and a matrix of which two lie in a word."""
    left, right = product.left, product.right
    elements = {str(left.element), str(right.element)}
    if product.rows > MOST_ROWS or product.runs > 1 or product.is_degenerate or elements not in ({"bf16"}, {"f16"}):
        return False
    return right.is_dense and right.copy_bytes >= 4 and not (product.columns % _ALIGNED or product.depth % _ALIGNED)


def widths(product: Product) -> list[int]:
    """How many columns a strip may have: a lane reads those that lie side by side at once."""
    right = product.right
    return [columns for columns in COLUMNS if right.is_deep or columns // 4 <= right.copy_bytes]


def choose_schedule(product: Product, target: GpuTarget, makes_rows: bool = False) -> StripsSchedule:
    """The strips of which a processor reads least, both factors counted; of those the widest.

    Of a kernel that `makes_rows`, they leave it the registers.
    """

    def fits(schedule: StripsSchedule) -> bool:
        is_small = shared_bytes(product.rows, schedule) <= target.shared_bytes
        return is_small and (not makes_rows or can_make_rows(product, schedule))

    def read(schedule: StripsSchedule) -> tuple[int, int]:
        blocks = product.outer * ceil(product.columns / schedule.columns)
        rows = ceil(product.rows / TILE_ROWS) * TILE_ROWS
        return ceil(blocks / target.processors) * (schedule.columns + rows), -schedule.columns

    possible = [StripsSchedule(columns, warps_for(product.depth)) for columns in widths(product)]
    return min((schedule for schedule in possible if fits(schedule)), key=read)


def warps_for(depth: int) -> int:
    """Those of a block, by how long k is."""
    return WARPS[0] if depth <= 1024 else WARPS[1]


def has_room(rows: int, depth: int) -> bool:
    """Whether lanes have registers for all elements of the left factor, as f32, whichever strips there are."""
    steps = ceil(depth / (4 * DeepStrip.own * warps_for(depth)))
    return rows <= _MADE_ROWS and ceil(rows / TILE_ROWS) * steps * DeepStrip.own <= _ROWS_AHEAD


def can_make_rows(product: Product, schedule: StripsSchedule) -> bool:
    """Whether a block with this schedule can make the left factor: it has all of it at a time."""
    strip = _strip(product, schedule)
    return strip.rounds[0] == 1 and strip.row_tiles * strip.rounds[1] * strip.own <= _ROWS_AHEAD


def shared_bytes(rows: int, schedule: StripsSchedule) -> int:
    """Shared memory of a block for the sums of its warps, and two numbers of each row that it makes from them."""
    return schedule.warps * ceil(rows / TILE_ROWS) * TILE_ROWS * (schedule.columns + PADDING + 2) * 4


def _strip(product: Product, schedule: StripsSchedule) -> Strip:
    return (DeepStrip if product.right.is_deep else TurnedStrip)(product, schedule)


def emit(
    frame: GpuKernel,
    product: Product,
    epilogue: Epilogue,
    schedule: StripsSchedule,
    target: GpuTarget,
    prologue: Prologue | None = None,
) -> None:
    """Fill the kernel's replacement. The left factor is in memory, or made by a prologue."""
    strip = _strip(product, schedule)
    shared, threads = SharedMemory(), schedule.warps * WARP
    parts = shared.take(schedule.warps * strip.part_bytes, alignment=COPY_BYTES)
    slots = shared.take(strip.slot_bytes * (prologue.sums if prologue else 0), alignment=COPY_BYTES)
    across = ceil(product.columns / schedule.columns)
    blocks = across * product.outer
    each = max(1, min(ceil(blocks / target.processors), _THREADS // threads))
    frame.replacement.attributes[READS_EARLY] = ir.UnitAttr.get()
    with (
        product.contraction.operation.location,
        frame.launch((blocks,), threads, shared.bytes, per_processor=each, is_small=True) as here,
    ):
        thread, number = numbers.as_number(here.thread), numbers.as_number(here.block[0])
        column = numbers.number(numbers.multiply(numbers.remainder(number, across), schedule.columns))
        point = product.outer_point(numbers.divide(number, across))
        outer = [point[dim] for dim in product.contraction.outer]
        left, right = (start_of(factor, outer) for factor in (product.left, product.right))
        lane = StripLane.of(left, right, column, thread)
        read = strip.read(lane)
        base = numbers.number(numbers.add(shared_address(frame), parts))
        staged = _Parts(base, product.rows, schedule.columns, PADDING, schedule.warps, strip.part_bytes)
        lanes = min(4, choose_lanes(epilogue, [operand for _, operand in epilogue.outputs]))
        output = Output(product, epilogue_sink(epilogue), lanes, 1, thread, threads, _reader(epilogue, lanes))
        known = output.read_edge(staged, point, 0, column)
        if prologue is None:
            sums = strip.sums(lane, read)
        else:
            made = strip.make_rows(lane, prologue, lambda: numbers.add(shared_address(frame), slots))
            sums = strip.multiply(read, made, strip.zeros())
        strip.leave(sums, thread, base)
        barrier.sync()
        output.write_edge(staged, point, numbers.number(0), column, known)


def _reader(epilogue: Epilogue, lanes: int) -> Reader | None:
    """Reads what the fused operations read beside the sums, if that has room in a thread's registers."""
    widths = [tensor.type.element_type.width for tensor, _ in epilogue.reads]
    if not widths or lanes * sum(max(width, 8) for width in widths) > 32 * _BESIDE:
        return None

    def read(points: list[Point], lanes: int) -> list[Known]:
        with aligned_accesses():
            return [epilogue.read(point, lanes, lanes, biases=True) for point in points]

    return read


@dataclass(frozen=True)
class _Parts(Staged):
    """Sums of `parts` warps, each `part_bytes` behind the one before: what is read is the sum of all."""

    parts: int = 1
    part_bytes: int = 0

    def load(self, row: ir.Value, column: ir.Value, lanes: int) -> ir.Value:
        total = super().load(row, column, lanes)
        for part in range(1, self.parts):
            later = Staged(numbers.add(self.address, part * self.part_bytes), self.rows, self.columns, self.padding)
            total = arith.addf(total, later.load(row, column, lanes))
        return total

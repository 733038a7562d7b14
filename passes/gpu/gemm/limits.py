"""What a schedule of a product may not be: more than a target has, or what no instruction and no kernel does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import ceil, prod

from blu.dialects.core.mlir import func
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.gemm import gemm, wgmma
from blu.passes.gpu.gemm.boxes.gradient_plan import misfit as gradients_misfit
from blu.passes.gpu.gemm.boxes.plan import misfit as boxes_misfit
from blu.passes.gpu.gemm.boxes.row_sums import keeps_f32
from blu.passes.gpu.gemm.boxes.row_sums import misfit as rows_misfit
from blu.passes.gpu.gemm.choice import SCRATCH_BYTES, TILES, ProductSizes
from blu.passes.gpu.gemm.few_rows import rows as few_rows
from blu.passes.gpu.gemm.few_rows import strips
from blu.passes.gpu.gemm.few_rows.prologue import makes_rows
from blu.passes.gpu.gemm.problem import Product
from blu.passes.gpu.gemm.register_factor import ROWS
from blu.passes.gpu.gemm.schedule import (
    COPIES,
    FLOAT8,
    OF_FLOAT8,
    SUMS,
    FewRowsSchedule,
    MmaSchedule,
    ProductSchedule,
    SimtSchedule,
    StripsSchedule,
    TileSchedule,
    WgmmaSchedule,
    parts_of,
)
from blu.passes.gpu.gemm.slabs import SLAB
from blu.passes.gpu.gemm.split import REST_PARTS, SharedRest
from blu.passes.gpu.isa import wgmma as isa
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.kernels.contraction import Contraction
from blu.passes.kernels.epilogue import Epilogue
from blu.passes.kernels.schedules import Schedule

_SUM_REGISTERS = 192
"""Of the 232 registers of a thread that multiplies, those that may hold sums of its tile."""
_SHORT, _HALVES = 20, 8
"""Scalar operations of an epilogue, and neighbours of 16 bits, for which registers are the better place."""
_WARP_TILES = (32, 64)
_LEAST_THREADS = 128
"""One for each of 128 columns, of which each may be written by itself."""


def excess(schedule: Schedule, contraction: Contraction, target: GpuTarget) -> str:
    """What a schedule asks for that there is not, whatever the strides; "" where it fits."""
    return next(_excesses(schedule, contraction, target), "")


def _excesses(schedule: Schedule, contraction: Contraction, target: GpuTarget) -> Iterator[str]:
    if isinstance(schedule, TileSchedule | ProductSchedule):
        yield from _excess_parts(ProductSizes.of(contraction, schedule.instruction), parts_of(schedule))
    if isinstance(schedule, StripsSchedule):
        yield from _excess_strips(schedule, contraction, target)
    if isinstance(schedule, ProductSchedule | WgmmaSchedule):
        yield from _excess_copies(schedule, target)
    if isinstance(schedule, WgmmaSchedule):
        yield from _excess_wgmma(schedule, target)
        yield from _excess_lead(schedule, contraction, target)
    if isinstance(schedule, MmaSchedule | SimtSchedule | ProductSchedule):
        yield from _excess_tile(schedule)
    if isinstance(schedule, MmaSchedule | SimtSchedule):
        yield from _excess_shared(gemm.share_out(schedule)[0].bytes, schedule, target)


def _excess_parts(sizes: ProductSizes, split: int) -> Iterator[str]:
    if split > sizes.steps:
        yield f"split = {split}: k of {sizes.depth} has {sizes.steps} steps of 128 bytes to share"
    if split > 1 and sizes.part_bytes * split > SCRATCH_BYTES:
        yield f"split = {split}: the parts would take {sizes.part_bytes * split} bytes of at most {SCRATCH_BYTES}"


def _excess_copies(schedule: ProductSchedule | WgmmaSchedule, target: GpuTarget) -> Iterator[str]:
    if schedule.copied not in COPIES:
        yield f"copied = '{schedule.copied}': it is {', '.join(COPIES)}"
    elif schedule.copied not in ("undecided", "none") and not target.wgmma:
        yield f"copied = '{schedule.copied}': factors are turned around for warpgroups, which {target.name} has not"


def _excess_wgmma(schedule: WgmmaSchedule, target: GpuTarget) -> Iterator[str]:
    rows, columns = schedule.rows, schedule.columns
    names = ("columns", "rows") if schedule.is_turned else ("rows", "columns")
    if not target.wgmma:
        yield f"{target.name} has no warpgroup products"
    if schedule.instruction not in wgmma.INSTRUCTIONS:
        yield f"warpgroups multiply {', '.join(wgmma.INSTRUCTIONS)}, not {schedule.instruction}"
    yield from _excess_registers(schedule)
    if schedule.down not in (isa.ROWS, 2 * isa.ROWS):
        yield f"{names[0]} = {schedule.down}: tiles of warpgroups have {isa.ROWS} {names[0]}, or {2 * isa.ROWS}"
    # What lies the other way comes in panels of 64 elements.
    unit = 2 * SLAB if schedule.registers == "none" else SLAB
    if schedule.across % unit or schedule.across > 256:
        yield f"{names[1]} = {schedule.across}: tiles of warpgroups have a multiple of {unit} {names[1]}, 256 at most"
    # Those of a step are held beside those of all steps before.
    sums = rows * columns // isa.THREADS * (3 if schedule.instruction == FLOAT8 else 1)
    if sums > _SUM_REGISTERS:
        yield f"a tile of {rows} x {columns} takes {sums} registers of each thread, of at most {_SUM_REGISTERS}"
    if schedule.sums not in SUMS:
        yield f"sums = '{schedule.sums}': sums are {', '.join(map(repr, SUMS))}"
    if schedule.stages < 2:
        yield "stages = 1: one stage is filled while another is multiplied"
    yield from _excess_shared(wgmma.shared_bytes(schedule), schedule, target)


def _excess_lead(schedule: WgmmaSchedule, contraction: Contraction, target: GpuTarget) -> Iterator[str]:
    sizes = ProductSizes.of(contraction, schedule.instruction)
    results = ceil(sizes.rows / schedule.rows) * ceil(sizes.columns / schedule.columns) * sizes.outer
    if schedule.lead < 0:
        yield f"lead = {schedule.lead}: the first part of k is as long as the others, or several times as long"
    elif schedule.lead == 0:
        runs = prod(map(contraction.size, contraction.outer_depth))
        steps = runs * ceil(contraction.size(contraction.depth) / schedule.depth)
        rest = SharedRest(results, steps, target.processors)
        if schedule.split != REST_PARTS or not rest.fits():
            yield (
                f"lead = 0: what is left of k is shared out in {REST_PARTS} parts, where there are fewer tiles than "
                f"the {target.processors} multiprocessors of {target.name}, and at least as many as are left"
            )
    elif schedule.lead > 1 and (schedule.split == 1 or results >= target.processors):
        yield (
            f"lead = {schedule.lead}: the first part of k is longer where k is split, and there are fewer tiles than "
            f"the {target.processors} multiprocessors of {target.name}"
        )


def _excess_registers(schedule: WgmmaSchedule) -> Iterator[str]:
    if schedule.registers not in ("none", "left", "right"):
        yield f"registers = '{schedule.registers}': it is the left factor that goes through them, the right, or none"
    elif schedule.registers != "none" and schedule.instruction != "tf32":
        yield f"registers = '{schedule.registers}': products of {schedule.instruction} read factors in any order"
    elif schedule.registers != "none" and schedule.down != ROWS:
        name = "columns" if schedule.is_turned else "rows"
        yield f"{name} = {schedule.down}: the {schedule.registers} factor goes through registers {ROWS} at a time"


def _excess_tile(schedule: MmaSchedule | SimtSchedule | ProductSchedule) -> Iterator[str]:
    if (schedule.rows, schedule.columns) not in TILES:
        tiles = ", ".join(f"{rows} x {columns}" for rows, columns in TILES)
        yield f"there is no tile of {schedule.rows} x {schedule.columns}: tiles are {tiles}"
    if isinstance(schedule, MmaSchedule | SimtSchedule) and schedule.stages < 2:
        yield "stages = 1: one stage is filled while another is multiplied"
    if isinstance(schedule, MmaSchedule):
        if schedule.instruction == "f32":
            yield "tensor cores multiply bf16, f16, tf32, 3xtf32, not f32"
        if schedule.instruction in OF_FLOAT8:
            yield f"single warps multiply bf16, f16, tf32, 3xtf32, not {schedule.instruction}: warpgroups do"
        if schedule.warp_rows not in _WARP_TILES or schedule.warp_columns not in _WARP_TILES:
            yield f"a warp's tile is of 32 or 64, not of {schedule.warp_rows} x {schedule.warp_columns}"
        if schedule.threads < _LEAST_THREADS:
            warps = f"warps of {schedule.warp_rows} x {schedule.warp_columns}"
            yield f"{warps} leave a block {schedule.threads} threads: it takes {_LEAST_THREADS} to copy its tiles"
    if isinstance(schedule, SimtSchedule) and schedule.instruction != "f32":
        yield f"threads multiply f32 on their own, not {schedule.instruction}"


def _excess_strips(schedule: StripsSchedule, contraction: Contraction, target: GpuTarget) -> Iterator[str]:
    needed = strips.shared_bytes(contraction.size(contraction.rows), schedule)
    if needed > target.shared_bytes:
        sums = f"the sums of {schedule.warps} warps take {needed} bytes of shared memory"
        yield f"{sums}, and a block on {target.name} has {target.shared_bytes}"


def _excess_shared(needed: int, schedule: TileSchedule, target: GpuTarget) -> Iterator[str]:
    if needed > target.shared_bytes:
        tile = f"{schedule.stages} stages of tiles of {schedule.rows} x {schedule.columns}"
        yield f"{tile} take {needed} bytes of shared memory, and a block on {target.name} has {target.shared_bytes}"


def misfit(schedule: Schedule, kernel: func.FuncOp, product: Product) -> str:
    """Why a schedule does not fit the strides of a product; "" where it does."""
    if isinstance(schedule, StripsSchedule):
        return _misfit_strips(schedule, product, makes_rows(kernel))
    if makes_rows(kernel):
        return f"kind '{schedule.kind}' reads both factors from memory, and this kernel makes one"
    if isinstance(schedule, WgmmaSchedule):
        return wgmma.misfit(product, schedule) or _misfit_sums(schedule, kernel)
    if gemm.read(GpuKernel.read(kernel))[1].row_numbers:
        return f"kind '{schedule.kind}' knows nothing of sums along rows: warpgroups find those of whole rows, in boxes"
    if not isinstance(schedule, FewRowsSchedule):
        return ""
    if not few_rows.suits(product):
        most = few_rows.MOST_ROWS
        return f"kind 'few_rows' takes at most {most} rows, and a matrix with neighbours side by side"
    widths = few_rows.widths(product)
    if schedule.columns not in widths:
        return f"columns = {schedule.columns}: blocks have {', '.join(map(str, widths))} of these columns"
    return ""


def _misfit_strips(schedule: StripsSchedule, product: Product, makes_rows: bool) -> str:
    if not strips.suits(product):
        return f"kind 'strips' takes at most {strips.MOST_ROWS} rows of halves, and columns and k by eights"
    widths = strips.widths(product)
    if schedule.columns not in widths:
        return f"columns = {schedule.columns}: strips have {', '.join(map(str, widths))} of these columns"
    if schedule.warps not in strips.WARPS:
        return f"warps = {schedule.warps}: blocks of strips have {' or '.join(map(str, strips.WARPS))} warps"
    if makes_rows and not strips.can_make_rows(product, schedule):
        return f"columns = {schedule.columns}: they leave no registers for the factor that this kernel makes"
    return ""


def _misfit_sums(schedule: WgmmaSchedule, kernel: func.FuncOp) -> str:
    if schedule.sums == "boxed":
        return _boxes_misfit(*gemm.read(GpuKernel.read(kernel)), schedule)
    if gemm.read(GpuKernel.read(kernel))[1].row_numbers:
        return f"sums = '{schedule.sums}': those of whole rows are in boxes"
    if schedule.sums == "staged" or wgmma.held_lanes(*gemm.read(GpuKernel.read(kernel)), schedule):
        return ""
    return f"sums = '{schedule.sums}': sums are written from registers where rows of all results begin at 16 bytes"


def _boxes_misfit(product: Product, epilogue: Epilogue, schedule: WgmmaSchedule) -> str:
    """Why boxes do not fit what follows a product; "" where they do."""
    if not epilogue.row_numbers:
        return boxes_misfit(product, epilogue, schedule)
    return (rows_misfit if keeps_f32(epilogue) else gradients_misfit)(product, epilogue, schedule)


def place_of_sums(schedule: WgmmaSchedule, kernel: func.FuncOp, target: GpuTarget) -> str:
    """From where sums are best written: in boxes where they can be, from registers, or through shared memory.

    Measured on an H200 at 65536 rows, registers take 0.88 of the time of shared memory with a residual, 0.96 with a
    bias, and 1.05 with nothing fused, 1.12 with the gradient of GELU, 1.06 to 1.19 where results are f32.
    """
    product, epilogue = gemm.read(GpuKernel.read(kernel))
    boxed = replace(schedule, sums="boxed")
    if wgmma.shared_bytes(boxed) <= target.shared_bytes and not _boxes_misfit(product, epilogue, boxed):
        return "boxed"
    is_short = bool(epilogue.reads) and epilogue.operation_count <= _SHORT
    gains = schedule.split == 1 and is_short and wgmma.held_lanes(product, epilogue, schedule) == _HALVES
    return "held" if gains else "staged"

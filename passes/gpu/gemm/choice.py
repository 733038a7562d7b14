"""How a matrix product on a GPU is cut: the choice of its schedule, by sizes first, then by strides.

Only blu-choose-schedules and blu-fit-schedules choose. What they have chosen is written on the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError
from blu.passes.gpu.gemm import wgmma
from blu.passes.gpu.gemm.few_rows import rows as few_rows
from blu.passes.gpu.gemm.few_rows import strips
from blu.passes.gpu.gemm.few_rows.rows import MOST_ROWS
from blu.passes.gpu.gemm.problem import COPY_BYTES, Product
from blu.passes.gpu.gemm.schedule import (
    FAST_FLOAT8,
    FLOAT8,
    KINDS,
    OF_FLOAT8,
    ROW_BYTES,
    WARPGROUP_STEPS,
    WARPGROUP_TILES,
    LoopsSchedule,
    MmaSchedule,
    ProductSchedule,
    SimtSchedule,
    WgmmaSchedule,
    bytes_of,
    needs_registers,
)
from blu.passes.kernels.contraction import Contraction
from blu.passes.kernels.schedules import Fields, Schedule, make

# Clocks that a multiprocessor takes to multiply 128 x 128 x 128 bytes, and to begin and end a tile; bytes of global
# memory per clock; clocks of one more launch. Rough: they only have to put schedules in the right order.
_CLOCKS = {FLOAT8: 1024, FAST_FLOAT8: 1024, "bf16": 1024, "f16": 1024, "tf32": 1024, "3xtf32": 3600, "f32": 6000}
_TILE_CLOCKS = 5000
_BYTES_PER_CLOCK = 2400
_LAUNCH_CLOCKS = 5000
_SPLITS = (1, 2, 3, 4, 6, 8, 11, 12, 16, 22, 24, 32)
_LEAST_STEPS, _LEAST_UNALIGNED_STEPS = 8, 2
"""Steps of k that a split must leave to a block; where rows begin anywhere, each takes long by itself."""
_UNALIGNED_CLOCKS = 1200
"""Of a step of k, where elements come one by one through registers: what a block waits for them, alone or not."""
SCRATCH_BYTES = 1 << 27
_LARGE_SHARED_BYTES = 200 * 1024
_INSTEAD = {
    FLOAT8: (FLOAT8,),
    FAST_FLOAT8: (FAST_FLOAT8, FLOAT8),
    "bf16": ("bf16",),
    "f16": ("f16",),
    "tf32": ("tf32", "3xtf32", "f32"),
    "3xtf32": ("3xtf32", "f32"),
    "f32": ("f32", "3xtf32"),
}
"""By the instruction that is chosen, those that are as exact, or nearly so."""
_LEAST_TERMS = 128
"""Of an f32 product by three tf32 ones, each term may be wrong by 2 ** -21 of it, rather than by 2 ** -24: a chain of
so many multiply-adds of f32 loses about as much (measured on an H200: 2.5e-7 and 2.0e-7 of the norm)."""
TILES = {(128, 128): 1.0, (64, 128): 0.8, (128, 64): 0.8, (64, 64): 0.65}
"""Tiles of a block, and how near to its best speed a multiprocessor comes with them."""


_OF_WARPGROUPS = (128, 128)
"""What stands for the tile of warps where sizes have it that warpgroups multiply; strides may not."""


@dataclass(frozen=True)
class ProductSizes:
    """What a schedule is chosen by before strides are known: `outer` products of rows x depth by depth x columns."""

    rows: int
    columns: int
    depth: int
    outer: int
    instruction: str

    @classmethod
    def of(cls, contraction: Contraction, instruction: str) -> ProductSizes:
        size = contraction.size
        outer, runs = (prod(map(size, dims)) for dims in (contraction.outer, contraction.outer_depth))
        depth = size(contraction.depth) * runs
        return cls(size(contraction.rows), size(contraction.columns), depth, outer, instruction)

    @property
    def steps(self) -> int:
        """Steps of k, of 128 bytes each."""
        return ceil(self.depth / (ROW_BYTES // bytes_of(self.instruction)))

    @property
    def is_aligned(self) -> bool:
        """Whether rows of all matrices begin at multiples of 16 bytes, however they lie."""
        return not any(size % self._lanes for size in (self.rows, self.columns, self.depth))

    @property
    def _lanes(self) -> int:
        """Elements of 16 bytes."""
        return COPY_BYTES // bytes_of(self.instruction)

    @property
    def part_bytes(self) -> int:
        """Bytes of the sums of one part of k."""
        return self.outer * self.rows * self.columns * 4

    @property
    def is_degenerate(self) -> bool:
        """Whether a size is 0."""
        return 0 in (self.rows, self.columns, self.depth, self.outer)


def choose_instruction(contraction: Contraction) -> str | None:
    """The type of the products, or None where only plain loops will do (integers, f64)."""
    if not isinstance(contraction.accumulator, ir.F32Type):
        return None
    attributes = contraction.operation.attributes
    precision = ir.StringAttr(attributes["blu.precision"]).value if "blu.precision" in attributes else "highest"
    operands = list(contraction.operation.operands)[:2]
    elements = {str(ir.ShapedType(value.type).element_type) for value in operands}
    if elements <= {"f8E4M3FN", "f8E5M2"}:
        return FAST_FLOAT8 if precision == "fast" else FLOAT8
    if len(elements) > 1 or not elements <= {"f32", "bf16", "f16"}:
        return None
    if elements != {"f32"}:
        return elements.pop()
    if precision == "tf32":
        return "tf32"
    terms = prod(map(contraction.size, (*contraction.outer_depth, contraction.depth)))
    return "3xtf32" if terms >= _LEAST_TERMS else "f32"


def choose_by_sizes(contraction: Contraction, target: GpuTarget, given: Fields, can_split: bool = True) -> Schedule:
    """The schedule of a product before strides are known, with the fields that are given.

    Few rows are not split, nor is anything that cannot have memory for its parts any more.
    ParseError says which of them there is no such thing as, or what is wrong with it for this product.
    """
    chosen = choose_instruction(contraction)
    if chosen is None or None in (contraction.rows, contraction.columns, contraction.depth):
        return _choose_loops(given)
    if "kind" not in given and given.keys() & {"rows", "columns"}:
        raise ParseError("a tile is that of one kind of kernel", advice="Give 'kind' with 'rows' and 'columns'.")
    instruction = str(given.get("instruction", _of_kind(chosen, given)))
    if instruction not in _INSTEAD[chosen]:
        possible = " or ".join(_INSTEAD[chosen])
        raise ParseError(f"instruction '{instruction}' does not multiply what is here: {possible} does")
    sizes = ProductSizes.of(contraction, instruction)
    if sizes.is_degenerate:
        return _choose_loops(given)
    kind = given.get("kind", ProductSchedule.kind)
    is_open = kind in (ProductSchedule.kind, WgmmaSchedule.kind)
    rows, columns, split = cut(sizes, target) if is_open else cut_for_warps(sizes, target)
    can_split = can_split and sizes.rows > MOST_ROWS and not (is_open and takes_strips(contraction, sizes, target))
    fields: dict[str, str | int] = {"instruction": instruction, "split": split if can_split else 1}
    if kind != WgmmaSchedule.kind:  # whose tile is always the same
        fields |= {"rows": rows, "columns": columns}
    if kind == MmaSchedule.kind:
        fields |= _warps_of({**fields, **given})
    return make(KINDS, {"kind": kind, **given}, fields)


def _of_kind(chosen: str, given: Fields) -> str:
    """The instruction of a kind of kernel that is given, where it multiplies f32 its own way."""
    own = {SimtSchedule.kind: "f32", MmaSchedule.kind: "3xtf32"}
    return own.get(str(given.get("kind")), chosen) if chosen in own.values() else chosen


def _warps_of(fields: Fields) -> Fields:
    """The tile of a warp where that of a block is given. What is no tile is found later."""
    rows, columns = (size if isinstance(size := fields[name], int) else 0 for name in ("rows", "columns"))
    warp_rows, warp_columns = _warp_tile(rows, columns, fields["instruction"] == "3xtf32")
    return {"warp_rows": warp_rows, "warp_columns": warp_columns}


def _choose_loops(given: Fields) -> Schedule:
    """The only schedule of integers, of f64, and of a product without elements."""
    kind = given.get("kind", LoopsSchedule.kind)
    if kind in KINDS and kind != LoopsSchedule.kind:
        raise ParseError(f"tiles of kind '{kind}' do not multiply what is here: only loops do")
    return make(KINDS, {"kind": kind, **given}, {})


def choose_by_strides(
    product: Product, schedule: ProductSchedule, target: GpuTarget, makes_rows: bool = False
) -> Schedule:
    """The kind of kernel for a product whose strides are known, cut as the sizes say.

    One that makes its left factor is one of strips (normalize_in_products.py).
    """
    if makes_rows:
        return strips.choose_schedule(product, target, makes_rows)
    instruction, split = schedule.instruction, schedule.split
    sizes = ProductSizes.of(product.contraction, instruction)
    is_few = few_rows.suits(product)
    # Where neighbours along k lie side by side, few rows keep their own kernel: strips were not measured there.
    is_of_strips = strips.suits(product) and takes_strips(product.contraction, sizes, target)
    if is_of_strips and split == 1 and not (is_few and product.right.is_deep):
        return strips.choose_schedule(product, target)
    if is_few:
        return few_rows.choose_schedule(product, target)
    if wgmma.suits(product, instruction, target):
        return wgmma.tiled(product, instruction, target, split)
    if instruction in OF_FLOAT8:  # which nothing else multiplies
        return LoopsSchedule()
    rows, columns = schedule.rows, schedule.columns
    if takes_warpgroups(sizes, target) and (rows, columns) == _OF_WARPGROUPS:
        rows, columns, _ = cut_for_warps(sizes, target, (split,))
    if instruction == "f32":
        stages = 3 if target.shared_bytes > _LARGE_SHARED_BYTES else 2
        return SimtSchedule(instruction, rows, columns, stages, split)
    in_registers = any(needs_registers(factor) for factor in (product.left, product.right))
    warp_rows, warp_columns = _warp_tile(rows, columns, in_registers or instruction == "3xtf32")
    stages = 2 if in_registers else _stages(rows, columns, target)
    tile = MmaSchedule(instruction, rows, columns, stages, split)
    return replace(tile, warp_rows=warp_rows, warp_columns=warp_columns)


def cut(sizes: ProductSizes, target: GpuTarget) -> tuple[int, int, int]:
    """Rows and columns of a tile, and how often k is split: what should take the fewest clocks."""
    if takes_warpgroups(sizes, target):
        return *_OF_WARPGROUPS, warpgroup_split(sizes, target)
    return cut_for_warps(sizes, target)


def cut_for_warps(sizes: ProductSizes, target: GpuTarget, splits: Sequence[int] = _SPLITS) -> tuple[int, int, int]:
    """The same for threads or warps, of some splits of k."""
    tiles = [tile for tile in TILES if not _is_too_large(sizes, target, *tile)]
    least = _LEAST_STEPS if sizes.is_aligned else _LEAST_UNALIGNED_STEPS
    possible = [split for split in splits if _is_possible(sizes, split, least)] or splits
    choices = [(rows, columns, split) for rows, columns in tiles for split in possible]
    return min(choices, key=lambda choice: clocks_of_warps(sizes, target, *choice))


def _is_too_large(sizes: ProductSizes, target: GpuTarget, rows: int, columns: int) -> bool:
    """Sums in f32 wait in shared memory beside the operands."""
    return sizes.instruction == "f32" and rows * columns == 128 * 128 and target.shared_bytes < 2 * 64 * 1024


_WARPGROUP_END = 3000
"""Clocks of what the other tile's products do not hide of writing one."""


def takes_warpgroups(sizes: ProductSizes, target: GpuTarget) -> bool:
    """Whether tiles of warpgroups would be used, if the operands lie for it."""
    if sizes.instruction in OF_FLOAT8:  # by place_float8.py
        return target.wgmma
    is_large = sizes.rows * sizes.columns >= 1 << 14
    is_deep = sizes.instruction != "tf32" and min(sizes.rows, sizes.columns) >= 64 and sizes.depth >= wgmma.DEEP
    return target.wgmma and sizes.instruction in ("bf16", "f16", "tf32") and (is_large or is_deep)


def takes_strips(contraction: Contraction, sizes: ProductSizes, target: GpuTarget) -> bool:
    """Whether strips would be used, if the matrix lies for it."""
    extents = (sizes.rows, sizes.columns, sizes.depth, sizes.outer)
    return sizes.instruction in ("bf16", "f16") and strips.takes(contraction, *extents, target)


def fills_warpgroups(sizes: ProductSizes) -> bool:
    """Whether there are tiles enough, or steps of k to share out."""
    rows, columns = WARPGROUP_TILES["none"]
    tiles = tiles_of(sizes, rows, columns)
    return sizes.depth >= wgmma.LEAST_DEPTH and (sizes.depth >= wgmma.DEEP or tiles >= wgmma.LEAST_TILES)


def warpgroup_split(sizes: ProductSizes, target: GpuTarget, registers: str = "none") -> int:
    """How often to split k so that tiles, one after the other on each multiprocessor, take the fewest clocks.

    `registers` says which factor goes through these.
    """
    if sizes.instruction == "tf32":
        largest, only = WARPGROUP_TILES["none"], WARPGROUP_TILES[registers]
        tiles: dict[tuple[int, int], float] = {only: WARPGROUP_STEPS[largest] * prod(only) // prod(largest)}
    elif sizes.instruction == FLOAT8:
        tiles = dict(wgmma.ADDED_TILES)
    else:
        tiles = wgmma.tiles_of_parts(sizes.rows, sizes.columns, sizes.outer, target)

    def clocks(split: int) -> float:
        return min(clocks_of_warpgroups(sizes, target, tile, step, split) for tile, step in tiles.items())

    return min((split for split in range(1, target.processors + 1) if _is_possible(sizes, split)), key=clocks)


def clocks_of_warpgroups(
    sizes: ProductSizes, target: GpuTarget, tile: tuple[int, int], step: float, split: int, lead: int | None = None
) -> float:
    """What warpgroups are expected to take, whose tiles take `step` clocks for 128 bytes of k; with the best `lead`."""
    results = tiles_of(sizes, *tile)
    leads = [lead] if lead is not None else wgmma.leads(results, sizes.steps, split, target)
    total = step * min(wgmma.walked(results, sizes.steps, split, each, target) for each in leads) + _WARPGROUP_END
    moved = 2 * split * sizes.part_bytes
    return total + (moved / _BYTES_PER_CLOCK + _LAUNCH_CLOCKS if split > 1 else 0)


def tiles_of(sizes: ProductSizes, rows: int, columns: int) -> int:
    """How many tiles of rows x columns all results are."""
    return ceil(sizes.rows / rows) * ceil(sizes.columns / columns) * sizes.outer


def _is_possible(sizes: ProductSizes, split: int, least: int = _LEAST_STEPS) -> bool:
    if split == 1:
        return True
    return sizes.steps // split >= least and split * sizes.part_bytes <= SCRATCH_BYTES


def clocks_of_warps(sizes: ProductSizes, target: GpuTarget, rows: int, columns: int, split: int) -> float:
    """What threads or warps are expected to take, one tile after the other on each multiprocessor."""
    tiles = tiles_of(sizes, rows, columns) * split
    share = rows * columns / (128 * 128)
    step = _CLOCKS[sizes.instruction] * share / TILES[rows, columns]
    each = ceil(sizes.steps / split) * step + _TILE_CLOCKS * share
    total = ceil(tiles / target.processors) * each
    if not sizes.is_aligned:
        total = max(total, ceil(sizes.steps / split) * _UNALIGNED_CLOCKS + _TILE_CLOCKS * share)
    if split > 1:
        moved = 2 * split * sizes.part_bytes
        total += moved / _BYTES_PER_CLOCK + _LAUNCH_CLOCKS
    return total


def _warp_tile(rows: int, columns: int, is_crowded: bool) -> tuple[int, int]:
    """Four warps, or eight with half as many sums where registers are needed for more than sums."""
    warp_rows, warp_columns = max(32, rows // 2), max(32, columns // 2)
    if is_crowded and warp_columns > 32:
        warp_columns = 32
    return warp_rows, warp_columns


def _stages(rows: int, columns: int, target: GpuTarget) -> int:
    """Four at most: as many as leave room for a second block, or if those are too few, as many as there is room for."""
    each = (rows + columns) * ROW_BYTES
    shared = min(target.shared_bytes, target.shared_bytes_per_processor // 2 - 1024) // each
    return min(4, shared if shared >= 3 else target.shared_bytes // each)

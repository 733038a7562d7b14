"""How a GEMM on a GPU is cut: the instruction, the tile of a block and of a warp, and how k is split.

The tile and the split are chosen by sizes alone, so that the memory for a split can be planned before strides are
known; how tiles are copied is chosen by strides.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from blu.dialects.core.mlir import ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.passes.gpu.gemm.problem import Factor, Product
from blu.passes.kernels.contraction import Contraction

ROW_BYTES = 128
"""Of a row of a tile in shared memory: all 32 banks."""
WARP = 32
SIMT_THREADS = 256
# Clocks that a multiprocessor takes to multiply 128 x 128 x 128 bytes, and to begin and end a tile; bytes of global
# memory per clock; clocks of one more launch. Rough: they only have to put schedules in the right order.
_CLOCKS = {"bf16": 1024, "f16": 1024, "tf32": 1024, "3xtf32": 3600, "f32": 6000}
_TILE_CLOCKS = 5000
_BYTES_PER_CLOCK = 2400
_LAUNCH_CLOCKS = 5000
_SPLITS = (1, 2, 3, 4, 6, 8, 11, 12, 16, 22, 24, 32)
_LEAST_STEPS = 8
"""Steps of k that a split must leave to a block."""
_SCRATCH_BYTES = 1 << 28
_LARGE_SHARED_BYTES = 200 * 1024
HIGHEST = "f32"
"""What f32 is multiplied with in full precision: f32, or 3xtf32, whose errors are of the same size."""
_TILES = {(128, 128): 1.0, (64, 128): 0.8, (128, 64): 0.8, (64, 64): 0.65}
"""Tiles of a block, and how near to its best speed a multiprocessor comes with them."""


@dataclass(frozen=True)
class Sizes:
    """What a schedule is chosen by before strides are known: `outer` products of rows x depth by depth x columns."""

    rows: int
    columns: int
    depth: int
    outer: int
    instruction: str

    @classmethod
    def of(cls, contraction: Contraction, instruction: str) -> Sizes:
        size = contraction.size
        outer, runs = (prod(map(size, dims)) for dims in (contraction.outer, contraction.outer_depth))
        depth = size(contraction.depth) * runs
        return cls(size(contraction.rows), size(contraction.columns), depth, outer, instruction)

    @property
    def is_degenerate(self) -> bool:
        """Whether a size is 0."""
        return 0 in (self.rows, self.columns, self.depth, self.outer)


@dataclass(frozen=True)
class GemmSchedule:
    """A block computes `rows` x `columns` results, a warp `warp_rows` x `warp_columns` of them, `depth` k at a time.

    `kind` is how: "mma" (tensor cores, one warp at a time) or "simt" (each thread its own multiply-adds, always 256
    threads).
    `instruction` is the type of the products: bf16, f16, tf32, 3xtf32 (f32 as the sum of two tf32) or f32. `stages`
    tiles are in shared memory at a time. `split` blocks share the k of one tile; a second kernel adds what they found.
    Blocks go through `group` rows of tiles together, so that what they read is still in the cache.
    """

    kind: str
    instruction: str
    rows: int = 128
    columns: int = 128
    warp_rows: int = 64
    warp_columns: int = 64
    stages: int = 3
    split: int = 1
    group: int = 8

    @property
    def element_bytes(self) -> int:
        """Bytes of an operand's element in shared memory."""
        return 2 if self.instruction in ("bf16", "f16") else 4

    @property
    def depth(self) -> int:
        return ROW_BYTES // self.element_bytes

    @property
    def threads(self) -> int:
        if self.kind == "simt":
            return SIMT_THREADS
        return self.rows // self.warp_rows * (self.columns // self.warp_columns) * WARP

    @property
    def stage_bytes(self) -> int:
        """Bytes of shared memory of a tile of both operands."""
        return (self.rows + self.columns) * ROW_BYTES


def choose_instruction(contraction: Contraction) -> str | None:
    """The type of the products, or None where only plain loops will do (integers, f64)."""
    if not isinstance(contraction.accumulator, ir.F32Type):
        return None
    attributes = contraction.operation.attributes
    precision = ir.StringAttr(attributes["blu.precision"]).value if "blu.precision" in attributes else "highest"
    operands = list(contraction.operation.operands)[:2]
    elements = {str(ir.ShapedType(value.type).element_type) for value in operands}
    if len(elements) > 1 or not elements <= {"f32", "bf16", "f16"}:
        return None
    if elements != {"f32"}:
        return elements.pop()
    return "tf32" if precision == "tf32" else HIGHEST


def choose_schedule(product: Product, target: GpuTarget) -> GemmSchedule | None:
    """The schedule for a product on a target, or None where no GEMM of these kinds fits."""
    instruction = choose_instruction(product.contraction)
    if instruction is None or product.is_degenerate:
        return None
    rows, columns, split = cut(Sizes.of(product.contraction, instruction), target)
    if instruction == "f32":
        stages = 3 if target.shared_bytes > _LARGE_SHARED_BYTES else 2
        return GemmSchedule("simt", instruction, rows, columns, 0, 0, stages, split)
    in_registers = any(needs_registers(factor) for factor in (product.left, product.right))
    warp_rows, warp_columns = _warp_tile(rows, columns, in_registers or instruction == "3xtf32")
    stages = 2 if in_registers else _stages(rows, columns, target)
    return GemmSchedule("mma", instruction, rows, columns, warp_rows, warp_columns, stages, split)


def needs_registers(factor: Factor) -> bool:
    """Whether a factor goes through registers to shared memory, since copies need 4 bytes side by side."""
    return not factor.is_dense or factor.copy_bytes < 4


def cut(sizes: Sizes, target: GpuTarget) -> tuple[int, int, int]:
    """Rows and columns of a tile, and how often k is split: what should take the fewest clocks."""
    tiles = [tile for tile in _TILES if not _is_too_large(sizes, target, *tile)]
    if takes_warpgroups(sizes, target):
        return 128, 128, warpgroup_split(sizes, target)
    choices = [(rows, columns, split) for rows, columns in tiles for split in _SPLITS]
    return min((choice for choice in choices if _is_possible(sizes, *choice)), key=lambda c: _clocks(sizes, target, *c))


def _is_too_large(sizes: Sizes, target: GpuTarget, rows: int, columns: int) -> bool:
    """Sums in f32 wait in shared memory beside the operands."""
    return sizes.instruction == "f32" and rows * columns == 128 * 128 and target.shared_bytes < 2 * 64 * 1024


WARPGROUP_TILE = (128, 192)
_WARPGROUP_STEP, _WARPGROUP_END = 768, 3000
"""Clocks of 128 bytes of k of such a tile, and of what the other tile's products do not hide of writing one."""


def takes_warpgroups(sizes: Sizes, target: GpuTarget) -> bool:
    """Whether tiles of warpgroups would be used, if the operands lie for it."""
    is_large = sizes.rows * sizes.columns >= 1 << 14
    return target.wgmma and sizes.instruction in ("bf16", "f16", "tf32") and is_large


def warpgroup_split(sizes: Sizes, target: GpuTarget) -> int:
    """How often to split k so that two tiles at a time on each multiprocessor take the fewest clocks."""
    rows, columns = WARPGROUP_TILE
    tiles = ceil(sizes.rows / rows) * ceil(sizes.columns / columns) * sizes.outer

    def clocks(split: int) -> float:
        rounds = ceil(tiles * split / (2 * target.processors))
        total = rounds * 2 * ceil(_steps(sizes) / split) * _WARPGROUP_STEP + _WARPGROUP_END
        moved = sizes.outer * sizes.rows * sizes.columns * 4 * 2 * split
        return total + (moved / _BYTES_PER_CLOCK + _LAUNCH_CLOCKS if split > 1 else 0)

    return min((split for split in range(1, 33) if _is_possible(sizes, rows, columns, split)), key=clocks)


def _is_possible(sizes: Sizes, rows: int, columns: int, split: int) -> bool:
    if split == 1:
        return True
    partial = split * sizes.outer * sizes.rows * sizes.columns * 4
    return _steps(sizes) // split >= _LEAST_STEPS and partial <= _SCRATCH_BYTES


def _steps(sizes: Sizes) -> int:
    depth = ROW_BYTES // (2 if sizes.instruction in ("bf16", "f16") else 4)
    return ceil(sizes.depth / depth)


def _clocks(sizes: Sizes, target: GpuTarget, rows: int, columns: int, split: int) -> float:
    tiles = ceil(sizes.rows / rows) * ceil(sizes.columns / columns) * sizes.outer * split
    share = rows * columns / (128 * 128)
    step = _CLOCKS[sizes.instruction] * share / _TILES[rows, columns]
    each = ceil(_steps(sizes) / split) * step + _TILE_CLOCKS * share
    total = ceil(tiles / target.processors) * each
    if split > 1:
        moved = sizes.outer * sizes.rows * sizes.columns * 4 * 2 * split
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

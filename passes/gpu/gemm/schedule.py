"""The kinds of schedules of a matrix product on a GPU: how its kernel cuts it, and what its blocks and threads do.

The instruction, and how k is split, depend on sizes alone: they are chosen before there is memory, since the parts of a
split k need some. How tiles are copied depends on strides. So there is a kind for what is known first, "product", in
whose place one of the others is put once there are strides (choice.py).
"""

from __future__ import annotations

from typing import ClassVar

from blu.dataclass import dataclass, field
from blu.dialects.core.mlir import func
from blu.passes.gpu.gemm.problem import Factor
from blu.passes.gpu.others.loops import LoopsSchedule
from blu.passes.kernels import schedules
from blu.passes.kernels.schedules import LEAST, Schedule, table_of

ROW_BYTES = 128
"""Of a row of a tile in shared memory: all 32 banks."""
WARP = 32
SUMS = ("staged", "held", "boxed")
COPIES = ("undecided", "none", "left", "right", "both")
SIMT_THREADS = 256


@dataclass(frozen=True)
class ProductSchedule(Schedule):
    """What sizes decide: the instruction, and in how many parts k is split.

    `rows` and `columns` are those of a block's tile, should threads or warps copy it and not the copy engine. `copied`
    says which factors other kernels turn around before: "left", "right", "both", "none" or "undecided"
    (copy_factors.py).
    """

    kind: ClassVar[str] = "product"
    instruction: str
    rows: int = 128
    columns: int = 128
    split: int = 1
    copied: str = "undecided"


FLOAT8, FAST_FLOAT8 = "fp8", "fp8_fast"
"""The instruction of factors of e4m3 and e5m2, whichever each of them is: sums of 128 k are added up as f32, or all are
left to tensor cores, which keep fewer bits."""
OF_FLOAT8 = (FLOAT8, FAST_FLOAT8)


def bytes_of(instruction: str) -> int:
    """Bytes of an element of what an instruction multiplies."""
    return {"bf16": 2, "f16": 2, FLOAT8: 1, FAST_FLOAT8: 1}.get(instruction, 4)


@dataclass(frozen=True)
class TileSchedule(Schedule):
    """A block computes `rows` x `columns` results, a row of 128 bytes of k at a time.

    `instruction` is the type of the products: bf16, f16, fp8, fp8_fast, tf32, 3xtf32 (f32 as the sum of two tf32) or
    f32. There are `stages` tiles in shared memory at a time. `split` blocks share the k of a tile; a second kernel adds
    what they found. Blocks go through `group` rows of tiles together, so that what they read is still in the cache.
    """

    instruction: str
    rows: int = 128
    columns: int = 128
    stages: int = 3
    split: int = 1
    group: int = 8

    @property
    def element_bytes(self) -> int:
        """Bytes of an operand's element in shared memory."""
        return bytes_of(self.instruction)

    @property
    def depth(self) -> int:
        """k of a stage."""
        return ROW_BYTES // self.element_bytes

    @property
    def left_bytes(self) -> int:
        """Bytes of shared memory of a tile of the left operand."""
        return self.rows * ROW_BYTES

    @property
    def stage_bytes(self) -> int:
        """Bytes of shared memory of a tile of both operands."""
        return (self.rows + self.columns) * ROW_BYTES


@dataclass(frozen=True)
class WgmmaSchedule(TileSchedule):
    """Warpgroups multiply what the copy engine brings (pingpong.py).

    Of tf32, a factor whose neighbours lie across k goes through `registers`: "left", "right" or "none". Where it is the
    right one, the transposed product is computed: the columns of a tile are the instruction's rows. `sums` go to the
    outputs from the registers that hold them ("held"), are "staged" in shared memory as f32, or what becomes of them is
    brought there by the copy engine ("boxed"). `copied` is what it is before
    strides are known. The first part of a k that is split has `lead` times as many steps as the others: with fewer
    tiles than multiprocessors, each of these has about as many then, and there are fewer parts. Where `lead` is 0, what
    is left of k is shared out wherever tiles begin (split.py).
    """

    kind: ClassVar[str] = "wgmma"
    columns: int = 192
    stages: int = 4
    registers: str = "none"
    sums: str = "staged"
    copied: str = "undecided"
    lead: int = field(default=1, metadata={LEAST: 0})

    @property
    def is_turned(self) -> bool:
        """Whether the transposed product is computed."""
        return self.registers == "right"

    @property
    def down(self) -> int:
        """Rows of the sums of an instruction's tiles."""
        return self.columns if self.is_turned else self.rows

    @property
    def across(self) -> int:
        """Columns of the sums of an instruction's tiles."""
        return self.rows if self.is_turned else self.columns

    @property
    def panel_bytes(self) -> int:
        """Of a stage of a factor whose neighbours lie across k, from one panel of 128 bytes across to the next."""
        return self.depth * ROW_BYTES

    @property
    def readers(self) -> int:
        """Who says of a stage that it was read: a thread for its warpgroup, or for each warp that reads by itself."""
        return 1 if self.registers == "none" else 4


WARPGROUP_TILES = {"none": (128, 192), "left": (128, 160), "right": (160, 128)}
"""Rows and columns of a tile, by which factor goes through registers: these leave fewer for sums."""
WARPGROUP_STEPS = {(128, 192): 768, (128, 128): 553, (128, 64): 358, (64, 192): 482, (64, 128): 361, (64, 64): 241}
"""Clocks of 128 bytes of k of a tile of which no factor goes through registers. Those of 128 rows were measured on an
H200, which is bound by tensor cores in the largest and by shared memory in the narrowest; the others are as that."""


@dataclass(frozen=True)
class MmaSchedule(TileSchedule):
    """Tensor cores, one warp at a time, of which each computes `warp_rows` x `warp_columns` (mma.py)."""

    kind: ClassVar[str] = "mma"
    warp_rows: int = 64
    warp_columns: int = 64

    @property
    def threads(self) -> int:
        return self.rows // self.warp_rows * (self.columns // self.warp_columns) * WARP


@dataclass(frozen=True)
class SimtSchedule(TileSchedule):
    """Each thread its own multiply-adds of f32 (simt.py)."""

    kind: ClassVar[str] = "simt"

    @property
    def threads(self) -> int:
        return SIMT_THREADS


@dataclass(frozen=True)
class FewRowsSchedule(Schedule):
    """The matrix is read once, by blocks of `columns` columns (rows.py)."""

    kind: ClassVar[str] = "few_rows"
    columns: int = 32


@dataclass(frozen=True)
class StripsSchedule(Schedule):
    """Blocks of `warps` warps, which share k, multiply up to 32 rows by `columns` columns each (strips.py)."""

    kind: ClassVar[str] = "strips"
    columns: int = 16
    warps: int = 8


KINDS = table_of(
    ProductSchedule, WgmmaSchedule, MmaSchedule, SimtSchedule, FewRowsSchedule, StripsSchedule, LoopsSchedule
)


def schedule_of(kernel: func.FuncOp) -> Schedule:
    """The schedule of a kernel of a product. PassError where it has none."""
    return schedules.schedule_of(kernel, KINDS)


def parts_of(schedule: Schedule) -> int:
    """In how many parts k is split."""
    return schedule.split if isinstance(schedule, ProductSchedule | TileSchedule) else 1


def needs_registers(factor: Factor) -> bool:
    """Whether a factor goes through registers to shared memory, since copies need 4 bytes side by side."""
    return not factor.is_dense or factor.copy_bytes < 4

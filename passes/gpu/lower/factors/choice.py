"""Which factors of a product are copied: by how they lie, and by how long the product takes with and without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dataclass import dataclass
from blu.dialects.core.mlir import func, ir
from blu.dialects.targets.nvidia import GpuTarget
from blu.errors import ParseError
from blu.passes.gpu.gemm import split as gemm_split
from blu.passes.gpu.gemm.choice import (
    ProductSizes,
    cut,
    cut_for_warps,
    fills_warpgroups,
    takes_strips,
    takes_warpgroups,
    warpgroup_split,
)
from blu.passes.gpu.gemm.few_rows.rows import MOST_ROWS
from blu.passes.gpu.gemm.problem import COPY_BYTES
from blu.passes.gpu.gemm.schedule import OF_FLOAT8, ProductSchedule, WgmmaSchedule
from blu.passes.gpu.lower.factors.turn_rows import VIEWS, RowTurner, is_transposed
from blu.passes.kernels.contraction import Contraction, maps_of
from blu.passes.kernels.schedules import said_of

_COPIED_BYTES, _LAUNCH = 3.2e6, 3.0
"""Bytes a microsecond that copies read and write, and microseconds that a launch takes."""
_SPEEDS = {"tf32": (2.0e8, 1.55e8, 0.85e8, 0.4e8), "bf16": (3.8e8, 3.8e8, 3.8e8, 0.7e8)}
"""Multiply-adds a microsecond by how many factors of tf32 lie across: as warpgroups read them, with one of them in
registers, by single warps; and by these where rows do not begin at multiples of 16 bytes."""
DEEP = ("tf32", *OF_FLOAT8)
"""Instructions that ask for factors whose neighbours lie along k."""
Decided = ProductSchedule | WgmmaSchedule
CHOICES = {"none": (), "left": ("left",), "right": ("right",), "both": ("left", "right")}


@dataclass(frozen=True)
class Lie:
    """How the factors of a product lie: those whose neighbours in memory do not lie along k, and those of which some
    rows do not begin at multiples of 16 bytes. What is no matrix is not copied (`kept`), and what rows make that could
    be written turned around (`made`) needs no copy."""

    across: tuple[str, ...] = ()
    unaligned: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    made: tuple[str, ...] = ()

    def copyable(self, instruction: str) -> set[str]:
        """Those of which a copy lies better."""
        return {*self.unaligned, *(self.across if instruction in DEEP else ())} - {*self.kept}

    def after(self, copied: Sequence[str]) -> Lie:
        """How they lie with copies of some."""
        across, unaligned = ([name for name in names if name not in copied] for names in (self.across, self.unaligned))
        return Lie(tuple(across), tuple(unaligned), self.kept, self.made)


def lie_of(call: func.CallOp, contraction: Contraction, turner: RowTurner) -> Lie:
    """How the factors lie, as far as can be seen here: of several products, one that is a matrix of all."""
    maps, arguments = maps_of(contraction.operation), list(contraction.operation.operands)[:2]
    if all(len(dims) > 2 for dims in maps[:2]):
        return Lie()
    across, unaligned, kept, made = [], [], [], []
    for name, value, dims in zip(("left", "right"), arguments, maps, strict=False):
        if len(dims) > 2:
            kept.append(name)
            across += [name] * (dims[-1] != contraction.depth)
            continue
        if not isinstance(value.owner, ir.Block) or len(dims) != 2:
            continue
        given = call.operands_[ir.BlockArgument(value).arg_number]
        if dims[0 if is_transposed(given) else 1] != contraction.depth:
            across.append(name)
        if _row_bytes(given) % COPY_BYTES:
            unaligned.append(name)
        if name in across and turner.maker(given, call.operation):
            made.append(name)
    return Lie(tuple(across), tuple(unaligned), tuple(kept), tuple(made))


def _row_bytes(value: ir.Value) -> int:
    """From one row in memory to the next of the matrix that a value is a view of."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    type_ = ir.RankedTensorType(value.type)
    return type_.shape[-1] * type_.element_type.width // 8


def decide(kernel: func.FuncOp, lie: Lie, schedule: Decided, target: GpuTarget) -> str:
    """Which factors are to be copied. PassError where those are given of which a copy would lie as they do."""
    possible = [name for name, copied in CHOICES.items() if {*copied} <= lie.copyable(schedule.instruction)]
    if schedule.copied != "undecided":
        if schedule.copied not in possible:
            advice = f"What can be copied of this product: {', '.join(possible)}."
            with said_of(kernel):
                message = (
                    f"copied = '{schedule.copied}': a factor is copied where its neighbours do not lie along k, "
                    "or where its rows do not begin at multiples of 16 bytes"
                )
                raise ParseError(message, advice=advice)
        return schedule.copied
    if schedule.instruction in OF_FLOAT8:  # there is no other way
        return max(possible, key=lambda name: len(CHOICES[name]))
    contraction = gemm_split.contraction_of(kernel)
    sizes = ProductSizes.of(contraction, schedule.instruction)
    if takes_strips(contraction, sizes, target) or not takes_warpgroups(sizes, target) or not fills_warpgroups(sizes):
        return "none"
    return min(possible, key=lambda name: _microseconds(sizes, lie, CHOICES[name]))


def _microseconds(sizes: ProductSizes, lie: Lie, copied: Sequence[str]) -> float:
    """What a product takes where some of its factors are copied before."""
    is_single, left = sizes.instruction == "tf32", lie.after(copied)
    widths = {"left": sizes.rows, "right": sizes.columns}
    made = lie.made if sizes.instruction in DEEP else ()
    times = {name: 1 if name in made else 2 for name in copied}
    moved = sum(times[name] * (4 if is_single else 2) * widths[name] * sizes.depth for name in copied)
    speeds = _SPEEDS["tf32" if is_single else "bf16"]
    speed = speeds[3 if left.unaligned else len(left.across)]
    products = sizes.outer * sizes.rows * sizes.columns * sizes.depth / speed
    return products + moved / _COPIED_BYTES + len({*copied} - {*made}) * _LAUNCH


def schedule_after(
    kernel: func.FuncOp, schedule: Decided, lie: Lie, copied: Sequence[str], target: GpuTarget
) -> Decided:
    """The schedule of a kernel that gets copies; where k was split as was chosen, by the tiles that it has then."""
    sizes = ProductSizes.of(gemm_split.contraction_of(kernel), schedule.instruction)
    name = next(name for name, choice in CHOICES.items() if choice == copied)
    across = lie.after(copied).across if schedule.instruction == "tf32" else ()
    left = across[0] if len(across) == 1 else "none"
    is_chosen = schedule.split == warpgroup_split(sizes, target) and sizes.rows > MOST_ROWS
    split = warpgroup_split(sizes, target, left) if is_chosen else schedule.split
    return replace(schedule, copied=name, split=split)


def schedule_by_warps(kernel: func.FuncOp, schedule: Decided, target: GpuTarget) -> Decided:
    """The schedule of a kernel whose factors stay where warpgroups do not take them; where k was split for these, as
    warps split it."""
    sizes = ProductSizes.of(gemm_split.contraction_of(kernel), schedule.instruction)
    is_chosen = isinstance(schedule, ProductSchedule) and sizes.rows > MOST_ROWS and takes_warpgroups(sizes, target)
    if not is_chosen or (schedule.rows, schedule.columns, schedule.split) != cut(sizes, target):
        return schedule
    rows, columns, split = cut_for_warps(sizes, target)
    return replace(schedule, rows=rows, columns=columns, split=split)

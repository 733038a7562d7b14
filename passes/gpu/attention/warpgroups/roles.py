"""The roles of warpgroups in a block where several share tiles: these multiply, and one copies for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from blu.dialects.core.mlir import arith, ir, scf
from blu.passes.gpu import numbers
from blu.passes.gpu.attention.block import RowPosition
from blu.passes.gpu.attention.warpgroups.stages import THREADS, MappedOperand
from blu.passes.gpu.isa import barrier, elect, mbarrier, setmaxnreg, shfl, tma
from blu.passes.gpu.isa.warp import WARP
from blu.passes.gpu.kernel import when

REGISTERS = {2: (24, 240), 3: (32, 160)}
"""By the groups that multiply: of a thread that copies, and of one that multiplies."""


class Begun(Protocol):
    """What has barriers, which one thread makes."""

    def begin(self) -> None: ...


def share(
    position: RowPosition,
    groups: int,
    all_stages: Sequence[Begun],
    maps: Sequence[MappedOperand],
    copy: Callable[[], None],
    multiply: Callable[[ir.Value], None],
    others: Sequence[Callable[[], None]] = (),
) -> None:
    """Make all barriers; then one thread copies, and all others multiply, who are told the number of their group.

    The group that copies hands registers on to the others. Threads of its further warps may have roles as well.
    """
    thread = position.thread
    with when(numbers.is_equal(thread, 0)):
        for stages in all_stages:
            stages.begin()
        mbarrier.fence_init()
        for item in maps:
            tma.prefetch_tensormap(item.map)
    barrier.sync()
    # The same in all threads of a warp, and known to be: branches on it are not divergent.
    group = shfl.idx(numbers.divide(thread, THREADS), 0)
    branch = scf.IfOp(numbers.is_equal(group, groups), has_else=True)
    copies, multiplies = REGISTERS[groups]
    with ir.InsertionPoint(branch.then_block):
        setmaxnreg.decrease(copies)
        warp = shfl.idx(numbers.divide(thread, WARP), 0)
        for number, role in enumerate((copy, *others)):
            is_own = numbers.is_equal(warp, groups * THREADS // WARP + number)
            with when(arith.andi(is_own, elect.elect_sync())):
                role()
        scf.yield_([])
    with ir.InsertionPoint(branch.else_block):
        setmaxnreg.increase(multiplies)
        multiply(group)
        scf.yield_([])


def in_group(position: RowPosition) -> RowPosition:
    """Where a thread is in its group."""
    thread = numbers.remainder(position.thread, THREADS)
    return replace(position, thread=thread, own_warp=numbers.divide(thread, WARP))

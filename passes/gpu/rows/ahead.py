"""Row kernels that read ahead: a block for each processor, or a cluster of them, copies its next row while it works."""

from __future__ import annotations

from dataclasses import replace

from blu.dialects.core.mlir import arith, ir
from blu.passes.gpu.isa import warp
from blu.passes.gpu.kernel import GpuKernel
from blu.passes.gpu.rows.bodies import GuardedScope
from blu.passes.gpu.rows.clusters import ClusterTeam
from blu.passes.gpu.rows.launch import Launches, open_launch, row_place, team_of
from blu.passes.gpu.rows.prefetch import Prefetch, RowSource, find_sources, not_hoisted, shared_bytes
from blu.passes.gpu.rows.schedule import choose_cluster, is_better_shared
from blu.passes.gpu.rows.teams import SLOT_BYTES, Team
from blu.passes.gpu.rows.walks import RowKernel, RowThread
from blu.passes.gpu.shared import shared_pointer
from blu.passes.kernels.cursor import Cursor


def try_ahead(launches: Launches, kernel: RowKernel, rows: int, late: set[ir.Value]) -> bool:
    """Emit a kernel that reads ahead, if there is such a GPU, and enough rows that fit, in one block or a cluster."""
    (frame,), target = launches.frames, launches.target
    if not target.tma or rows <= target.processors:
        return False
    program, layout, schedule = kernel.program, kernel.layout, kernel.schedule
    if schedule.chunks is None or is_better_shared(program, layout, frame, schedule):
        shared = choose_cluster(program, layout, frame)
        if shared is None:
            return False
        kernel = RowKernel.plan(program, layout, shared, late)
    sources = find_sources(kernel, frame, target)
    if sources:
        _write_ahead(launches, kernel, sources, rows)
    return bool(sources)


def _write_ahead(launches: Launches, kernel: RowKernel, sources: list[RowSource], rows: int) -> None:
    """A block for each processor, which copies its next row, or its part of that, while it works on one."""
    (frame,) = launches.frames
    schedule = kernel.schedule
    clusters = launches.target.clusters_at_once(schedule.cluster) * schedule.per_processor
    size = shared_bytes(kernel, sources)
    with open_launch(frame, kernel, clusters * schedule.cluster, schedule.threads, size) as (here, bodies, entry):
        cursor = entry.cursor
        with cursor.point:
            thread, block = warp.as_number(here.thread), warp.as_number(here.block[0])
        team, first = _team_of_cluster(frame, kernel, cursor, thread, block)
        ahead = Prefetch(kernel, sources, bodies, entry, thread, team.shared)

        def copy(where: Cursor, row: ir.Value, present: ir.Value | None) -> None:
            place = row_place(kernel, where, row, present)
            ahead.copy(place, RowThread(kernel, bodies, entry, place, team).new_places())

        def body(inner: Cursor, row: ir.Value, carried: list[ir.Value]) -> list[ir.Value]:
            def fill(places: list[GuardedScope]) -> None:
                ahead.fill(places)
                with inner.point:
                    following = warp.add(row, clusters)
                    present = warp.is_below(following, rows)
                    following = arith.select(present, following, warp.number(0))
                copy(inner, following, present)

            with inner.point:
                own = replace(team, number=not_hoisted(team.number, row))
                if isinstance(own, ClusterTeam):
                    own = replace(own, phase=carried[0])
                    carried = [arith.xori(carried[0], warp.number(1))]
            RowThread(kernel, bodies, entry, row_place(kernel, inner, row, None), own, fill=fill).emit()
            if kernel.slots == 1:
                with inner.point:
                    own.wait()  # before the only slot is written again
            return carried

        copy(cursor, first, None)
        with cursor.point:
            bounds = first, warp.number(rows), warp.number(clusters)
            start = [team.phase] if isinstance(team, ClusterTeam) else []
        cursor.loop(*bounds, start, body)


def _team_of_cluster(
    frame: GpuKernel, kernel: RowKernel, cursor: Cursor, thread: ir.Value, block: ir.Value
) -> tuple[Team, ir.Value]:
    """The threads that have a row together, and their first row."""
    schedule = kernel.schedule
    if schedule.cluster == 1:
        return team_of(frame, cursor, schedule.team, thread), block
    with cursor.point:
        rank, first = warp.remainder(block, schedule.cluster), warp.divide(block, schedule.cluster)
        number = warp.add(warp.multiply(rank, schedule.threads), thread)
        offset, phase = kernel.slots * SLOT_BYTES, warp.number(0)
        team = ClusterTeam(schedule.team, number, shared_pointer(frame), schedule.cluster, thread, rank, offset, phase)
        team.begin(kernel.slots)
    return team, first

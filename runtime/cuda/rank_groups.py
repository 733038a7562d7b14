"""The ranks that programs on a GPU exchange data with."""

from __future__ import annotations

import os
from collections.abc import Mapping

from blu import settings
from blu.plan.schema import Plan
from blu.runtime.ranks.axes import axis_groups
from blu.runtime.ranks.group import ExchangeObserver, RankGroup
from blu.runtime.ranks.world import World


def gpu_groups(plan: Plan) -> Mapping[str, RankGroup]:
    """The group of this rank along each axis of a program's mesh, which all ranks join here.

    The GPU's context is current. RankError where the ranks' programs do not exchange the same.
    """
    from blu.runtime.ranks.team import agree_on_exchanges

    # Where NCCL captures an exchange, it arranges with the other ranks to work on their arrays as they lie, which those
    # of them that launch it uncaptured do not take part in. Ranks capture graphs when their own arrays move.
    os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
    groups = axis_groups(plan.mesh, "nccl", _all_ranks)
    for group in groups.values():
        # Whoever watches compares how many exchanges each rank has started, of which those in a graph know nothing:
        # programs tell of their runs.
        group.observer = None
    agree_on_exchanges(plan.entry, plan.collectives)
    return groups


def gpu_watch() -> ExchangeObserver | None:
    """Who is told of the runs of programs that exchange anything, and when the host waits for the GPU."""
    from blu.runtime.ranks.team import team_in_use

    team = team_in_use()
    return None if team is None else team.watch


def _all_ranks(world: World) -> RankGroup:
    from blu.runtime.ranks.team import team_of_process

    return team_of_process("cuda", settings.current().nccl_max_ctas or None).group

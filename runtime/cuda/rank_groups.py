"""The ranks that programs on a GPU exchange data with."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from blu import settings
from blu.plan.mesh import Mesh
from blu.runtime.ranks.axes import axis_groups
from blu.runtime.ranks.group import ExchangeObserver, RankGroup
from blu.runtime.ranks.world import World

if TYPE_CHECKING:
    from blu.runtime.ranks.team import RankTeam

_team: RankTeam | None = None


def use_team(team: RankTeam) -> None:
    """Let programs on this process's GPU exchange through a team, which was joined for device "cuda".

    To be called before the first of them is loaded: without it, they join one, and part when the process ends.
    """
    global _team
    _team = team


def gpu_groups(mesh: Mesh) -> Mapping[str, RankGroup]:
    """The group of this rank along each axis, which all ranks join here. The GPU's context is current."""
    # Where NCCL captures an exchange, it arranges with the other ranks to work on their arrays as they lie, which those
    # of them that launch it uncaptured do not take part in. Ranks capture graphs when their own arrays move.
    os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
    groups = axis_groups(mesh, "nccl", _all_ranks)
    for group in groups.values():
        # Whoever watches compares how many exchanges each rank has started, of which those in a graph know nothing:
        # programs tell of their runs.
        group.observer = None
    return groups


def gpu_watch() -> ExchangeObserver | None:
    """Who is told of the runs of programs that exchange anything, and when the host waits for the GPU."""
    return None if _team is None else _team.watch


def _all_ranks(world: World) -> RankGroup:
    from blu.runtime.ranks.team import join_team

    if _team is None:
        use_team(join_team(world, device="cuda", max_ctas=settings.current().nccl_max_ctas or None))
        atexit.register(_part, _team)
    assert _team is not None
    return _team.group


def _part(team: RankTeam) -> None:
    """Leave when the process ends, with the error that ends it, if one does."""
    error = getattr(sys, "last_value", None)
    team.__exit__(type(error) if error is not None else None, error, None)

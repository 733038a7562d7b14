"""The ranks that a program on a GPU exchanges data with."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping

from blu import settings
from blu.plan.mesh import Mesh
from blu.runtime.ranks.axes import axis_groups
from blu.runtime.ranks.group import RankGroup
from blu.runtime.ranks.world import World


def gpu_groups(mesh: Mesh) -> Mapping[str, RankGroup]:
    """The group of this rank along each axis, which all ranks join here. The GPU's context is current."""
    # Where NCCL captures an exchange, it arranges with the other ranks to work on their arrays as they lie, which those
    # of them that launch it uncaptured do not take part in. Ranks capture graphs when their own arrays move.
    os.environ.setdefault("NCCL_GRAPH_REGISTER", "0")
    return axis_groups(mesh, "nccl", _all_ranks)


def _all_ranks(world: World) -> RankGroup:
    """All ranks of a run that has no team yet: they part when the process ends."""
    from blu.runtime.ranks.team import join_team

    team = join_team(world, device="cuda", max_ctas=settings.current().nccl_max_ctas or None)

    def part() -> None:
        error = getattr(sys, "last_value", None)
        team.__exit__(type(error) if error else None, error, None)

    atexit.register(part)
    return team.group

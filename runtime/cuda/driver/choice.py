"""Which of the GPUs that a process sees it works on."""

from __future__ import annotations

from blu.errors import RankError
from blu.runtime.ranks.world import World


def device_of_rank(count: int) -> int:
    """The number of this process's GPU, of `count` that it sees: that of its number among the host's ranks.

    A process that is alone on its host has the first, and so has one that is shown just one. RankError if there is none
    of that number.
    """
    if count <= 1:
        return 0
    world = World.of_environment()
    if world.local_rank < count:
        return world.local_rank
    raise RankError(
        f"rank {world.rank} is number {world.local_rank} of {world.local_size} on {world.host}, which has {count} GPUs",
        advice="start as many ranks on a host as it has GPUs",
    )

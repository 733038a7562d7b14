"""Which GPU of its host a rank runs on."""

from __future__ import annotations

import os
from pathlib import Path

from blu.errors import RankError
from blu.runtime.ranks.world import World

VISIBLE = "CUDA_VISIBLE_DEVICES"
_KNOWN = Path("/proc/driver/nvidia/gpus")


def take_gpu(world: World) -> None:
    """Let this process see one GPU only, that of its number among the host's ranks, before it sees any.

    Where the environment shows it just one, that is its own. RankError if there is none of that number.
    """
    visible = visible_gpus()
    if visible is not None and (len(visible) == 1 or world.local_size == 1):
        return
    if visible is not None and world.local_rank >= len(visible):
        raise RankError(
            f"rank {world.rank} is number {world.local_rank} of {world.local_size} on {world.host}, "
            f"which has {len(visible)} GPUs",
            advice="start as many ranks on a host as it has GPUs",
        )
    os.environ[VISIBLE] = str(world.local_rank) if visible is None else visible[world.local_rank]


def visible_gpus() -> list[str] | None:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; None if nobody says how many."""
    text = os.environ.get(VISIBLE)
    if text is not None:
        return [item.strip() for item in text.split(",") if item.strip()]
    try:
        return [str(index) for index in range(len(list(_KNOWN.iterdir())))]
    except OSError:
        return None

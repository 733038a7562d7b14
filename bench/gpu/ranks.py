"""What benchmarks on several GPUs share: where the ranks of Blu and of PyTorch meet, and what the first one reports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.gpu.report import command_line, describe

if TYPE_CHECKING:
    from blu.runtime.ranks.world import World


@contextmanager
def joined_ranks() -> Iterator[World]:
    """This rank's place among all, which exchange through both from here on. PyTorch's meet one port further."""
    import torch
    import torch.distributed as ranked

    from blu.runtime.ranks.team import join_team

    team = join_team(device="cuda")
    torch.cuda.set_device(team.world.local_rank if torch.cuda.device_count() > 1 else 0)
    meeting = f"tcp://{os.environ['MASTER_ADDR']}:{int(os.environ['MASTER_PORT']) + 1}"
    ranked.init_process_group("nccl", init_method=meeting, rank=team.world.rank, world_size=team.world.size)
    yield team.world
    ranked.destroy_process_group()
    team.close()


def publish(measured: dict[str, Any], world: World, save: str | None) -> None:
    """Print what was measured, with command and machine, and write it; rank 0 does."""
    import torch

    if world.rank == 0:
        text = json.dumps({"command": command_line(), **measured, "machine": describe(torch)}, indent=1)
        print(text, flush=True)
        if save:
            Path(save).write_text(text + "\n")

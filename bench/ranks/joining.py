"""What benchmarks on several ranks share: where those of Blu and of PyTorch meet, and what the first one reports."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.gpu.report import command_line, describe

if TYPE_CHECKING:
    from blu.runtime.ranks.team import RankTeam
    from blu.runtime.ranks.world import World


@contextmanager
def joined_ranks() -> Iterator[World]:
    """This rank's place among all, which exchange through both from here on, on GPUs."""
    with joined_team("cuda") as team:
        yield team.world


@contextmanager
def joined_team(device: str, with_torch: bool = True) -> Iterator[RankTeam]:
    """The team of all ranks; PyTorch's meet as well, over NCCL or gloo."""
    from blu.runtime.ranks.team import join_team

    team = join_team(device=device)
    if with_torch:
        import torch
        import torch.distributed as ranked

        if device == "cuda":
            torch.cuda.set_device(team.world.local_rank if torch.cuda.device_count() > 1 else 0)
            # As torchrun has it. With a thread for each processor in each rank, threads that a batch's copy has woken
            # keep others from launching kernels: a DDP step of GPT-2 took 153 ms on two GPUs, and takes 125.
            torch.set_num_threads(1)
        backend = "nccl" if device == "cuda" else "gloo"
        place = {"rank": team.world.rank, "world_size": team.world.size}
        ranked.init_process_group(backend, init_method=_meeting(team), **place)
    yield team
    if with_torch:
        ranked.destroy_process_group()
    team.close()


def _meeting(team: RankTeam) -> str:
    """Where PyTorch's ranks meet: at a port of the first rank's host that is free, which that one tells the others."""
    if team.store is None:
        return f"tcp://127.0.0.1:{_free_port()}"
    port = str(_free_port()).encode() if team.world.rank == 0 else b""
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    return f"tcp://{host}:{team.store.broadcast('the port of PyTorch', port).decode()}"


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("", 0))
        return found.getsockname()[1]


def has_torch() -> bool:
    """Whether PyTorch is there."""
    return importlib.util.find_spec("torch") is not None


def publish(measured: dict[str, Any], world: World, save: str | None) -> None:
    """Print what was measured, with command and machine, and write it; rank 0 does."""
    import torch

    if world.rank == 0:
        text = json.dumps({"command": command_line(), **measured, "machine": describe(torch)}, indent=1)
        print(text, flush=True)
        if save:
            Path(save).write_text(text + "\n")

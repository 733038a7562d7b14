"""A data-parallel training step of GPT-2 124M on several GPUs against PyTorch's DDP, in one run.

    python bench/train_gpu.py --pack; python bench/train_gpu.py --pack --mesh dp=2
    blu run --nproc 2 --device cuda bench/train_ranks_gpu.py [--save FILE]

With `--shard optimizer` or `--reduce-dtype bf16` for all three, ranks have a part each of AdamW's moments, or gradients
travel in half the bytes. Each rank has B sequences of 1024 random tokens of its own. In alternating rounds all ranks do
the step of one rank alone, the step of all, and DDP's (compiled, gradients in buckets of 25 MB); times are medians of
CUDA events over the rounds, those of the slowest rank. Scaling is the time of a rank alone over that of all.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

from bench.ranks.joining import joined_ranks, publish
from bench.train_gpu import TOKENS, BluSide, TorchSide, add_rank_flags, milliseconds


class DdpSide(TorchSide):
    """PyTorch's side, whose gradients are averaged over ranks."""

    def __init__(self, arguments: argparse.Namespace, device: int):
        super().__init__(arguments)
        from torch.nn.parallel import DistributedDataParallel

        self.model = DistributedDataParallel(self.model, device_ids=[device], gradient_as_bucket_view=True)
        self.loss = self.torch.compile(self.model)


def measure(arguments: argparse.Namespace, ranks: int) -> dict[str, Any]:
    """All sides in alternating rounds."""
    import torch
    import torch.distributed as ranked

    alone = BluSide(argparse.Namespace(**{**vars(arguments), "mesh": ""}))
    together = BluSide(argparse.Namespace(**{**vars(arguments), "mesh": f"dp={ranks}"}))
    sides: dict[str, Any] = {"blu, one rank": alone, "blu": together}
    if not arguments.without_torch:
        sides["ddp"] = DdpSide(arguments, torch.cuda.current_device())
        for _ in range(2):
            sides["ddp"].step()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(arguments.rounds):
        for name, side in sides.items():
            torch.cuda.synchronize()
            ranked.barrier()
            times[name] += milliseconds(side, 6)[2:]
    slowest = torch.tensor([statistics.median(times[name]) for name in sides], device="cuda")
    ranked.all_reduce(slowest, ranked.ReduceOp.MAX)
    found = dict(zip(sides, slowest.tolist(), strict=True))
    per_step = arguments.batch * TOKENS * ranks
    collectives = together.program.plan.collectives
    return {
        "policy": arguments.policy,
        "gradients travel in": arguments.reduce_dtype,
        "shared": arguments.shard,
        "batch of a rank": arguments.batch,
        "tokens": TOKENS,
        "ranks": ranks,
        "milliseconds": found,
        "tokens per second": {name: 1e3 * per_step / found[name] for name in found if name != "blu, one rank"},
        "scaling": found["blu, one rank"] / found["blu"],
        "speed ratio to ddp": found["ddp"] / found["blu"] if "ddp" in found else None,
        "bytes": {"blu, one rank": alone.bytes, "blu": together.bytes},
        "bytes planned": {"blu, one rank": alone.program.peak_bytes, "blu": together.program.peak_bytes},
        "collectives": [[item.kind, item.bytes_given] for item in collectives],
        "losses": [float(together.step()) for _ in range(3)],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policy", default="bf16", choices=("bf16", "tf32", "f32"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--remat-budget", type=int, default=0)
    add_rank_flags(parser)
    parser.add_argument("--without-torch", action="store_true", help="leave DDP out")
    parser.add_argument("--save", metavar="FILE")
    arguments = parser.parse_args()
    with joined_ranks() as world:
        publish(measure(arguments, world.size), world, arguments.save)


if __name__ == "__main__":
    main()

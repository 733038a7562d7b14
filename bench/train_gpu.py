"""A training step of GPT-2 124M on a GPU against torch.compile, in one process, in alternating rounds.

    python bench/train_gpu.py --pack [--target sm_90a]     # compile here (no GPU needed), into .gpu/train
    python bench/train_gpu.py [--save NAME]                # on the GPU machine: measure what was packed, and PyTorch

Random weights, B sequences of 1024 random tokens, vocabulary padded to 50,304; a step is the loss, its gradients,
clipping by their global norm and AdamW (in PyTorch the fused one, under autocast, compiled). Times are medians of CUDA
events over rounds; a speed ratio above 1 means that Blu is faster, a memory ratio below 1 that it takes less. The GPU
machine needs neither MLIR nor a compiler of Blu's.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.gpu.report import command_line, describe
from bench.training.torch_gpt2 import decay_groups, gpt2

VOCABULARY, TOKENS, RATE, DECAY, BETAS = 50304, 1024, 6e-4, 0.1, (0.9, 0.95)
FOLDER = Path(checkout.ROOT, ".gpu", "train")


def pack(arguments: argparse.Namespace) -> None:
    """Compile the step for a GPU."""
    import blu
    from blu import nn
    from blu.frontend import optim

    adamw = optim.AdamW(*BETAS, weight_decay=DECAY)

    def train(model: Any, state: Any, tokens: Any, targets: Any, rate: Any) -> dict[str, Any]:
        with blu.autocast(arguments.policy):
            value, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
        gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
        model, state = adamw.update(model, gradients, state, rate)
        return {"model": model, "state": state, "loss": value, "norm": norm}

    model = nn.GPT2({"vocab_size": VOCABULARY})
    mesh = blu.Mesh.of_text(arguments.mesh)
    tokens = blu.spec((arguments.batch * mesh.size, TOKENS), "i32")
    options = {"donate": ("model", "state"), "remat_budget": arguments.remat_budget, "mesh": mesh}
    reduce = {"dp": arguments.reduce_dtype} if mesh.axes and arguments.reduce_dtype != "f32" else {}
    step = blu.jit(train, **options, shard=shardings(mesh, arguments.shard), reduce=reduce)
    traced = step.trace(model, adamw.init(model), tokens, tokens, blu.spec((), "f32"))
    FOLDER.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    traced.compile(arguments.target).save(path_of(arguments))
    print(f"{path_of(arguments)}: compiled in {time.perf_counter() - start:.1f} s")


def shardings(mesh: Any, sharded: str) -> dict[str, str]:
    """What the ranks of a mesh have parts of: sequences, and the moments if they are asked to (ZeRO-1)."""
    import blu
    from blu.frontend.io.gpt2 import DEFAULTS, SHARDINGS, expected_shapes

    if not mesh.axes:
        return {}
    shapes = expected_shapes(DEFAULTS | {"vocab_size": VOCABULARY}) if sharded else {}
    moments = blu.arrange(shapes, mesh, SHARDINGS, over="dp")
    split = {f"state.{kind}.{name}": text for kind in ("m", "v") for name, text in moments.items()}
    return {"tokens": "dp, *", "targets": "dp, *", **split}


def path_of(arguments: argparse.Namespace) -> Path:
    """Where the step is packed."""
    kept = f"-{arguments.remat_budget}" if arguments.remat_budget else ""
    shared = f"-{arguments.shard}" * bool(arguments.shard) + f"-{arguments.reduce_dtype}"
    ranks = f"-{arguments.mesh}{shared}" if arguments.mesh else ""
    return FOLDER / f"{arguments.policy}-{arguments.batch}{kept}{ranks}.blu"


def add_rank_flags(parser: argparse.ArgumentParser) -> None:
    """What ranks share besides the data."""
    parser.add_argument("--shard", default="", choices=("", "optimizer"), help="each updates a part (ZeRO-1)")
    parser.add_argument("--reduce-dtype", default="f32", choices=("f32", "bf16"), help="in which gradients travel")


class TorchSide:
    """GPT-2 in PyTorch, written for speed: fused attention, tied head, one compiled forward and backward pass."""

    def __init__(self, arguments: argparse.Namespace):
        import torch

        from blu.frontend.io.gpt2 import DEFAULTS

        self.torch, self.policy = torch, arguments.policy
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = arguments.policy != "f32"
        self.model = gpt2(torch, DEFAULTS | {"vocab_size": VOCABULARY}).cuda()
        self.optimizer = torch.optim.AdamW(decay_groups(self.model, DECAY), lr=RATE, betas=BETAS, fused=True)
        shape = (arguments.batch, TOKENS)
        self.batch = [torch.randint(0, 50257, shape, device="cuda") for _ in range(2)]
        self.loss = torch.compile(self.model)

    def step(self) -> Any:
        torch = self.torch
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.policy == "bf16"):
            loss = self.loss(*self.batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss


class BluSide:
    """The packed step, with its arguments in the GPU's memory."""

    def __init__(self, arguments: argparse.Namespace):
        import torch

        from blu.runtime.cuda import CudaProgram

        self.torch = torch
        before = torch.cuda.mem_get_info()[0]
        start = time.perf_counter()
        self.program = CudaProgram.load(path_of(arguments))
        generator = torch.Generator(device="cuda").manual_seed(0)
        # As `blu train` has them: arrays of Blu's, which share the memory of torch's tensors.
        self.inputs = self.program.keep([self._argument(spec, generator) for spec in self.program.inputs])
        self.step()
        torch.cuda.synchronize()
        self.first_seconds = time.perf_counter() - start
        torch.cuda.empty_cache()
        self.bytes = before - torch.cuda.mem_get_info()[0]

    def _argument(self, spec: Any, generator: Any) -> Any:
        torch = self.torch
        if spec.name in ("tokens", "targets"):
            return torch.randint(0, 50257, spec.shape, generator=generator, device="cuda", dtype=torch.int32)
        if spec.name == "rate":
            return torch.full(spec.shape, RATE, device="cuda")
        if not spec.name.startswith("model"):
            dtype = torch.int32 if spec.dtype == "i32" else torch.float32
            return torch.zeros(spec.shape, device="cuda", dtype=dtype)
        if len(spec.shape) >= 2:
            return 0.02 * torch.randn(spec.shape, generator=generator, device="cuda")
        return torch.full(spec.shape, float("ln_" in spec.name and spec.name.endswith("weight")), device="cuda")

    def step(self) -> Any:
        return self.program.run(self.inputs, overwrite=True)[-2]


def milliseconds(side: Any, steps: int) -> list[float]:
    """The times of steps by CUDA events, each waited for."""
    torch, times = side.torch, []
    for _ in range(steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        side.step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return times


def host_milliseconds(side: BluSide, steps: int = 10) -> float:
    """The median time that the host takes to start a step."""
    times = []
    for _ in range(steps):
        side.torch.cuda.synchronize()
        start = time.perf_counter()
        side.program.run(side.inputs, overwrite=True)
        times.append(1e3 * (time.perf_counter() - start))
    side.torch.cuda.synchronize()
    return statistics.median(times)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both sides in alternating rounds."""
    import torch

    ours = BluSide(arguments)
    start = time.perf_counter()
    theirs = TorchSide(arguments)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    first = float(theirs.step().detach())
    first_seconds = time.perf_counter() - start
    losses = [float(ours.step()) for _ in range(2)]
    times: dict[str, list[float]] = {"blu": [], "torch": []}
    for _ in range(arguments.rounds):
        times["blu"] += milliseconds(ours, 5)[1:]
        times["torch"] += milliseconds(theirs, 5)[1:]
    blu_ms, torch_ms = (statistics.median(times[name]) for name in ("blu", "torch"))
    # What PyTorch's side holds beside this: the parameters that were there before its peak was reset are counted.
    theirs_bytes = torch.cuda.max_memory_allocated() - sum(item.nbytes for item in ours.inputs)
    per_step = arguments.batch * TOKENS
    return {
        "policy": arguments.policy,
        "batch": arguments.batch,
        "remat budget": arguments.remat_budget,
        "tokens": TOKENS,
        "launches": len(ours.program.plan.launches),
        "milliseconds": {"blu": blu_ms, "torch": torch_ms},
        "tokens per second": {"blu": 1e3 * per_step / blu_ms, "torch": 1e3 * per_step / torch_ms},
        "speed ratio": torch_ms / blu_ms,
        "host milliseconds": host_milliseconds(ours),
        "bytes": {"blu": ours.bytes, "blu planned": ours.program.peak_bytes, "torch": theirs_bytes},
        "memory ratio": ours.bytes / theirs_bytes,
        "first step, seconds": {"blu, packed": ours.first_seconds, "torch.compile": first_seconds},
        "losses": {"blu": losses, "torch": first},
        "bytes before torch": before,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--policy", default="bf16", choices=("bf16", "tf32", "f32"))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--remat-budget", type=int, default=0)
    parser.add_argument("--mesh", default="", help="with --pack: for ranks, as dp=2 (bench/train_ranks_gpu.py)")
    add_rank_flags(parser)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.pack:
        pack(arguments)
        return
    import torch

    report = {"command": command_line(), **measure(arguments), "machine": describe(torch)}
    print(json.dumps(report, indent=1))
    if arguments.save:
        Path(arguments.save).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

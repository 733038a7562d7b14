"""A training step of each model of examples/ on the CPU against PyTorch (eager) with the same threads.

    python bench/models_cpu.py [--threads N] [--rounds N] [--size small] [--only llama vit] [--save NAME]

Both sides have the same weights and one batch, in f32; a step is the loss, its gradients, clipping by their global norm
(but for the convolutional network) and AdamW (in PyTorch the fused one). Sides take turns, several steps in a row of
which the mean counts; times are medians over the turns, compilation is not in them. A ratio above 1 means that Blu is
faster. On a machine that is shared, the best turns say more, and are written down as well.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from gpt2_cpu import describe_machine, report, seconds_of

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
NAMES = ("convnet", "diffusion", "llama", "lstm", "vit")
UNCLIPPED = ("convnet",)
# A turn takes about as many seconds.
TURN = 0.2


def torch_side(name: str, example: Any, size: Any, state: dict[str, Any], batch: Any) -> Callable[[], float]:
    """A step in eager PyTorch, which gives its loss."""
    import torch

    from tests.support.training.torch_models import tensors_of, twin_of

    model, inputs, own = twin_of(name, size, state), tensors_of(batch), example.optimizer
    groups = [
        {"params": [item for item in model.parameters() if item.ndim >= 2], "weight_decay": own.weight_decay},
        {"params": [item for item in model.parameters() if item.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=size.rate, betas=(own.beta1, own.beta2), eps=own.epsilon, fused=True)

    def step() -> float:
        optimizer.zero_grad()
        loss = model(*inputs)
        loss.backward()
        if name not in UNCLIPPED:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.item()

    return step


def blu_side(example: Any, size: Any, model: Any, batch: Any) -> Callable[[], float]:
    """A step of the example's own."""
    kept = [model, example.optimizer.init(model)]

    def step() -> float:
        kept[0], kept[1], loss = example.train_step(*kept, batch, size.rate)
        return float(loss)

    return step


def measure(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    example = import_module(f"examples.{name}")
    size = example.SIZES[arguments.size]
    model, batch = example.build(size).initialize(0), example.draw(np.random.default_rng(0), size)
    state = {key: np.array(array) for key, array in model.state_dict().items()}
    sides = {"torch": torch_side(name, example, size, state, batch), "blu": blu_side(example, size, model, batch)}
    first = {side: seconds_of(step) for side, step in sides.items()}
    counts = {side: max(1, round(TURN / seconds_of(step)[0])) for side, step in sides.items()}
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(arguments.rounds):
        for side, step in sides.items():
            time.sleep(0.05)  # PyTorch's threads spin for a while after a call
            step()
            times[side].append(seconds_of(lambda step=step, side=side: [step() for _ in range(counts[side])])[0])
    medians = {side: statistics.median(times[side]) / counts[side] for side in sides}
    best = {side: min(times[side]) / counts[side] for side in sides}
    losses = [float(loss) for _, loss in first.values()]
    result = {
        "parameters": sum(array.size for _, array in model.named_parameters()),
        "milliseconds": {side: round(1e3 * seconds, 3) for side, seconds in medians.items()},
        "speed ratio": round(medians["torch"] / medians["blu"], 3),
        "best milliseconds": {side: round(1e3 * seconds, 3) for side, seconds in best.items()},
        "ratio of the best": round(best["torch"] / best["blu"], 3),
        "first step with compilation, seconds": round(first["blu"][0], 2),
        "difference of first losses": abs(losses[0] - losses[1]),
    }
    milliseconds = result["milliseconds"]
    row = " ".join(f"{milliseconds[side]:9.2f} ms" for side in sides)
    ratios = f"{result['speed ratio']:6.2f}x (best {result['ratio of the best']:.2f}x)"
    print(f"{name:10} {row} {ratios}", file=sys.stderr, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--size", default="medium")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    import torch

    from blu.runtime.host import set_threads

    torch.set_num_threads(arguments.threads)
    set_threads(arguments.threads)
    load = os.getloadavg()[0]
    print(f"{'':10} {'torch':>12} {'blu':>12} {'ratio':>7}", file=sys.stderr)
    models = {name: measure(name, arguments) for name in arguments.only}
    result = {
        "command": " ".join(["python", *sys.argv]),
        "size": arguments.size,
        "threads": arguments.threads,
        "load before and after": [round(load, 2), round(os.getloadavg()[0], 2)],
        "machine": describe_machine(),
        "models": models,
    }
    report(result, arguments.save)


if __name__ == "__main__":
    main()

"""A training step of GPT-2 on the CPU against PyTorch (transformers, eager) with the same threads.

    python bench/train_cpu.py                       # speed, in one process, in alternating rounds
    python bench/train_cpu.py --memory              # peak memory, a child process for each system
    python bench/train_cpu.py --save NAME           # also write bench/results/NAME.json

Random weights of GPT-2 124M in f32, one sequence of 64 random tokens; a step is the loss, its gradients, clipping by
their global norm and AdamW (in PyTorch the fused one). Times are medians over rounds; a speed ratio above 1 means that
Blu is faster, a memory ratio below 1 that it takes less.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy as np
from gpt2_cpu import describe_machine, report, seconds_of

RATE, DECAY, BETAS = 1e-4, 0.1, (0.9, 0.95)


def draw_batch(arguments: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and targets [B, T], i32."""
    rng = np.random.default_rng(0)
    shape = (arguments.batch, arguments.tokens)
    return tuple(rng.integers(0, 50257, shape).astype(np.int32) for _ in range(2))


class TorchSide:
    """transformers' GPT-2 without dropout in eager PyTorch, with the fused AdamW."""

    def __init__(self, arguments: argparse.Namespace):
        import torch
        from transformers import GPT2Config, GPT2LMHeadModel

        torch.set_num_threads(arguments.threads)
        torch.manual_seed(0)
        self.torch = torch
        config = GPT2Config(n_layer=arguments.layers, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
        self.model = GPT2LMHeadModel(config).train()
        self.batch = [torch.tensor(array, dtype=torch.int64) for array in draw_batch(arguments)]
        decayed = [item for item in self.model.parameters() if item.ndim >= 2]
        other = [item for item in self.model.parameters() if item.ndim < 2]
        groups = [{"params": decayed, "weight_decay": DECAY}, {"params": other, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, fused=True)

    def state(self) -> dict[str, np.ndarray]:
        return {name: tensor.numpy().copy() for name, tensor in self.model.transformer.state_dict().items()}

    def step(self) -> float:
        tokens, targets = self.batch
        self.optimizer.zero_grad()
        logits = self.model(tokens).logits
        loss = self.torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return float(loss.detach())


class BluSide:
    """The same step as one program, which updates parameters and moments in place."""

    def __init__(self, arguments: argparse.Namespace, state: dict[str, np.ndarray] | None):
        import blu
        from blu import nn
        from blu.frontend import optim
        from blu.runtime.host import set_threads

        set_threads(arguments.threads)
        adamw = optim.AdamW(*BETAS, weight_decay=DECAY)

        def train(model: Any, state: Any, tokens: Any, targets: Any, rate: Any) -> tuple:
            value, gradients = blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)
            gradients, norm = optim.clip_by_global_norm(gradients, 1.0)
            return *adamw.update(model, gradients, state, rate), value, norm

        self.model = nn.GPT2({"n_layer": arguments.layers})
        if state is None:
            self.model.initialize(0)
        else:
            self.model.load_state_dict({name: array for name, array in state.items() if name in self.names()})
        self.moments = adamw.init(self.model)
        self.batch = draw_batch(arguments)
        self.train = blu.jit(train, donate=("model", "state"))
        self.compile_seconds, compiled = seconds_of(
            lambda: self.train.trace(self.model, self.moments, *self.batch, RATE).compile()
        )
        self.summary = compiled.program.summary()

    def names(self) -> set[str]:
        return set(self.model.state_dict())

    def step(self) -> float:
        self.model, self.moments, loss, _ = self.train(self.model, self.moments, *self.batch, RATE)
        return float(loss)


def measure_speed(arguments: argparse.Namespace) -> dict[str, Any]:
    peer = TorchSide(arguments)
    blu = BluSide(arguments, peer.state())
    times: dict[str, list[float]] = {"torch": [], "blu": []}
    losses: dict[str, list[float]] = {"torch": [], "blu": []}
    for number in range(arguments.rounds + 1):
        for name, side in (("torch", peer), ("blu", blu)):
            time.sleep(0.05)  # PyTorch's threads spin for a while after a call
            seconds, loss = seconds_of(side.step)
            losses[name].append(loss)
            if number:  # the first round warms up
                times[name].append(seconds)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "seconds": medians,
        "speed ratio": medians["torch"] / medians["blu"],
        "compile seconds": blu.compile_seconds,
        "program": blu.summary,
        "largest difference of losses": max(abs(a - b) for a, b in zip(*losses.values(), strict=True)),
    }


def run_alone(arguments: argparse.Namespace) -> None:
    """One system, for its memory: prints the peak in bytes."""
    side = TorchSide(arguments) if arguments.alone == "torch" else BluSide(arguments, None)
    for _ in range(3):
        side.step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def measure_memory(arguments: argparse.Namespace) -> dict[str, Any]:
    peaks = {}
    for name in ("torch", "blu"):
        command = [sys.executable, __file__, "--alone", name]
        for option in ("threads", "layers", "batch", "tokens"):
            command += [f"--{option}", str(getattr(arguments, option))]
        peaks[name] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])
    return {"peak bytes": peaks, "memory ratio": peaks["blu"] / peaks["torch"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--alone", choices=("torch", "blu"), help=argparse.SUPPRESS)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    if arguments.alone:
        run_alone(arguments)
        return
    measure = measure_memory if arguments.memory else measure_speed
    result = {
        "command": " ".join(["python", *sys.argv]),
        "shape": {"model": "gpt2", "layers": arguments.layers, "batch": arguments.batch, "tokens": arguments.tokens},
        "threads": arguments.threads,
        "machine": describe_machine(),
        **measure(arguments),
    }
    report(result, arguments.save)


if __name__ == "__main__":
    main()

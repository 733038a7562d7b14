"""What a call of a small program costs the host on a GPU, beside PyTorch: arrays of Blu's, tensors, jitted functions.

    python bench/gpu/calls.py [--calls 300] [--rounds 7] [--save bench/results/h100/calls-gpu.json]

The program is softmax(x @ w + b) of 16 x 64 rows: the GPU is done with it sooner than the host with the next call. Each
figure is the least of all rounds, in microseconds; the host does not wait for the GPU between the calls of a round.
PyTorch computes the same by two operations, and as one compiled function.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import checkout  # noqa: F401

import blu
from bench.gpu.report import command_line, describe
from blu.runtime.cuda import to_device

ROWS, FEATURES = 16, 64


def layer(x: Any, weight: Any, bias: Any) -> Any:
    """What is computed."""
    return blu.softmax(x @ weight + bias)


def sides(torch: Any) -> dict[str, Callable[[], Any]]:
    """Calls by what they are given."""
    tensors = [torch.randn(*shape, device="cuda") for shape in ((ROWS, FEATURES), (FEATURES, FEATURES), (FEATURES,))]
    arrays = [to_device(tensor.cpu().numpy()) for tensor in tensors]
    function = blu.jit(layer, target="cuda")
    program = function.trace(*(blu.spec(tensor.shape, "f32") for tensor in tensors)).compile().program
    results = program.run(arrays)

    def eager(x: Any, weight: Any, bias: Any) -> Any:
        return torch.softmax(torch.addmm(bias, x, weight), -1)

    compiled = torch.compile(eager)
    return {
        "blu, program, results given": lambda: program.run(arrays, outputs=results),
        "blu, program": lambda: program.run(arrays),
        "blu, program, tensors": lambda: program.run(tensors),
        "blu, jitted function": lambda: function(*arrays),
        "blu, jitted function, tensors": lambda: function(*tensors),
        "torch, two operations": lambda: eager(*tensors),
        "torch, compiled": lambda: compiled(*tensors),
    }


def least_microseconds(torch: Any, call: Callable[[], Any], calls: int, rounds: int) -> float:
    """Of one call on the host."""
    found = []
    for _ in range(rounds + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        found.append(1e6 * (time.perf_counter() - start) / calls)
    return round(min(found[1:]), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--save", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    import torch

    calls = sides(torch)
    found = {name: least_microseconds(torch, call, arguments.calls, arguments.rounds) for name, call in calls.items()}
    for name, microseconds in found.items():
        print(f"{name:32s} {microseconds:8.2f} us")
    report = {"command": command_line(), "microseconds": found, "machine": describe(torch)}
    if arguments.save:
        arguments.save.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()

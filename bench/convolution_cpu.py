"""Convolutions on the CPU against copying windows and multiplying them with NumPy, and against PyTorch, in turns.

    python bench/convolution_cpu.py [--threads N] [--rounds N] [--save NAME]

Sizes are ResNet-50's with a batch of 4, channels last, random data, f32: the result, the gradient of the data and that
of the weight. NumPy's copy of the windows is counted, as it is part of the method; it computes the result only. Each
figure is the best of the rounds for all: what else runs on a shared machine only ever takes time.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from gpt2_cpu import describe_machine, report


@dataclass(frozen=True)
class Problem:
    """Images of size x size, a window of `window` x `window`, padded so that it is centred."""

    size: int
    channels: int
    features: int
    window: int
    stride: int = 1
    batch: int = 4

    @property
    def padding(self) -> int:
        return self.window // 2

    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """x [N, H, W, C] and the weight [F, C, k, k]."""
        rng = np.random.default_rng(0)
        shapes = (
            (self.batch, self.size, self.size, self.channels),
            (self.features, self.channels, self.window, self.window),
        )
        x, weight = (rng.standard_normal(shape, np.float32) for shape in shapes)
        return x, weight


PROBLEMS = (
    Problem(224, 3, 64, 7, 2),
    Problem(56, 64, 64, 3),
    Problem(56, 256, 64, 1),
    Problem(56, 128, 128, 3, 2),
    Problem(28, 128, 128, 3),
    Problem(14, 256, 256, 3),
    Problem(7, 512, 512, 3),
)


def by_numpy(problem: Problem, x: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """All windows side by side, times the weight [k * k * C, F]."""
    k, pad, step = problem.window, problem.padding, problem.stride
    seen = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0))) if pad else x
    windows = np.lib.stride_tricks.sliding_window_view(seen, (k, k), axis=(1, 2))[:, ::step, ::step]
    n, height, width = windows.shape[:3]
    columns = np.ascontiguousarray(windows.transpose(0, 1, 2, 4, 5, 3)).reshape(n * height * width, -1)
    return (columns @ matrix).reshape(n, height, width, -1)


def sides_of(problem: Problem) -> tuple[dict[str, Callable[[], Any]], float]:
    """What is measured, by name, and the GFLOP of each."""
    import torch

    import blu

    x, weight = problem.arrays()
    along = {"stride": problem.stride, "padding": problem.padding}

    def convolve(x: Any, weight: Any) -> Any:
        return blu.conv2d(x, weight, channels_last=True, **along)

    matrix = np.ascontiguousarray(weight.transpose(2, 3, 1, 0).reshape(-1, problem.features))
    g = np.random.default_rng(1).standard_normal(by_numpy(problem, x, matrix).shape, np.float32)
    result = blu.jit(convolve)
    of_x = blu.jit(lambda x, weight, g: blu.vjp(lambda x: convolve(x, weight), x)[1](g))
    of_weight = blu.jit(lambda x, weight, g: blu.vjp(lambda weight: convolve(x, weight), weight)[1](g))
    theirs = [torch.from_numpy(array.transpose(0, 3, 1, 2)) for array in (x, g)]
    kernel = torch.from_numpy(weight).contiguous(memory_format=torch.channels_last)
    gradients, conv2d = torch.nn.grad, torch.nn.functional.conv2d
    sides: dict[str, Callable[[], Any]] = {
        "blu": lambda: result(x, weight),
        "numpy": lambda: by_numpy(problem, x, matrix),
        "torch": lambda: conv2d(theirs[0], kernel, **along),
        "blu, of x": lambda: of_x(x, weight, g),
        "torch, of x": lambda: gradients.conv2d_input(theirs[0].shape, kernel, theirs[1], **along),
        "blu, of weight": lambda: of_weight(x, weight, g),
        "torch, of weight": lambda: gradients.conv2d_weight(theirs[0], kernel.shape, theirs[1], **along),
    }
    np.testing.assert_allclose(sides["blu"](), sides["numpy"](), atol=1e-3)
    return sides, 2e-9 * g.size * matrix.shape[0]


def measure(problem: Problem, rounds: int) -> dict[str, Any]:
    """The best time of each side in milliseconds, and what is computed."""
    sides, work = sides_of(problem)
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            time.sleep(0.01)  # PyTorch's threads spin for a while after a call
            side()
            start = time.perf_counter()
            side()
            times[name].append(time.perf_counter() - start)
    best = {name: round(1e3 * min(values), 2) for name, values in times.items()}
    print(asdict(problem), best, file=sys.stderr, flush=True)
    return asdict(problem) | {"GFLOP": round(work, 2), "milliseconds": best}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--save", metavar="NAME")
    arguments = parser.parse_args()
    import torch

    from blu.runtime.host import set_threads

    torch.set_num_threads(arguments.threads)
    set_threads(arguments.threads)
    result = {
        "command": " ".join(["python", *sys.argv]),
        "threads": arguments.threads,
        "machine": describe_machine(),
        "convolutions": [measure(problem, arguments.rounds) for problem in PROBLEMS],
    }
    report(result, arguments.save)


if __name__ == "__main__":
    main()

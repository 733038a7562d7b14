"""Convolutions on a GPU against cuDNN, channels last: ResNet-50's, results and both gradients, in bf16 and tf32.

    python bench/convolution_gpu.py --pack [--only PATTERN]          # compile here (no GPU needed), to .gpu/convolution
    python bench/convolution_gpu.py [--only PATTERN] [--save FILE]   # on the GPU machine: check and measure that

For each: the norm of the difference to f64's result of both sides, on outputs that were full of NaN before; whether
repeats give the same bits; medians of CUDA events, launches of the two sides in turns; and what each of Blu's kernels
takes by itself, with the schedules of products. A ratio above 1 means that Blu is faster. The exit code is 1 where a
result is wrong.
"""

from __future__ import annotations

import datetime
import json
import re
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.gpu import packed
from bench.gpu.report import command_line, describe, microseconds_of_kernels

FOLDER = Path(checkout.ROOT, ".gpu", "convolution")
LAUNCHES, WARM, REPEATS = 24, 4, 3
WAIT_CLOCKS = 16_000_000
# Of the difference's norm: one rounding of the result to bf16, or of operands to tf32.
BOUNDS = {"bf16": 2.5e-3, "tf32": 6e-4}
WHAT = ("result", "of x", "of weight")


@dataclass(frozen=True)
class Problem:
    """`batch` images of size x size, a window of `window` x `window`, padded so that it is centred."""

    what: str
    kind: str
    size: int
    channels: int
    features: int
    window: int
    stride: int = 1
    batch: int = 32

    @property
    def name(self) -> str:
        sizes = f"{self.batch}x{self.size}x{self.size}x{self.channels}"
        return f"{self.what}, {self.kind}, {sizes} to {self.features}, {self.window}x{self.window} by {self.stride}"

    @property
    def path(self) -> Path:
        return FOLDER / f"{re.sub('[ ,]+', '-', self.name)}.blu"

    @property
    def count(self) -> int:
        return (self.size + 2 * (self.window // 2) - self.window) // self.stride + 1

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of x [N, H, W, C], the weight [F, C, k, k], and what came back [N, H', W', F]."""
        return [
            (self.batch, self.size, self.size, self.channels),
            (self.features, self.channels, self.window, self.window),
            (self.batch, self.count, self.count, self.features),
        ]

    @property
    def along(self) -> dict[str, int]:
        return {"stride": self.stride, "padding": self.window // 2}


SIZES = (
    (224, 3, 64, 7, 2),
    (56, 64, 64, 1),
    (56, 64, 64, 3),
    (56, 128, 128, 3, 2),
    (28, 128, 128, 3),
    (14, 256, 256, 3),
    (7, 512, 512, 3),
)


def problems() -> Iterator[Problem]:
    """All of them."""
    for kind in BOUNDS:
        yield from (Problem(what, kind, *sizes) for sizes in SIZES for what in WHAT)


def by_blu(problem: Problem, x: Any, weight: Any, g: Any) -> Any:
    """What is compiled."""
    import blu

    precision = "tf32" if problem.kind == "tf32" else "highest"

    def convolve(x: Any, weight: Any) -> Any:
        return blu.conv2d(x, weight, channels_last=True, precision=precision, **problem.along)

    if problem.what == "result":
        return convolve(x, weight)
    number = WHAT.index(problem.what) - 1
    return blu.vjp(convolve, x, weight)[1](g)[number]


def by_torch(problem: Problem, torch: Any, x: Any, weight: Any, g: Any) -> Any:
    """The same in PyTorch, of views with the channels second."""
    x, g = x.permute(0, 3, 1, 2), g.permute(0, 3, 1, 2)
    if problem.what == "result":
        return torch.nn.functional.conv2d(x, weight, **problem.along).permute(0, 2, 3, 1)
    if problem.what == "of x":
        return torch.nn.grad.conv2d_input(x.shape, weight, g, **problem.along).permute(0, 2, 3, 1)
    return torch.nn.grad.conv2d_weight(x, weight.shape, g, **problem.along)


def pack(problem: Problem) -> str:
    """Compile one, and say which kernels it has become."""
    return packed.save_program(problem, lambda x, weight, g: by_blu(problem, x, weight, g))


class Sides:
    """One problem's inputs on the GPU, and both ways to compute it."""

    def __init__(self, problem: Problem):
        import torch

        from blu.runtime.cuda import CudaProgram

        self.torch, self.problem = torch, problem
        torch.backends.cudnn.allow_tf32 = problem.kind == "tf32"
        torch.backends.cudnn.benchmark = True
        dtype = torch.bfloat16 if problem.kind == "bf16" else torch.float32
        generator = torch.Generator(device="cuda").manual_seed(0)
        self.inputs = [torch.randn(shape, generator=generator, device="cuda").to(dtype) for shape in problem.shapes]
        x, weight, g = self.inputs
        self.theirs = [x, weight.contiguous(memory_format=torch.channels_last), g]
        self.program = CudaProgram.load(problem.path)
        self.peer = by_torch(problem, torch, *self.theirs)
        self.output = torch.empty(self.peer.shape, dtype=dtype, device="cuda")

    def run(self) -> None:
        self.program.run(self.inputs, outputs=[self.output])

    def poisoned(self) -> Any:
        """The result over an output full of NaN."""
        self.output.fill_(float("nan"))
        self.run()
        self.torch.cuda.synchronize()
        return self.output.clone()

    def errors(self) -> dict[str, float]:
        """The norm of the difference to f64's, relative to its norm."""
        exact = by_torch(self.problem, self.torch, *(item.double() for item in self.inputs))
        found = {"blu": self.output, "cudnn": self.peer}
        return {name: float((item.double() - exact).norm() / exact.norm()) for name, item in found.items()}

    def microseconds(self) -> dict[str, float]:
        """Of each side, the median of launches in turns."""
        torch, problem = self.torch, self.problem
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(3)] for _ in range(LAUNCHES)]
        torch.cuda.synchronize()
        torch.cuda._sleep(WAIT_CLOCKS)
        for before, between, after in marks:
            before.record()
            self.run()
            between.record()
            by_torch(problem, torch, *self.theirs)
            after.record()
        torch.cuda.synchronize()
        taken = marks[WARM:]
        pairs = {"blu": [mark[:2] for mark in taken], "cudnn": [mark[1:] for mark in taken]}
        return {
            name: round(1e3 * statistics.median(first.elapsed_time(last) for first, last in own), 2)
            for name, own in pairs.items()
        }


def measure(problem: Problem) -> dict[str, Any]:
    """Check and time a problem."""
    sides = Sides(problem)
    first = sides.poisoned()
    errors = sides.errors()
    same = all(bool(sides.torch.equal(first, sides.poisoned())) for _ in range(REPEATS))
    times = sides.microseconds()
    return {
        "problem": problem.name,
        **asdict(problem),
        "microseconds": times,
        "ratio": round(times["cudnn"] / times["blu"], 3),
        "kernels": microseconds_of_kernels(sides.program, sides.inputs),
        "schedules": json.loads(packed.schedules_of(problem).read_text()),
        "errors": errors,
        "same bits again": same,
        "right": same and errors["blu"] <= max(BOUNDS[problem.kind], 1.2 * errors["cudnn"]),
    }


def _measured(problem: Problem) -> dict[str, Any]:
    import torch

    row = measure(problem)
    torch.cuda.empty_cache()
    print(*(row[name] for name in ("problem", "microseconds", "ratio", "errors", "right")))
    print("   ", *(f"{name}={taken:.1f}" for name, taken in row["kernels"].items()))
    for name, schedule in row["schedules"].items():
        print("   ", name, *(f"{field}={value}" for field, value in schedule.items()), flush=True)
    return row


def _report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    date = f"{datetime.date.today()}"
    return {"command": command_line(), "date": date, "machine": describe(torch), "convolutions": rows}


def main() -> int:
    """Pack, or check and measure; 1 where a result is wrong."""
    return packed.run(__doc__, FOLDER, problems(), pack, _measured, _report)


if __name__ == "__main__":
    sys.exit(main())

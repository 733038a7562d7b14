"""Kernels that are bound by memory, against PyTorch's and against a copy of as many bytes, in alternating rounds.

    python bench/rows_gpu.py --pack                            # compile here (no GPU needed), into .gpu/rows
    python bench/rows_gpu.py [--only PATTERN] [--save FILE]    # on the GPU machine: check and measure what was packed

A rate is the bytes that must be read and written once, divided by the median time by CUDA events of calls in a row,
all of them on Blu's stream, PyTorch's as well: between two streams that wait for each other no kernel begins early.
The calls go through several sets of random arguments, so that none finds its own in the GPU's cache; the parameters of
AdamW are larger than that. A ratio above 1 means that Blu is faster. The exit code is 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.gpu.report import command_line, describe
from blu.compiler.bench.clocks import CudaClock

FOLDER = Path(checkout.ROOT, ".gpu", "rows")
ROUNDS, LAUNCHES = 9, 12
WAIT_CLOCKS = 12_000_000
UNCACHED_BYTES = 400e6
BOUND = 1e-5
ADAMW = "AdamW"
RATE, DECAY, BETAS, EPSILON = 6e-4, 0.1, (0.9, 0.95), 1e-8


@dataclass(frozen=True)
class Problem:
    """`ours` gets Blu's module, `theirs` PyTorch's, and both the arguments; `passes` is how many arrays of rows x
    columns must be read and written; `target` is in GB/s."""

    name: str
    rows: int
    columns: int
    passes: int
    target: int
    kinds: str
    ours: Callable[..., Any]
    theirs: Callable[..., Any]

    @property
    def title(self) -> str:
        """Its name with the shape."""
        return f"{self.name} {self.rows}x{self.columns}"

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.title}.blu"

    @property
    def bytes(self) -> int:
        return 4 * self.rows * self.columns * self.passes

    @property
    def shapes(self) -> list[tuple[tuple[int, ...], str]]:
        """Shapes and dtypes of the arguments: `x` stands for an array, `w` for a row, `t` for one index per row."""
        known = {"x": ((self.rows, self.columns), "f32"), "w": ((self.columns,), "f32"), "t": ((self.rows,), "i32")}
        return [known[kind] for kind in self.kinds]

    def pack(self) -> None:
        """Compile it."""
        import blu

        specs = [blu.spec(*shape) for shape in self.shapes]
        blu.jit(lambda *arguments: self.ours(blu, *arguments)).trace(*specs).compile("sm_90a").save(self.path)

    def draw(self, torch: Any, seed: int) -> list[Any]:
        """Random arguments."""
        generator = torch.Generator(device="cuda").manual_seed(seed)
        keywords = {"generator": generator, "device": "cuda"}
        return [
            torch.randint(0, self.columns, shape, dtype=torch.int32, **keywords)
            if dtype == "i32"
            else torch.randn(shape, **keywords)
            for shape, dtype in self.shapes
        ]


def _layer_norm_gradient(blu: Any, x: Any, g: Any, w: Any, b: Any) -> Any:
    _, pull = blu.vjp(blu.layer_norm, x, w, b)
    return pull(g)


def _torch_layer_norm_gradient(torch: Any, x: Any, g: Any, w: Any, b: Any) -> Any:
    width = [x.shape[1]]
    _, mean, scale = torch.ops.aten.native_layer_norm(x, width, w, b, 1e-5)
    return lambda: torch.ops.aten.native_layer_norm_backward(g, x, width, mean, scale, w, b, [True] * 3)


def _gelu_gradient(blu: Any, x: Any, g: Any) -> Any:
    _, pull = blu.vjp(lambda x: blu.gelu(x, approximate="tanh"), x)
    return pull(g)


def _loss_and_gradient(torch: Any, x: Any, t: Any) -> Any:
    t = t.long()
    x.requires_grad_()

    def call() -> Any:
        loss = torch.nn.functional.cross_entropy(x, t)
        return loss.detach(), *torch.autograd.grad(loss, x)

    return call


def _problems() -> list[Problem]:
    found = []
    for shape in ((16384, 768), (32768, 768), (16384, 4096)):
        found += [
            Problem("LayerNorm", *shape, 2, 3800, "xww",
                    lambda blu, x, w, b: blu.layer_norm(x, w, b),
                    lambda torch, x, w, b: lambda: torch.nn.functional.layer_norm(x, x.shape[1:], w, b)),
            Problem("LayerNorm, gradients", *shape, 3, 3000, "xxww", _layer_norm_gradient, _torch_layer_norm_gradient),
        ]  # fmt: skip
    found += [
        Problem("GELU", 16384, 3072, 2, 4100, "x",
                lambda blu, x: blu.gelu(x, approximate="tanh"),
                lambda torch, x: lambda: torch.nn.functional.gelu(x, approximate="tanh")),
        Problem("GELU, gradient", 16384, 3072, 3, 4100, "xx", _gelu_gradient,
                lambda torch, x, g: lambda: torch.ops.aten.gelu_backward(g, x, approximate="tanh")),
    ]  # fmt: skip
    for shape in ((8192, 50304), (16384, 128256)):
        found += [
            Problem("cross-entropy", *shape, 1, 3800, "xt",
                    lambda blu, x, t: blu.cross_entropy(x, t),
                    lambda torch, x, t: lambda: torch.nn.functional.cross_entropy(x, t.long())),
            Problem("cross-entropy and gradient", *shape, 2, 3800, "xt",
                    lambda blu, x, t: blu.value_and_grad(blu.cross_entropy)(x, t), _loss_and_gradient),
        ]  # fmt: skip
    for name, axis in (("sum of rows", 1), ("sum of columns", 0)):
        found.append(
            Problem(name, 16384, 768, 1, 3500, "x",
                    lambda blu, x, axis=axis: blu.sum(x, axis=axis),
                    lambda torch, x, axis=axis: lambda: torch.sum(x, axis))
        )  # fmt: skip
    return found


class Sides:
    """One problem's arguments on the GPU, and both ways to compute it."""

    def __init__(self, problem: Problem):
        import torch

        from blu.runtime.cuda import CudaProgram

        self.torch, self.problem = torch, problem
        count = min(8, math.ceil(UNCACHED_BYTES / problem.bytes))
        # A program for each set: one whose arguments move must be told where they are now.
        self.programs = [CudaProgram.load(problem.path) for _ in range(count)]
        self.arguments = [problem.draw(torch, seed) for seed in range(count)]
        self.results = [self._outputs() for _ in range(count)]
        self.calls = [problem.theirs(torch, *arguments) for arguments in self.arguments]

    def _outputs(self) -> list[Any]:
        return [self.torch.empty(spec.shape, device="cuda") for spec in self.programs[0].outputs]

    @cached_property
    def copies(self) -> list[tuple[Any, Any]]:
        """Pairs of arrays of half the problem's bytes each."""
        torch, size = self.torch, self.problem.bytes // 8
        return [(torch.empty(size, device="cuda"), torch.rand(size, device="cuda")) for _ in self.arguments]

    def blu(self, number: int) -> list[Any]:
        """With a set of arguments."""
        inputs = [item.detach() for item in self.arguments[number]]
        self.programs[number].run(inputs, outputs=self.results[number], overwrite=True)
        return self.results[number]

    def theirs(self, number: int) -> Any:
        return self.calls[number]()

    def copy(self, number: int) -> None:
        to, source = self.copies[number]
        to.copy_(source)

    def error(self) -> float:
        """The largest norm of a difference between both sides' results, relative to theirs."""
        found, expected = self.blu(0), self.theirs(0)
        self.torch.cuda.synchronize()
        expected = expected if isinstance(expected, tuple) else (expected,)
        pairs = zip(found, expected, strict=True)
        return max(float((a.double() - b.double()).norm() / b.double().norm()) for a, b in pairs)


def _medians(torch: Any, sets: int, calls: dict[str, Callable[[int], Any]]) -> dict[str, float]:
    from blu.runtime.cuda.driver.driver import default_driver

    times: dict[str, list[float]] = {side: [] for side in calls}
    clock = CudaClock(torch, WAIT_CLOCKS, uncounted=sets)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.ExternalStream(default_driver().stream)):
        for _ in range(ROUNDS):
            for side, call in calls.items():
                times[side].append(clock.microseconds(partial(_with_set, call, sets), LAUNCHES))
    return {side: statistics.median(values[2:]) for side, values in times.items()}


def _with_set(call: Callable[[int], Any], sets: int, number: int) -> Any:
    return call(number % sets)


def measure(problem: Problem) -> dict[str, Any]:
    """Check and time a problem."""
    sides = Sides(problem)
    error = sides.error()
    calls = {"blu": sides.blu, "torch": sides.theirs, "copy": sides.copy}
    medians = _medians(sides.torch, len(sides.arguments), calls)
    return _report(problem.title, problem.bytes, problem.target, medians, error)


def _report(name: str, size: int, target: int, medians: dict[str, float], error: float) -> dict[str, Any]:
    rates = {side: size / time / 1e3 for side, time in medians.items()}
    return {
        "kernel": name,
        "bytes": size,
        "microseconds": {side: round(time, 2) for side, time in medians.items()},
        "GB/s": {side: round(rate) for side, rate in rates.items()},
        "target": target,
        "speed ratio": round(medians["torch"] / medians["blu"], 3),
        "of a copy": round(rates["blu"] / rates["copy"], 3),
        "error": error,
        "right": error <= BOUND,
    }


def pack_adamw() -> None:
    """Compile AdamW of all parameters of GPT-2 124M, in place."""
    import blu
    from blu import nn
    from blu.frontend import optim

    adamw, model = optim.AdamW(*BETAS, EPSILON, DECAY), nn.GPT2()
    step = blu.jit(lambda model, gradients, state, rate: adamw.update(model, gradients, state, rate),
                   donate=("model", "state"))  # fmt: skip
    compiled = step.trace(model, model, adamw.init(model), blu.spec((), "f32")).compile("sm_90a")
    compiled.save(FOLDER / "AdamW.blu")


def measure_adamw() -> dict[str, Any]:
    """One step of all tensors: parameters, gradients and both moments are read, all but the gradients are written."""
    import torch

    from blu.runtime.cuda import CudaProgram

    program = CudaProgram.load(FOLDER / "AdamW.blu")
    generator = torch.Generator(device="cuda").manual_seed(0)
    inputs = [_adamw_argument(torch, spec, generator) for spec in program.inputs]
    named = {spec.name: item for spec, item in zip(program.inputs, inputs, strict=True)}
    parameters, gradients = (
        [item.clone() for name, item in named.items() if name.startswith(start)] for start in ("model.", "gradients.")
    )
    groups = [
        {"params": [item for item in parameters if (item.ndim >= 2) == decays], "weight_decay": DECAY * decays}
        for decays in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    program.run(inputs, overwrite=True)
    optimizer.step()
    torch.cuda.synchronize()
    ours = [item for name, item in named.items() if name.startswith("model.")]
    pairs = list(zip(ours, parameters, strict=True))
    error = max(float((a.double() - b.double()).norm() / b.double().norm()) for a, b in pairs)
    size = 28 * sum(item.numel() for item in parameters)
    to, source = (torch.empty(size // 8, device="cuda") for _ in range(2))
    calls = {
        "blu": lambda _: program.run(inputs, overwrite=True),
        "torch": lambda _: optimizer.step(),
        "copy": lambda _: to.copy_(source),
    }
    medians = _medians(torch, 1, calls)
    return _report(f"AdamW of {len(parameters)} tensors", size, 4000, medians, error)


def _adamw_argument(torch: Any, spec: Any, generator: Any) -> Any:
    if spec.name == "rate":
        return torch.full(spec.shape, RATE, device="cuda")
    if spec.name.startswith("state"):
        return torch.zeros(spec.shape, device="cuda", dtype=torch.int32 if spec.dtype == "i32" else torch.float32)
    return 0.02 * torch.randn(spec.shape, generator=generator, device="cuda")


def main() -> int:
    """Pack, or check and measure; 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="compile for sm_90a")
    parser.add_argument("--only", default="", metavar="PATTERN", help="kernels in whose names this is found")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the report there")
    arguments = parser.parse_args()
    if arguments.pack:
        FOLDER.mkdir(parents=True, exist_ok=True)
        pack_adamw()
        for problem in _problems():
            problem.pack()
        return 0
    import torch

    found, measured = [], {ADAMW: measure_adamw, **{item.title: partial(measure, item) for item in _problems()}}
    for name in (name for name in measured if re.search(arguments.only, name)):
        found.append(measured[name]())
        torch.cuda.empty_cache()
        print(json.dumps(found[-1]), flush=True)
    if arguments.save:
        report = {"command": command_line(), "machine": describe(torch), "kernels": found}
        arguments.save.write_text(json.dumps(report, indent=1) + "\n")
    return int(not all(item["right"] for item in found))


if __name__ == "__main__":
    sys.exit(main())

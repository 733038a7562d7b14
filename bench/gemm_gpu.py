"""Matrix products by Hopper's warpgroups against cuBLAS, in one process, in alternating rounds.

    python bench/gemm_gpu.py --pack              # compile here (no GPU needed), into .gpu/gemm
    python bench/gemm_gpu.py [--save FILE]       # on the GPU machine: check and measure what was packed

For each problem: the error against f64 on inputs that are drawn anew each time, written over outputs that are full of
NaN; whether 50 repeats give the same bits, and those of cuBLAS; and medians of CUDA events over rounds, the two sides
in turns. A ratio above 1 means that Blu is faster. The exit code is 1 where a result is wrong.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.gpu.report import describe, microseconds

FOLDER = Path(checkout.ROOT, ".gpu", "gemm")
REPEATS, FRESH, ROUNDS, LAUNCHES = 50, 5, 15, 10
WAIT_CLOCKS = 2_000_000
# Of the difference's norm: one rounding of the result to bf16, or of operands to tf32 on either side.
BOUNDS = {"bf16": 2e-3, "tf32": 5e-4}
FUSED_BOUND = 3e-3
"""The product, the sum and the result are bf16."""


@dataclass(frozen=True)
class Problem:
    """left [rows, depth] @ right [depth, columns], either stored transposed ("t" in `layout`); `fused`: bias, GELU."""

    name: str
    kind: str
    layout: str
    rows: int
    columns: int
    depth: int
    fused: bool = False

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.blu"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arguments as they are stored."""
        left, right = (self.rows, self.depth), (self.depth, self.columns)
        pairs = zip((left, right), self.layout, strict=True)
        stored = [shape[::-1] if kind == "t" else shape for shape, kind in pairs]
        return [*stored, (self.columns,)] if self.fused else stored

    def pack(self) -> None:
        """Compile the product; it must be one by warpgroups."""
        import blu

        def function(left: Any, right: Any, *bias: Any) -> Any:
            left, right = (x.swapaxes(0, 1) if kind == "t" else x
                           for x, kind in zip((left, right), self.layout, strict=True))  # fmt: skip
            result = blu.matmul(left, right, precision="tf32" if self.kind == "tf32" else "highest")
            return blu.gelu(result + bias[0], approximate="tanh") if bias else result

        element = "f32" if self.kind == "tf32" else self.kind
        compiled = blu.jit(function).trace(*(blu.spec(shape, element) for shape in self.shapes)).compile("sm_90a")
        code = {name: data for name, data in compiled.executable.items() if name.endswith(".ptx")}
        assert any(b"wgmma.mma_async" in text for text in code.values()), f"{self.name} is not done by warpgroups"
        compiled.save(self.path)
        print(f"{self.path}: {', '.join(code)}")


PROBLEMS = (
    Problem("8192 bf16", "bf16", "nn", 8192, 8192, 8192),
    Problem("8192 bf16 nt", "bf16", "nt", 8192, 8192, 8192),
    Problem("8192 tf32", "tf32", "nt", 8192, 8192, 8192),
    Problem("queries, keys and values", "bf16", "nn", 65536, 2304, 768),
    Problem("projection", "bf16", "nn", 65536, 768, 768),
    Problem("up", "bf16", "nn", 65536, 3072, 768),
    Problem("up, bias and GELU", "bf16", "nn", 65536, 3072, 768, fused=True),
    Problem("down", "bf16", "nn", 65536, 768, 3072),
    Problem("gradient of weights", "bf16", "tn", 768, 3072, 65536),
)


class Sides:
    """One problem's inputs on the GPU, and both ways to multiply them."""

    def __init__(self, problem: Problem):
        import torch

        from blu.runtime.cuda import CudaProgram

        self.torch, self.problem = torch, problem
        torch.backends.cuda.matmul.allow_tf32 = problem.kind == "tf32"
        self.dtype = torch.float32 if problem.kind == "tf32" else torch.bfloat16
        self.program = CudaProgram.load(problem.path)
        self.output = torch.empty(problem.rows, problem.columns, dtype=self.dtype, device="cuda")
        self.draw(0)

    def draw(self, seed: int) -> None:
        """New inputs."""
        torch = self.torch
        generator = torch.Generator(device="cuda").manual_seed(seed)
        shapes = self.problem.shapes
        self.inputs = [torch.randn(shape, generator=generator, device="cuda").to(self.dtype) for shape in shapes]

    def operands(self) -> list[Any]:
        """The factors as they are multiplied."""
        pairs = zip(self.inputs, self.problem.layout, strict=False)
        return [item.T if kind == "t" else item for item, kind in pairs]

    def blu(self) -> Any:
        """Into the output."""
        self.program.run(self.inputs, outputs=[self.output])
        return self.output

    def cublas(self) -> Any:
        torch = self.torch
        if not self.problem.fused:
            return torch.matmul(*self.operands())
        return torch.nn.functional.gelu(torch.addmm(self.inputs[2], *self.operands()), approximate="tanh")

    def error(self, found: Any) -> float:
        """The norm of the difference to f64's result, relative to its norm."""
        torch = self.torch
        expected = torch.matmul(*(item.double() for item in self.operands()))
        if self.problem.fused:
            expected = torch.nn.functional.gelu(expected + self.inputs[2].double(), approximate="tanh")
        return float((found.double() - expected).norm() / expected.norm())

    def poisoned(self) -> Any:
        """Blu's result over an output full of NaN."""
        self.output.fill_(float("nan"))
        self.torch.cuda.synchronize()
        result = self.blu()
        self.torch.cuda.synchronize()
        return result

    def microseconds(self, call: Callable[[], Any]) -> float:
        """The time of one of several calls in a row, by CUDA events."""
        return microseconds(self.torch, lambda _: call(), LAUNCHES, WAIT_CLOCKS)


def measure(problem: Problem) -> dict[str, Any]:
    """Check and time a problem."""
    sides = Sides(problem)
    errors, peers = [], []
    for seed in range(FRESH):
        sides.draw(seed + 1)
        errors.append(sides.error(sides.poisoned()))
        peers.append(sides.error(sides.cublas()))
    first = sides.poisoned().clone()
    same = sum(bool(sides.torch.equal(first, sides.poisoned())) for _ in range(REPEATS))
    times: dict[str, list[float]] = {"blu": [], "cublas": []}
    for _ in range(ROUNDS):
        times["blu"].append(sides.microseconds(sides.blu))
        times["cublas"].append(sides.microseconds(sides.cublas))
    medians = {side: statistics.median(values[2:]) for side, values in times.items()}
    operations = 2e-6 * problem.rows * problem.columns * problem.depth
    return {
        "problem": problem.name,
        "kind": problem.kind,
        "layout": problem.layout,
        "rows, columns, depth": [problem.rows, problem.columns, problem.depth],
        "largest error": max(errors),
        "largest error of cublas": max(peers),
        "repeats with the same bits": f"{same} of {REPEATS}",
        "bits of cublas": bool(sides.torch.equal(first, sides.cublas())),
        "microseconds": medians,
        "TFLOP/s": {side: operations / time for side, time in medians.items()},
        "speed ratio": medians["cublas"] / medians["blu"],
        "right": max(errors) <= (FUSED_BOUND if problem.fused else BOUNDS[problem.kind]) and same == REPEATS,
    }


def main() -> int:
    """Pack, or check and measure; 1 where a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", action="store_true", help="compile for sm_90a")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the report there")
    arguments = parser.parse_args()
    if arguments.pack:
        FOLDER.mkdir(parents=True, exist_ok=True)
        for problem in PROBLEMS:
            problem.pack()
        return 0
    import torch

    rows = []
    for problem in PROBLEMS:
        rows.append(measure(problem))
        torch.cuda.empty_cache()
        print(json.dumps(rows[-1]), flush=True)
    report = {"command": "python bench/gemm_gpu.py", "date": f"{datetime.date.today()}", "machine": describe(torch),
              "products": rows}  # fmt: skip
    if arguments.save:
        arguments.save.write_text(json.dumps(report, indent=1) + "\n")
    return int(not all(row["right"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""Matrix products on a GPU against cuBLAS: a table of large ones, random ones, fused operations, few rows, batches.

    python bench/gemm_gpu.py --pack [--only WORD]               # compile here (no GPU needed), into .gpu/gemm
    python bench/gemm_gpu.py [--only WORD] [--save FILE]        # on the GPU machine: check and measure what was packed

For each problem: the norm of the difference to f64's result on 256 of its rows, for both sides, on new inputs, written
over outputs that are full of NaN; whether repeats give the same bits; and medians of CUDA events, launches of the two
sides in turns, with the spread of the middle half. A ratio above 1 means that Blu is faster. The exit code is 1 where a
result is wrong.
"""

from __future__ import annotations

import datetime
import math
import random
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent / "gpu"))

import checkout

from bench.gpu import packed
from bench.gpu.report import command_line, describe

FOLDER = Path(checkout.ROOT, ".gpu", "gemm")
LAUNCHES, WARM, REPEATS = 20, 4, 3
WAIT_CLOCKS = 16_000_000
SAMPLED_ROWS = 256
# Of the difference's norm: one rounding of the result to bf16, or of operands to tf32 on either side; with what is
# fused, the sums, what follows and the result are rounded.
BOUNDS = {"bf16": 2.5e-3, "tf32": 6e-4, "f32": 3e-6}
KINDS = tuple(BOUNDS)
# Results of fp8 are bf16, beside whose rounding what their sums lose is not seen.
BOUNDS |= {"e4m3": BOUNDS["bf16"]}
FUSED_BOUND = 3e-3
SEED, NUM_RANDOM, LARGEST = 14, 20, 16384


@dataclass(frozen=True)
class Problem:
    """left [rows, depth] @ right [depth, columns], `batch` times, either stored transposed ("t" in `layout`)."""

    group: str
    kind: str
    layout: str
    rows: int
    columns: int
    depth: int
    fused: str = "none"
    batch: int = 1

    @property
    def name(self) -> str:
        batch = f"{self.batch}x" if self.batch > 1 else ""
        return f"{self.group} {self.kind} {self.layout} {batch}{self.rows}x{self.columns}x{self.depth} {self.fused}"

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name.replace(' ', '-')}.blu"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the arguments as they are stored: factors, and what is fused."""
        outer = (self.batch,) if self.batch > 1 else ()
        left, right = (self.rows, self.depth), (self.depth, self.columns)
        pairs = zip((left, right), self.layout, strict=True)
        stored = [(*outer, *(shape[::-1] if kind == "t" else shape)) for shape, kind in pairs]
        bias, whole = (self.columns,), (self.rows, self.columns)
        more = {"bias": [bias], "bias, GELU and before": [bias], "residual": [bias, whole]}
        more |= {fused: [whole] for fused in GRADIENTS}
        return stored + more.get(self.fused, [])

    def operands(self, inputs: Sequence[Any]) -> list[Any]:
        """The factors as they are multiplied, of either side."""
        return [x.swapaxes(-1, -2) if kind == "t" else x for x, kind in zip(inputs, self.layout, strict=False)]


LARGE = (
    (8192, 8192, 8192, ("nn", "nt")),
    (65536, 2304, 768, ("nn", "nt")),
    (65536, 768, 768, ("nn", "nt")),
    (65536, 3072, 768, ("nn", "nt")),
    (65536, 768, 3072, ("nn", "nt")),
    (16384, 50304, 768, ("nn", "nt")),
    (16384, 768, 50304, ("nn", "nt", "tn")),
    (50304, 768, 16384, ("nn", "nt", "tn")),
    (768, 3072, 65536, ("nn", "nt", "tn")),
    (3072, 768, 65536, ("nn", "nt", "tn")),
    (2304, 768, 65536, ("nn", "nt", "tn")),
)
GRADIENTS = {"GELU's gradient": 1, "GELU and its gradient": 2}
"""How many results they have: a training step's product also forms again what was given up to save memory."""
FUSED = ("none", "bias", "bias, GELU and before", *GRADIENTS)
OTHERS = ((4096, 4096, 4096), (8192, 1024, 128), (2048, 2048, 64), (4097, 513, 1025), (1, 50257, 768), (16, 50257, 768))
BATCHES = ((768, 128, 128, 64), (64, 256, 256, 64), (16, 512, 512, 128), (384, 64, 64, 64))


def problems() -> Iterator[Problem]:
    """All of them."""
    for kind in KINDS:
        for *sizes, layouts in LARGE:
            yield from (Problem("table", kind, layout, *sizes) for layout in layouts)
        yield from (Problem("fused", kind, "nn", 65536, 3072, 768, fused) for fused in FUSED)
        yield from (Problem("fused", kind, "nn", 65536, 768, 3072, fused) for fused in ("none", "residual"))
        yield from (Problem("others", kind, "nt" if sizes[1] == 50257 else "nn", *sizes) for sizes in OTHERS)
        yield from (Problem("batches", kind, "nt", *sizes, batch=batch) for batch, *sizes in BATCHES)
    yield from _float8_problems()
    yield from _random_problems()


def _float8_problems() -> Iterator[Problem]:
    """Factors whose neighbours lie along k, as the instruction and cuBLAS take them, and a right one that is copied."""
    for *sizes, _ in LARGE[:6]:
        yield Problem("table", "e4m3", "nt", *sizes)
    yield Problem("table", "e4m3", "nn", 8192, 8192, 8192)
    yield from (Problem("others", "e4m3", "nt", *sizes) for sizes in ((4096, 4096, 4096), (16, 50272, 768)))


def _random_problems() -> Iterator[Problem]:
    """Sizes of 1 to `LARGEST` each way, as many between 1 and 2 as between 8192 and 16384, in any layout."""
    rng = random.Random(SEED)
    for _ in range(NUM_RANDOM):
        sizes = [round(math.exp(rng.uniform(0, math.log(LARGEST)))) for _ in range(3)]
        layout = rng.choice(("nn", "nt", "tn", "tt"))
        yield from (Problem("random", kind, layout, *sizes) for kind in KINDS)


def by_blu(problem: Problem, *inputs: Any) -> Any:
    """What is compiled."""
    import blu

    left, right = problem.operands(inputs)
    options = {"e4m3": {"dtype": "bf16"}, "tf32": {"precision": "tf32"}}.get(problem.kind, {})
    product, more = blu.matmul(left, right, **options), inputs[2:]
    gelu = partial(blu.gelu, approximate="tanh")
    if problem.fused in GRADIENTS:
        value, pull_back = blu.vjp(gelu, more[0])
        return (pull_back(product)[0], value)[: GRADIENTS[problem.fused]]
    if problem.fused == "bias, GELU and before":
        return product + more[0], gelu(product + more[0])
    return sum(more, product)


def by_torch(problem: Problem, torch: Any, *inputs: Any) -> list[Any]:
    """The same in PyTorch, whose addmm has a bias."""
    (left, right), more = problem.operands(inputs), inputs[2:]
    if problem.fused in GRADIENTS:
        gradient = torch.ops.aten.gelu_backward(torch.matmul(left, right), more[0], approximate="tanh")
        return [gradient, torch.nn.functional.gelu(more[0], approximate="tanh")][: GRADIENTS[problem.fused]]
    if left.dtype == torch.float8_e4m3fn:
        right = right if right.stride(0) == 1 else right.T.contiguous().T
        one = torch.ones((), device="cuda")
        return [torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16)]
    if not more:
        return [torch.matmul(left, right)]
    before = torch.addmm(more[0], left, right)
    if problem.fused == "bias, GELU and before":
        return [before, torch.nn.functional.gelu(before, approximate="tanh")]
    return [before + more[1]] if len(more) > 1 else [before]


def pack(problem: Problem) -> str:
    """Compile one, and say which kernels it has become."""
    return packed.save_program(problem, lambda *inputs: by_blu(problem, *inputs))


class Sides:
    """One problem's inputs on the GPU, and both ways to multiply them."""

    def __init__(self, problem: Problem, seed: int):
        import torch

        from blu.runtime.cuda import CudaProgram

        self.torch, self.problem = torch, problem
        torch.backends.cuda.matmul.allow_tf32 = problem.kind == "tf32"
        dtype = {"bf16": torch.bfloat16, "e4m3": torch.float8_e4m3fn}.get(problem.kind, torch.float32)
        generator = torch.Generator(device="cuda").manual_seed(seed)
        self.inputs = [torch.randn(shape, generator=generator, device="cuda").to(dtype) for shape in problem.shapes]
        self.program = CudaProgram.load(problem.path)
        self.peer = by_torch(problem, torch, *self.inputs)
        self.outputs = [torch.empty_like(item) for item in self.peer]

    def run(self) -> None:
        self.program.run(self.inputs, outputs=self.outputs)

    def poisoned(self) -> list[Any]:
        """Results over outputs full of NaN."""
        for output in self.outputs:
            output.fill_(float("nan"))
        self.run()
        self.torch.cuda.synchronize()
        return [output.clone() for output in self.outputs]

    def errors(self) -> tuple[list[float], list[float]]:
        """Of each result, the norm of the difference to f64's, relative to its norm: Blu's, and the peer's."""
        torch, problem = self.torch, self.problem
        chosen = torch.randint(0, problem.rows, (min(problem.rows, SAMPLED_ROWS),), device="cuda")
        left, right = problem.operands(self.inputs)
        more = [x.double() if x.dim() == 1 else x[chosen].double() for x in self.inputs[2:]]
        straight = Problem("", problem.kind, "nn", len(chosen), problem.columns, problem.depth, problem.fused)
        exact = by_torch(straight, torch, _rows(torch, left, chosen).double(), right.double(), *more)

        def apart(found: Sequence[Any]) -> list[float]:
            pairs = zip(found, exact, strict=True)
            return [float((x[..., chosen, :].double() - y).norm() / y.norm().clamp(min=1e-30)) for x, y in pairs]

        return apart(self.outputs), apart(self.peer)

    def microseconds(self) -> dict[str, list[float]]:
        """Of each side, the times of launches in turns."""
        torch, problem = self.torch, self.problem
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(3)] for _ in range(LAUNCHES)]
        torch.cuda.synchronize()
        torch.cuda._sleep(WAIT_CLOCKS)
        for before, between, after in marks:
            before.record()
            self.run()
            between.record()
            by_torch(problem, torch, *self.inputs)
            after.record()
        torch.cuda.synchronize()
        taken = marks[WARM:]
        return {
            "blu": [1e3 * before.elapsed_time(between) for before, between, _ in taken],
            "cublas": [1e3 * between.elapsed_time(after) for _, between, after in taken],
        }


def _rows(torch: Any, matrix: Any, chosen: Any) -> Any:
    """Some rows of a matrix. Of fp8, PyTorch only takes bytes by indices."""
    if matrix.dtype != torch.float8_e4m3fn:
        return matrix[..., chosen, :]
    return matrix.view(torch.uint8)[..., chosen, :].view(matrix.dtype)


def measure(problem: Problem) -> dict[str, Any]:
    """Check and time a problem."""
    sides = Sides(problem, seed=time.time_ns() % (1 << 31))
    first = sides.poisoned()
    mine, peers = sides.errors()
    repeats = [sides.poisoned() for _ in range(REPEATS)]
    same = all(bool(sides.torch.equal(x, y)) for again in repeats for x, y in zip(first, again, strict=True))
    times = sides.microseconds()
    medians = {side: statistics.median(values) for side, values in times.items()}
    bound = FUSED_BOUND if problem.kind == "bf16" and problem.fused != "none" else BOUNDS[problem.kind]
    operations = 2e-6 * problem.batch * problem.rows * problem.columns * problem.depth
    return {
        "problem": problem.name,
        **asdict(problem),
        "microseconds": {side: round(value, 2) for side, value in medians.items()},
        "spread": {side: round(_spread(values), 2) for side, values in times.items()},
        "TFLOP/s": {side: round(operations / value, 1) for side, value in medians.items()},
        "ratio": round(medians["cublas"] / medians["blu"], 3),
        "errors": {"blu": mine, "cublas": peers},
        "same bits again": same,
        "right": same and all(error <= max(bound, 1.2 * peer) for error, peer in zip(mine, peers, strict=True)),
    }


def _spread(values: Sequence[float]) -> float:
    """Of the middle half."""
    low, _, high = statistics.quantiles(values, n=4)
    return high - low


def summarise(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means and smallest ratios by group and type, and what fused operations take more than none."""
    found: dict[str, Any] = {}
    for group, kind in dict.fromkeys((row["group"], row["kind"]) for row in rows):
        ratios = [row["ratio"] for row in rows if (row["group"], row["kind"]) == (group, kind)]
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        found[f"{group} {kind}"] = {"geometric mean": round(mean, 3), "smallest": min(ratios), "problems": len(ratios)}
    plain = {_key(row): row for row in rows if row["group"] == "fused" and row["fused"] == "none"}
    for row in rows:
        if row["group"] == "fused" and row["fused"] != "none" and _key(row) in plain:
            more = row["microseconds"]["blu"] / plain[_key(row)]["microseconds"]["blu"] - 1
            found[row["problem"]] = {"more than the product": round(more, 3)}
    return found


def _key(row: dict[str, Any]) -> tuple:
    return tuple(row[name] for name in ("kind", "layout", "rows", "columns", "depth"))


def _measured(problem: Problem) -> dict[str, Any]:
    import torch

    row = measure(problem)
    torch.cuda.empty_cache()
    errors = " ".join(f"{error:.1e}" for error in (*row["errors"]["blu"], *row["errors"]["cublas"]))
    print(f"{row['problem']:60} {row['microseconds']} {row['ratio']} errors {errors} {row['right']}", flush=True)
    return row


def _report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    import torch

    return {"command": command_line(), "date": f"{datetime.date.today()}", "machine": describe(torch),
            "seed of random sizes": SEED, "summary": summarise(rows), "products": rows}  # fmt: skip


def main() -> int:
    """Pack, or check and measure; 1 where a result is wrong."""
    return packed.run(__doc__, FOLDER, problems(), pack, _measured, _report)


if __name__ == "__main__":
    sys.exit(main())

"""Matrix products: GPT-2's, large ones, few rows, and random shapes in all layouts."""

from __future__ import annotations

import math
import random
from typing import Any

from blu.compiler.bench.workload import BYTES, RandomArray, Workload
from blu.frontend.functional import functional

# rows x columns x depth, and the layout: whether the left and the right factor are stored transposed
ON_GPUS = (
    (8192, 8192, 8192, "nn"),
    (4096, 4096, 4096, "nn"),
    (65536, 2304, 768, "nn"),
    (65536, 768, 768, "nn"),
    (65536, 3072, 768, "nn"),
    (65536, 768, 3072, "nn"),
    (16384, 50304, 768, "nt"),
    (768, 3072, 65536, "tn"),
    (8192, 1024, 128, "nn"),
    (2048, 2048, 64, "nn"),
    (4097, 513, 1025, "nn"),
    (16, 3072, 768, "nn"),
    (1, 50257, 768, "nt"),
)
ON_PROCESSORS = (
    (128, 2304, 768, "nn"),
    (128, 768, 768, "nn"),
    (128, 768, 3072, "nn"),
    (128, 50257, 768, "nt"),
    (16, 3072, 768, "nn"),
    (1, 768, 768, "nn"),
    (513, 257, 385, "nn"),
    (1024, 1024, 1024, "nn"),
)
NUM_RANDOM = 20


def workloads(on_gpu: bool, seed: int) -> list[Workload]:
    """The table, and random shapes drawn by `seed`: extents by the logarithm, up to 16384 (1024 on processors)."""
    generator = random.Random(seed)
    largest = 16384 if on_gpu else 1024
    drawn = [_draw(generator, largest) for _ in range(NUM_RANDOM)]
    kinds = ("bf16", "tf32", "f32") if on_gpu else ("f32",)
    table = ON_GPUS if on_gpu else ON_PROCESSORS
    return [
        *(product(kind, *shape) for kind in kinds for shape in table),
        *(product(kind, *shape, group="random ") for kind in kinds for shape in drawn),
    ]


def product(kind: str, rows: int, columns: int, depth: int, layout: str, group: str = "") -> Workload:
    """left [rows, depth] @ right [depth, columns]; "bf16", "f32", or "tf32", where f32 is rounded to tf32."""
    dtype = "f32" if kind == "tf32" else kind
    precision = "tf32" if kind == "tf32" else "highest"
    left, right = (_stored((rows, depth), layout[0]), _stored((depth, columns), layout[1]))
    size = BYTES[dtype] * (rows * depth + depth * columns + rows * columns)

    def ours(x: Any, y: Any) -> Any:
        x, y = (item.T if stored == "t" else item for item, stored in zip((x, y), layout, strict=True))
        return functional.matmul(x, y, precision=precision)

    def theirs(torch: Any, x: Any, y: Any) -> Any:
        return torch.matmul(x.T if layout[0] == "t" else x, y.T if layout[1] == "t" else y)

    name = f"{group}{kind} {layout} {rows}x{columns}x{depth}"
    operands = (RandomArray(left, dtype), RandomArray(right, dtype))
    return Workload(name, operands, ours, theirs, 2 * rows * columns * depth, size, kind)


def _stored(shape: tuple[int, int], layout: str) -> tuple[int, int]:
    return shape if layout == "n" else (shape[1], shape[0])


def _draw(generator: random.Random, largest: int) -> tuple[int, int, int, str]:
    rows, columns, depth = (round(2 ** generator.uniform(0, math.log2(largest))) for _ in range(3))
    return rows, columns, depth, generator.choice(("nn", "nt", "tn", "tt"))

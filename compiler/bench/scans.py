"""Running sums, sorts and the largest elements."""

from __future__ import annotations

from typing import Any

from blu.compiler.bench.workload import RandomArray, Workload
from blu.frontend.functional import functional

ON_GPUS = ((16384, 768), (100, 50257), (1, 1_000_000))
ON_PROCESSORS = ((1024, 768), (10, 50257), (1, 1_000_000))
LARGEST = 50


def workloads(on_gpu: bool, seed: int) -> list[Workload]:
    """Each along rows of three lengths."""
    del seed
    return [item for shape in (ON_GPUS if on_gpu else ON_PROCESSORS) for item in _along(shape)]


def _along(shape: tuple[int, int]) -> list[Workload]:
    operand = (RandomArray(shape),)
    size, name = operand[0].nbytes, f"{shape[0]}x{shape[1]}"
    return [
        Workload(f"cumsum {name}", operand, lambda x: functional.cumsum(x, axis=1),
                 lambda torch, x: torch.cumsum(x, 1), 0, 2 * size),
        Workload(f"sort {name}", operand, lambda x: functional.sort(x, axis=1), _torch_sort, 0, 2 * size),
        Workload(f"top {LARGEST} of {name}", operand, lambda x: functional.top_k(x, LARGEST),
                 lambda torch, x: tuple(torch.topk(x, LARGEST)), 0, size),
    ]  # fmt: skip


def _torch_sort(torch: Any, x: Any) -> Any:
    return torch.sort(x, 1).values

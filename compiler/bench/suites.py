"""The groups of workloads that `blu bench` knows by name."""

from __future__ import annotations

from collections.abc import Callable

from blu.compiler.bench import attention, products, rows, scans
from blu.compiler.bench.workload import Workload

# Each is given whether a GPU computes, and the seed by which shapes are drawn.
SUITES: dict[str, Callable[[bool, int], list[Workload]]] = {
    "products": products.workloads,
    "attention": attention.workloads,
    "rows": rows.workloads,
    "scans": scans.workloads,
}

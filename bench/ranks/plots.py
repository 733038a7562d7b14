"""Plots of what `bench/ranks_gpu.py` has found on several GPUs, each of what is there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.gpu.plots import can_plot, plot_bars, plot_lines

GIGABYTE = 1e9
Report = dict[str, Any]


def draw(folder: Path) -> list[Path]:
    """Draw what the reports in a folder are about, if matplotlib is there; the files."""
    if not can_plot():
        return []
    found = {name: read(folder / f"{name}.json") for name in PLOTS}
    return [path for name, report in found.items() if report for path in PLOTS[name](report, folder)]


def read(path: Path) -> Report:
    """A report; nothing where there is none."""
    return json.loads(path.read_text()) if path.exists() else {}


def draw_bandwidth(report: Report, folder: Path) -> Iterator[Path]:
    """The bus bandwidth of all-reduces by size, beside NCCL's own."""
    keys = {"Blu": "blu, GB/s", "PyTorch, in a graph": "torch, graph, GB/s", "PyTorch": "torch, GB/s"}
    lines = {name: [(row["megabytes"], row[key]) for row in report["sizes"]] for name, key in keys.items()}
    path = folder / "bandwidth.png"
    plot_lines(path, "All-reduce of f32, bus bandwidth", "megabytes", "GB/s", lines, logarithmic=True)
    yield path


def draw_scaling(report: Report, folder: Path) -> Iterator[Path]:
    """Tokens per second of a rank: alone, with the others, and PyTorch's."""
    per_step, ranks = report["batch of a rank"] * report["tokens"], report["ranks"]
    rates = {name: 1e3 * per_step / time for name, time in report["milliseconds"].items()}
    path = folder / "scaling.png"
    title = f"GPT-2 124M in {report['policy']}, {report['batch of a rank']} x {report['tokens']} tokens a rank"
    plot_bars(path, title, "tokens per second and rank", {f"{ranks} ranks": rates})
    yield path


def draw_optimizer(report: Report, folder: Path) -> Iterator[Path]:
    """The memory of a rank whose moments are split, beside a rank's alone, and what was planned."""
    groups = {
        name: {kind: report[kind][name] / GIGABYTE for kind in ("bytes", "bytes planned")} for name in report["bytes"]
    }
    path = folder / "optimizer.png"
    plot_bars(path, "Memory of a rank with a part of the moments (ZeRO-1)", "GB", groups)
    yield path


def draw_attention(report: Report, folder: Path) -> Iterator[Path]:
    """Of an attention forward and backward by length, in each way to split it: what a token takes."""
    lengths = sorted((int(name), found) for name, found in report["attention"].items() if name.isdigit())
    title = f"Causal attention, forward and backward, {report['ranks']} ranks"
    for kind, unit, scale in (("milliseconds", "microseconds a token", 1e3), ("bytes", "kilobytes a token", 1e-3)):
        lines: dict[str, list[tuple[float, float]]] = {}
        for length, found in lengths:
            for name, value in found[kind].items():
                lines.setdefault(name, []).append((length, scale * value / length))
        path = folder / f"attention-{kind}.png"
        plot_lines(path, title, "tokens", unit, lines, logarithmic=True)
        yield path


def draw_model(report: Report, folder: Path) -> Iterator[Path]:
    """GPT-2 with one long sequence, on one rank and split."""
    groups = {f"{length} tokens": found["milliseconds"] for length, found in report["model"].items()}
    path = folder / "model.png"
    plot_bars(path, "GPT-2 124M in bf16, the loss and gradients of one sequence", "ms", groups)
    yield path


def draw_tensor(report: Report, folder: Path) -> Iterator[Path]:
    """GPT-2 with its heads split, with exchanges moved apart and as they are written."""
    path = folder / "tensor.png"
    groups = {f"{report['ranks']} ranks": report["tensor"]["milliseconds"]}
    plot_bars(path, "GPT-2 124M in bf16, tensor parallel", "ms", groups)
    yield path


PLOTS: dict[str, Callable[[Report, Path], Iterator[Path]]] = {
    "bandwidth": draw_bandwidth,
    "scaling": draw_scaling,
    "optimizer": draw_optimizer,
    "attention": draw_attention,
    "model": draw_model,
    "tensor": draw_tensor,
}
"""What is drawn of the report of each part."""

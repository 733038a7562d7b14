"""What `blu bench` writes: JSON, a table in Markdown, and a plot for each suite."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blu.compiler.bench.measure import BLU, Measurement
from blu.compiler.target import GPU_NAMES
from blu.runtime.host import processor_name

Results = Mapping[str, Sequence[Measurement]]


def as_json(results: Results, about: Mapping[str, Any]) -> dict[str, Any]:
    """All that was found, as it is saved. Times are in microseconds."""
    suites = {suite: [_entry(found) for found in measured] for suite, measured in results.items()}
    return {**about, "unit": "microseconds", "suites": suites, "summary": summary(results)}


def _entry(found: Measurement) -> dict[str, Any]:
    peers = [name for name in found.times if name != BLU]
    return {
        "name": found.workload.name,
        "times": {name: asdict(timing) for name, timing in found.times.items()},
        "ratios": {name: found.ratio(name) for name in peers},
        "errors": found.errors,
        "bound": found.bound,
        "share of bound": found.share_of_bound,
        **({"failed": found.failed} if found.failed else {}),
        **({"problem": found.problem} if found.problem else {}),
    }


def summary(results: Results) -> dict[str, dict[str, dict[str, float]]]:
    """Of each suite and peer: the geometric mean of the ratios, and the smallest."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for suite, measured in results.items():
        for peer in _peers(measured):
            ratios = [ratio for item in measured if (ratio := item.ratio(peer)) is not None]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                found.setdefault(suite, {})[peer] = {"geometric mean": mean, "smallest": min(ratios)}
    return found


def _peers(measured: Sequence[Measurement]) -> list[str]:
    """Those that have times, in order."""
    return list(dict.fromkeys(name for item in measured for name in item.times if name != BLU))


def as_markdown(results: Results) -> str:
    """A table for each suite: Blu's time, its share of the roofline, how many times faster it is, and errors."""
    return "\n\n".join("\n".join(_table(suite, measured)) for suite, measured in results.items()) + "\n"


def _table(suite: str, measured: Sequence[Measurement]) -> Iterator[str]:
    peers = _peers(measured)
    headings = ["µs", "± %", "of bound", *(f"vs {peer}" for peer in peers), "error", *(f"of {peer}" for peer in peers)]
    yield f"| {suite} | " + " | ".join(headings) + " |"
    yield "|---" * (len(headings) + 1) + "|"
    for item in measured:
        yield f"| {item.workload.name} | " + " | ".join(_cells(item, peers)) + " |"


def _cells(item: Measurement, peers: Sequence[str]) -> Iterator[str]:
    timing = item.times.get(BLU)
    if timing is None:
        yield item.problem
        yield from ["-"] * (3 + 2 * len(peers))
        return
    yield f"{timing.median:.1f}"
    yield f"{50 * (timing.high - timing.low) / timing.median:.0f}"
    yield f"{item.share_of_bound:.2f}"
    for peer in peers:
        ratio = item.ratio(peer)
        yield "-" if ratio is None else f"{ratio:.2f}"
    yield f"{item.errors[BLU]:.1e}" + (f" ({item.problem})" if item.problem else "")
    for peer in peers:
        yield f"{item.errors[peer]:.1e}" if peer in item.errors else "-"


def machine(torch: Any, target: str, threads: int) -> dict[str, Any]:
    """Where it was measured, and with which versions."""
    found = {"target": target, "torch": torch.__version__, "python": platform.python_version()}
    if target in GPU_NAMES:
        return {**found, "gpu": torch.cuda.get_device_name(), "cuda": torch.version.cuda or ""}
    return {**found, "processor": processor_name(), "threads": threads}


def save(folder: Path, results: Results, about: Mapping[str, Any], target: str) -> list[Path]:
    """Write `bench-TARGET.json` and `.md`, and a plot for each suite where matplotlib is installed; their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"bench-{target}"
    data, table = stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.md")
    data.write_text(json.dumps(as_json(results, about), indent=1) + "\n")
    table.write_text(as_markdown(results))
    return [data, table, *_plots(stem, results)]


def _plots(stem: Path, results: Results) -> Iterator[Path]:
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    for suite, measured in results.items():
        path = stem.with_name(f"{stem.name}-{suite}.png")
        _plot(path, suite, measured)
        yield path


def _plot(path: Path, suite: str, measured: Sequence[Measurement]) -> None:
    """Bars of how many times faster Blu is than each peer."""
    from matplotlib import pyplot

    peers = _peers(measured)
    height = 0.8 / max(len(peers), 1)
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.3 * len(measured)), layout="constrained")
    for number, peer in enumerate(peers):
        places = [index + height * (number - (len(peers) - 1) / 2) for index in range(len(measured))]
        axes.barh(places, [item.ratio(peer) or 0.0 for item in measured], height, label=f"PyTorch, {peer}")
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_yticks(range(len(measured)), [item.workload.name for item in measured], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("times faster than the peer")
    axes.set_title(suite)
    if peers:
        axes.legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)

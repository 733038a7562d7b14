"""The report of the headline benchmark from its JSON: a page of tables, and plots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.gpu.plots import can_plot, plot_bars, plot_lines
from bench.training.goals import goals, largest_difference

Report = Mapping[str, Any]
INTRODUCTION = """# The headline: GPT-2 124M on several GPUs

`bench/headline.py` trains GPT-2 124M with Blu and with PyTorch (torch.compile, DistributedDataParallel, fused AdamW) in
one run: 12 layers, 12 heads, width 768, 1024 positions, 50,304 words, a tied head; 16 sequences of 1024 tokens for each
GPU in each of 4 micro-batches; AdamW (0.9, 0.95, 1e-8), decay 0.1 of tensors with two dimensions, clipping at 1.0, a
cosine schedule from 6e-4 after 715 steps. PyTorch's gradients travel in buckets of 25 MB. In bf16, 64 sequences and one
micro-batch.

```text
python bench/headline.py --ranks 8                 everything, into the folder headline of bench/results, and this page
python bench/headline.py --ranks 8 --only speed-tf32-8,gradients     some parts; the others stay as they were
python bench/headline.py --dry-run --ranks 2       the same on processors, with a tiny model
```

Both systems start from the same weights and read the same batches in the same order. Steps are timed by the host's
clock, in alternating rounds, from the batch in the host's memory to the loss and the norm of gradients. Memory is what
the GPU says is taken beside what was taken before, whoever took it, of each system alone. `headline.json` has every
step, and versions, clocks, flags, seeds and the data's hash.
"""
TITLES = {
    "goals": "What was asked, and found",
    "speed": "Speed and scaling",
    "curves": "Losses, memory, determinism",
    "gradients": "Gradients of the first step",
    "reduce": "All-reduce",
}


def page(report: Report) -> str:
    """The Markdown page."""
    parts = report.get("parts", {})
    made = [INTRODUCTION]
    makers = {"goals": _goals, "speed": _speed, "curves": _curves, "gradients": _gradients, "reduce": _reduce}
    for name, maker in makers.items():
        lines = [*maker(parts)] or ["Not measured yet."]
        made.append("\n".join((f"## {TITLES[name]}", "", *lines)) + "\n")
    if failed := {name: item["failed"] for name, item in parts.items() if "failed" in item}:
        made.append(
            "\n".join(("## Parts that failed", "", *(f"- {name}: {text}" for name, text in failed.items()))) + "\n"
        )
    if about := next((item for item in parts.values() if "controls" in item), None):
        made.append(
            "\n".join(("## Controls", "", *_controls(about["controls"]), *_clocks(about), *_arithmetic(parts))) + "\n"
        )
    return "\n".join(made)


def _measured(parts: Report, kind: str) -> dict[str, Any]:
    return {name: item for name, item in parts.items() if name.startswith(kind) and "failed" not in item}


def _goals(parts: Report) -> Iterator[str]:
    found = [*goals(parts)]
    if found:
        yield from ("| what | asked | found | enough |", "|---|---|---|---|")
    for what, bound, value, is_enough in found:
        yield f"| {what} | {bound} | {value} | {'yes' if is_enough else 'no'} |"


def _speed(parts: Report) -> Iterator[str]:
    found = _measured(parts, "speed-")
    if not found:
        return
    yield from ("| precision | ranks | Blu, tokens/s (ms; 10 to 90 %) | PyTorch | ratio | Blu, scaling | PyTorch |",
                "|---|---|---|---|---|---|---|")  # fmt: skip
    for name, item in sorted(found.items()):
        precision = name.split("-")[1]
        alone = found.get(f"speed-{precision}-1", {}).get("sides", {})
        sides = item["sides"]
        shown = [_rate(sides.get(side)) for side in ("blu", "torch")]
        scaling = [_scaling(sides.get(side), alone.get(side), item["ranks"]) for side in ("blu", "torch")]
        cells = [precision, str(item["ranks"]), *shown, _ratio(sides), *scaling]
        yield f"| {' | '.join(cells)} |"


def _rate(side: Report | None) -> str:
    if side is None:
        return "-"
    low, high = side["10 % of steps are below"], side["10 % of steps are above"]
    return f"{side['tokens per second']:,.0f} ({side['milliseconds']:.1f}; {low:.1f} to {high:.1f})"


def _ratio(sides: Report) -> str:
    if "torch" not in sides:
        return "-"
    return f"{sides['blu']['tokens per second'] / sides['torch']['tokens per second']:.3f}x"


def _scaling(side: Report | None, alone: Report | None, ranks: int) -> str:
    if side is None or alone is None:
        return "-"
    return f"{side['tokens per second'] / alone['tokens per second'] / ranks:.1%}"


def _curves(parts: Report) -> Iterator[str]:
    found = _measured(parts, "curve-")
    if not found:
        return
    yield from ("| run | steps | first loss | mean of the last 50 | peak memory, GB | first step, s | SHA-256 |",
                "|---|---|---|---|---|---|---|")  # fmt: skip
    for name, item in found.items():
        losses = item["losses"]
        last = losses[-50:]
        memory = f"{item['bytes'] / 1e9:.2f} | {item['first step, seconds']:.1f}"
        run = f"| {name.removeprefix('curve-')} | {len(losses)} | {losses[0]:.4f} | {sum(last) / len(last):.4f} | "
        yield f"{run}{memory} | {item['digest'][:12]} |"
    yield ""
    yield from (f"- {text}: {value}" for text, value in conclusions(parts).items())


def conclusions(parts: Report) -> dict[str, Any]:
    """What follows from the curves."""
    found = _measured(parts, "curve-")
    said: dict[str, Any] = {}
    for side, name in (("blu", "Blu"), ("torch", "PyTorch")):
        first, again = found.get(f"curve-{side}"), found.get(f"curve-{side}-again")
        if first and again:
            said[f"two runs of {name} have the same bits"] = first["digest"] == again["digest"]
            said[f"losses of two runs of {name} differ by at most"] = largest_difference(first, again)
    if "curve-blu" in found and "curve-torch" in found:
        ours, theirs = found["curve-blu"], found["curve-torch"]
        said["losses of Blu and PyTorch differ by at most"] = largest_difference(ours, theirs)
        said["memory ratio"] = round(ours["bytes"] / max(theirs["bytes"], 1), 3)
    return said


def _gradients(parts: Report) -> Iterator[str]:
    for name, item in _measured(parts, "gradients").items():
        if "largest" not in item:
            yield f"- {name}: {item['gradients']} gradients; PyTorch, which they are compared with, is not there"
            continue
        largest = ", ".join(f"{kind} {value:.2e}" for kind, value in item["largest"].items())
        yield f"- {name}: {item['gradients']} tensors, the largest relative L2 differences: {largest}"


def _reduce(parts: Report) -> Iterator[str]:
    for item in _measured(parts, "reduce").values():
        columns = [name for name in item["sizes"][0] if name != "megabytes"]
        yield f"| MB | {' | '.join(columns)} |"
        yield "|---" * (len(columns) + 1) + "|"
        for row in item["sizes"]:
            yield f"| {row['megabytes']} | {' | '.join(f'{row[name]:,.1f}' for name in columns)} |"


def _controls(about: Report) -> Iterator[str]:
    left = ("config", "side", "precision")
    flat = {**about, "setup": {key: value for key, value in about["setup"].items() if key not in left}}
    del flat["arithmetic"]
    yield from ("| what | is |", "|---|---|")
    for name, value in flat.items():
        text = ", ".join(f"{key} {item}" for key, item in value.items()) if isinstance(value, dict) else str(value)
        yield f"| {name} | {text} |"


def _clocks(part: Report) -> Iterator[str]:
    """What each GPU said of itself, before and after a part."""
    for when, gpus in part.get("clocks", {}).items():
        for number, gpu in enumerate(gpus):
            yield f"| GPU {number}, {when} | {', '.join(f'{name} {value}' for name, value in gpu.items())} |"


def _arithmetic(parts: Report) -> Iterator[str]:
    """What each precision means."""
    about = [item["controls"] for item in parts.values() if "controls" in item]
    for precision, text in {item["setup"]["precision"]: item["arithmetic"] for item in about}.items():
        yield f"| {precision} | {text} |"


def draw(report: Report, folder: Path) -> list[Path]:
    """The plots of what was measured; their paths."""
    if not can_plot():
        return []
    parts = report["parts"]
    makers = {"losses.png": _draw_losses, "speed.png": _draw_speed, "all-reduce.png": _draw_reduce}
    return [folder / name for name, maker in makers.items() if maker(parts, folder / name)]


def _draw_losses(parts: Report, path: Path) -> bool:
    found = _measured(parts, "curve-")
    lines = {name.removeprefix("curve-"): [*enumerate(item["losses"])] for name, item in found.items()}
    if lines:
        plot_lines(path, "Losses from the same weights on the same batches", "step", "loss", lines)
    return bool(lines)


def _draw_speed(parts: Report, path: Path) -> bool:
    found = _measured(parts, "speed-")
    groups = {
        name.removeprefix("speed-"): {side: figures["tokens per second"] for side, figures in item["sides"].items()}
        for name, item in found.items()
    }
    if groups:
        plot_bars(path, "GPT-2: precision and ranks", "tokens per second", groups)
    return bool(groups)


def _draw_reduce(parts: Report, path: Path) -> bool:
    rows = [row for item in _measured(parts, "reduce").values() for row in item["sizes"]]
    if rows:
        names = [name for name in rows[0] if name.endswith(", us")]
        lines = {name.removesuffix(", us"): [(row["megabytes"], row[name]) for row in rows] for name in names}
        plot_lines(path, "All-reduce of f32", "MB", "microseconds", lines, logarithmic=True)
    return bool(rows)

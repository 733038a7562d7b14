"""Plots of what benchmarks have found, as PNG files."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Points = Sequence[tuple[float, float]]


def can_plot() -> bool:
    """Whether matplotlib is there; where it is not, a line on stderr says so."""
    if importlib.util.find_spec("matplotlib") is None:
        sys.stderr.write("no plots: they need matplotlib (pip install 'blu[plot]')\n")
        return False
    return True


def _figure(title: str, x: str, y: str) -> tuple[Any, Any]:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel=x, ylabel=y, title=title)
    axes.grid(alpha=0.3)
    return figure, axes


def plot_lines(
    path: Path, title: str, x: str, y: str, lines: Mapping[str, Points], *, logarithmic: bool = False
) -> None:
    """A line for each name; `logarithmic` is of x."""
    figure, axes = _figure(title, x, y)
    for name, points in lines.items():
        axes.plot(*zip(*points, strict=True), marker="" if len(points) > 30 else "o", label=name, linewidth=1)
    if logarithmic:
        axes.set_xscale("log")
    axes.legend()
    figure.savefig(path, dpi=120)


def plot_bars(path: Path, title: str, y: str, groups: Mapping[str, Mapping[str, float]]) -> None:
    """Beside each other the bars of each group, a colour for each name."""
    figure, axes = _figure(title, "", y)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    width = 0.8 / max(len(names), 1)
    for number, name in enumerate(names):
        shown = [(place, group[name]) for place, group in enumerate(groups.values()) if name in group]
        places = [place + width * (number - (len(names) - 1) / 2) for place, _ in shown]
        axes.bar(places, [value for _, value in shown], width, label=name)
    axes.set_xticks(range(len(groups)), list(groups))
    axes.legend()
    figure.savefig(path, dpi=120)

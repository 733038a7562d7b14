"""The numbers of a run on disk: metrics.jsonl with every event, metrics.csv with a row a step, loss.png on request."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from blu.compiler.training.events import Event, Sampled, StepDone, Validated
from blu.errors import UnsupportedError, WeightsError

JSON_LINES, CSV, PLOT = "metrics.jsonl", "metrics.csv", "loss.png"
NAMES = {StepDone: "step", Validated: "validation", Sampled: "sample"}
COLUMNS = (
    "step",
    "loss",
    "validation_loss",
    "learning_rate",
    "norm",
    "tokens",
    "epoch",
    "seconds",
    "tokens_per_second",
    "utilization",
    "memory",
    "skipped",
)


class MetricsLog:
    """An observer that writes metrics to a directory. Lines after `resumed_at`, of a run that went on, are dropped."""

    def __init__(self, directory: Path, resumed_at: int):
        self.directory = directory
        kept = [line for line in read_metrics(directory) if line["step"] <= resumed_at]
        rows = [_row(dict(zip(COLUMNS, COLUMNS, strict=True))), *(_row(x) for x in kept if x["event"] != "sample")]
        try:
            self._lines = _continued(directory / JSON_LINES, [json.dumps(line) + "\n" for line in kept])
            self._rows = _continued(directory / CSV, rows)
        except OSError as error:
            raise WeightsError(f"{directory}: metrics cannot be written: {error.strerror or error}") from error

    def __call__(self, event: Event) -> None:
        if type(event) not in NAMES:
            return
        line = {"event": NAMES[type(event)], **asdict(event)}
        self._lines.write(json.dumps(line) + "\n")
        self._lines.flush()
        if not isinstance(event, Sampled):
            self._rows.write(_row(line))
            self._rows.flush()

    def close(self) -> None:
        self._lines.close()
        self._rows.close()

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read_metrics(directory: Path) -> Iterator[dict[str, Any]]:
    """The lines of a run's metrics.jsonl; those that a killed process left in halves are passed over."""
    path = directory / JSON_LINES
    for text in path.read_text(errors="replace").splitlines() if path.is_file() else ():
        try:
            line = json.loads(text)
        except ValueError:
            continue
        if isinstance(line, dict) and isinstance(line.get("step"), int) and "event" in line:
            yield line


def _continued(path: Path, lines: Sequence[str]) -> TextIO:
    """The file, open for more, with these lines; whoever is killed meanwhile leaves the old or the new ones."""
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text("".join(lines), newline="")
    os.replace(temporary, path)
    return path.open("a", newline="")


def _row(line: Mapping[str, Any]) -> str:
    values = dict(line)
    if line.get("event") == "validation":
        values = {"step": line["step"], "validation_loss": line["loss"], "seconds": line["seconds"]}
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([values.get(column, "") for column in COLUMNS])
    return text.getvalue()


def check_plotting() -> None:
    """Raise UnsupportedError where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UnsupportedError("the loss curve needs matplotlib", advice="pip install 'blu[plot]', or leave out --plot")


def plot_losses(directory: Path) -> Path:
    """Draw the losses in a run's metrics as loss.png, beside them; its path."""
    check_plotting()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    points: dict[str, list[tuple[int, float]]] = {"step": [], "validation": []}
    for line in read_metrics(directory):
        if line["event"] in points:
            points[line["event"]].append((line["step"], line["loss"]))
    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(xlabel="step", ylabel="loss")
    for name, label, style in (("step", "training", "-"), ("validation", "validation", "o-")):
        if points[name]:
            axes.plot(*zip(*points[name], strict=True), style, label=label, linewidth=1, markersize=3)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(directory / PLOT, dpi=120)
    return directory / PLOT

"""What `blu train` shows: a line that lives on a terminal, a line for every few steps elsewhere."""

from __future__ import annotations

import contextlib
import errno
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, TextIO

from blu.compiler.training.events import Event, Note, Sampled, Saved, StepDone, Validated

REDRAW_SECONDS = 0.1


def step_text(event: StepDone) -> str:
    """The numbers of a step in one line."""
    return " | ".join(_step_parts(event))


def _step_parts(event: StepDone) -> list[str]:
    parts = [
        f"step {event.step}/{event.steps}",
        f"loss {event.loss:.4f}",
        f"lr {event.learning_rate:.2e}",
        f"norm {event.norm:.3f}",
        f"{event.tokens_per_second:,.0f} tokens/s",
        *([] if event.utilization is None else [f"MFU {event.utilization:.1%}"]),
        f"{event.memory / 2**20:,.0f} MiB",
        f"ETA {duration(event.remaining_seconds)}",
    ]
    return [*parts, *(["skipped"] if event.skipped else [])]


def other_text(event: Event) -> str:
    """The line for an event that is no step; nothing for those that go without saying."""
    if isinstance(event, Validated):
        return f"step {event.step} | validation loss {event.loss:.4f}"
    if isinstance(event, Sampled):
        return f"step {event.step} | sample: {event.text}"
    if isinstance(event, Saved):
        return f"step {event.step} | checkpoint in {event.directory}"
    return event.text if isinstance(event, Note) else ""


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@contextlib.contextmanager
def _nobody_may_watch() -> Iterator[None]:
    """A terminal that was closed cannot be written to; what is left to do, a checkpoint, is done all the same."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.EIO:
            raise


class PlainDisplay:
    """Lines: the first step, every `every`th and the last, and everything else."""

    def __init__(self, stream: TextIO, every: int):
        self.stream = stream
        self.every = every
        self._is_first = True

    def __call__(self, event: Event) -> None:
        if isinstance(event, StepDone):
            shown = self.every and (self._is_first or event.step % self.every == 0 or event.step == event.steps)
            self._is_first = False
            text = step_text(event) if shown or event.skipped else ""
        else:
            text = other_text(event)
        if text:
            encoding = self.stream.encoding or "utf-8"
            with _nobody_may_watch():
                self.stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
                self.stream.flush()

    def __enter__(self) -> PlainDisplay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        return


class LiveDisplay:
    """On a terminal: a bar and the last step's numbers at the bottom, from the first step on, everything else above."""

    def __init__(self, stream: TextIO):
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(file=stream, highlight=False)
        columns = (BarColumn(16), TextColumn("{task.description}"))
        self._progress: Any = Progress(*columns, console=self._console, auto_refresh=False)
        self._task: Any = None
        self._drawn = 0.0

    def __call__(self, event: Event) -> None:
        with _nobody_may_watch():
            self._show(event)

    def _show(self, event: Event) -> None:
        if not isinstance(event, StepDone):
            self._console.print(other_text(event), markup=False)
            return
        if self._task is None:
            self._task = self._progress.add_task("", total=event.steps)
            self._progress.start()
        # Two lines, for a terminal of 80 columns.
        parts = _step_parts(event)
        text = "\n".join((" | ".join(parts[:4]), " | ".join(parts[4:])))
        self._progress.update(self._task, total=event.steps, completed=event.step, description=text)
        now = time.monotonic()
        if now - self._drawn > REDRAW_SECONDS or event.step == event.steps:
            self._drawn = now
            self._progress.refresh()

    def __enter__(self) -> LiveDisplay:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._task is not None:
            with _nobody_may_watch():
                self._progress.refresh()
                self._progress.stop()


def show_nothing(event: Event) -> None:
    """The display of all ranks but the first."""


def make_display(stream: TextIO, every: int) -> PlainDisplay | LiveDisplay:
    """The display for a stream: live on a terminal."""
    return LiveDisplay(stream) if stream.isatty() else PlainDisplay(stream, every)

"""What a command is doing, on stderr: a spinner on a terminal, a line elsewhere, for whatever takes over a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 1.0


class ProgressDisplay:
    """Shows steps that take longer than PATIENCE seconds. `verbosity` is -1 (nothing), 0, or 1 (every step, timed)."""

    def __init__(self, program: str, verbosity: int = 0):
        self.program = program
        self.verbosity = verbosity
        self._lock = threading.Lock()
        self._spinner: Any = None
        self._step: object = None
        self._text = ""

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Show `text` while the block runs, if it runs long."""
        start = time.perf_counter()
        self._text, self._step = text, object()
        timer = threading.Timer(PATIENCE, self._show, [self._step])
        timer.daemon = True
        if self.verbosity >= 0:
            timer.start()
        try:
            yield
        finally:
            timer.cancel()
            self._hide()
            if self.verbosity > 0:
                self.say(f"{text}: {time.perf_counter() - start:.2f} s")

    def detail(self, text: str) -> None:
        """Say more about the current step (which pass runs), where there is a spinner."""
        with self._lock:
            if self._spinner is not None:
                self._spinner.update(f"{self._text}: {text}")

    def note(self, text: str) -> None:
        """A line on stderr, where it was asked to say everything."""
        if self.verbosity > 0:
            self.say(text)

    def say(self, text: str) -> None:
        """A line on stderr, unless it was asked to be quiet."""
        if self.verbosity >= 0:
            sys.stderr.write(f"{self.program}: {text}\n")
            sys.stderr.flush()

    def _show(self, step: object) -> None:
        """Show a step, unless it has ended while this was about to."""
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.status import Status

        with self._lock:
            if step is not self._step:
                return
            if not sys.stderr.isatty():
                self.say(f"{self._text} ...")
                return
            self._spinner = Status(self._text, console=Console(file=sys.stderr))
            self._spinner.start()

    def _hide(self) -> None:
        with self._lock:
            if self._spinner is not None:
                self._spinner.stop()
            self._spinner = self._step = None

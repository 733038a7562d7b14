"""Passes in a child process: the parent follows which pass runs, and outlives one that crashes or hangs.

The child is `blu-opt --no-isolate`; it writes a JSON line per event to a pipe. This file imports no MLIR.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from blu.compiler.reproducer import Reproducer, attach_reproducer
from blu.errors import PassError

START_TIMEOUT = 120.0


@dataclass
class Outcome:
    """How a child ended. `steps` are the passes it announced, `started` how many of them it began."""

    returncode: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    started: int = 0
    runs: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, Any] | None = None
    death: str = ""

    @property
    def current(self) -> dict[str, Any] | None:
        """The pass that was running at the end, or None while reading the input."""
        return self.steps[self.started - 1] if self.started else None

    def take(self, event: dict[str, Any]) -> None:
        """Follow one event of the child."""
        if "steps" in event:
            self.steps, self.started = event["steps"], 0
        self.started += event.get("start", 0)
        if "run" in event:
            self.runs.append(event["run"])
        self.error = event.get("error", self.error)


class Progress:
    """The child's side: one JSON line per event. Without a pipe, nothing is written."""

    def __init__(self, descriptor: int | None):
        self.descriptor = descriptor

    def tell(self, **event: Any) -> None:
        """Write one event; a parent that has gone away is no reason to stop."""
        if self.descriptor is None:
            return
        try:
            os.write(self.descriptor, (json.dumps(event) + "\n").encode())
        except OSError:
            self.descriptor = None


def run_child(
    arguments: Sequence[str], *, stdin: IO[bytes] | None = None, pass_timeout: float | None = None
) -> Outcome:
    """Run `blu-opt` with these arguments in a child, which is killed when one pass takes over `pass_timeout` seconds."""
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "blu.compiler.cli.opt", f"--progress-fd={writing}", *arguments, "--no-isolate"]
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        try:
            child = subprocess.Popen(command, stdin=stdin, pass_fds=(writing,))
        finally:
            os.close(writing)
        return _follow(child, pipe, pass_timeout)


def _follow(child: subprocess.Popen[bytes], pipe: IO[bytes], pass_timeout: float | None) -> Outcome:
    outcome, pending = Outcome(), b""
    try:
        deadline = time.monotonic() + max(pass_timeout or 0, START_TIMEOUT)
        while True:
            wait = max(deadline - time.monotonic(), 0) if pass_timeout else None
            if not select.select([pipe], [], [], wait)[0]:
                outcome.death = f"did not end within {pass_timeout:g} s"
                break
            data = pipe.read(1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                outcome.take(json.loads(line))
            deadline = time.monotonic() + (pass_timeout or 0)
    except KeyboardInterrupt:
        outcome.death = "was interrupted"
    finally:
        _end(child, outcome)
    return outcome


def _end(child: subprocess.Popen[bytes], outcome: Outcome) -> None:
    """Collect the child; one that was given up is killed."""
    if outcome.death:
        child.kill()
    outcome.returncode = child.wait()
    if outcome.returncode < 0 and not outcome.death:
        outcome.death = f"crashed with {signal.Signals(-outcome.returncode).name}"


@dataclass(frozen=True)
class Victim:
    """What a child that died was given: the text it read, flags that its replacement needs, plugin files."""

    name: str
    text: str
    flags: tuple[str, ...] = ()
    load_pass: tuple[str, ...] = ()


def death_error(outcome: Outcome, victim: Victim, directory: Path | None, pass_timeout: float | None) -> PassError:
    """The error for a child that died, with a reproducer: the IR just before the fatal pass where that can be had."""
    current = outcome.current
    if current is None:
        return PassError(f"MLIR {outcome.death} while reading {victim.name}")
    level = f" at level '{current['level']}'" if current["level"] else ""
    message = f"pass '{current['name']}'{level} {outcome.death}"
    error = PassError(message, pass_name=current["name"], level=current["level"])
    before = outcome.steps[: outcome.started - 1]
    text = _text_after(before, victim, pass_timeout) if before else victim.text
    left = outcome.steps[outcome.started - 1 :] if text is not None else outcome.steps
    pipeline = ",".join(step["text"] for step in left)
    header = Reproducer(pipeline, message, victim.load_pass).header()
    stem = f"{current['number']:03d}-{current['name']}"
    return attach_reproducer(error, header + (victim.text if text is None else text), stem, directory)


def _text_after(steps: list[dict[str, Any]], victim: Victim, pass_timeout: float | None) -> str | None:
    """The IR after those passes, from one more child; None where that one fails as well."""
    with tempfile.TemporaryDirectory(prefix="blu-") as folder:
        source, result = Path(folder, "input.mlir"), Path(folder, "result.mlir")
        source.write_text(victim.text)
        pipeline = ",".join(step["text"] for step in steps)
        plugins = [f"--load-pass={path}" for path in victim.load_pass]
        flags = [f"--pass-pipeline={pipeline}", "--mlir-print-debuginfo", *victim.flags, *plugins, "-o", str(result)]
        outcome = run_child([str(source), *flags], pass_timeout=pass_timeout or START_TIMEOUT)
        return result.read_text() if outcome.returncode == 0 and not outcome.death else None

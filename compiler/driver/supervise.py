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
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from blu.compiler.driver.reproducer import Reproducer, attach_reproducer
from blu.dataclass import dataclass, field
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
    is_finished: bool = False

    @property
    def current(self) -> dict[str, Any] | None:
        """The pass that was running at the end, or None while reading the input."""
        return self.steps[self.started - 1] if self.started else None

    def take(self, event: dict[str, Any]) -> None:
        """Follow one event of the child."""
        if "steps" in event:
            self.steps, self.started, self.is_finished = event["steps"], 0, False
        self.is_finished = event.get("finished", self.is_finished)
        self.started += event.get("start", 0)
        if "run" in event:
            self.runs.append(event["run"])
        self.error = event.get("error", self.error)


class ProgressPipe:
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
    arguments: Sequence[str], *, command: str = "opt", stdin: IO[bytes] | None = None, pass_timeout: float | None = None
) -> Outcome:
    """Run `blu-opt` (or another command) in a child, killed when one pass takes longer than `pass_timeout` seconds.

    Control-C is for this process: it kills the child, and raises KeyboardInterrupt that names the pass.
    """
    reading, writing = os.pipe()
    flags = (f"--progress-fd={writing}", *arguments, "--no-isolate")
    # -P: a file in the current directory must not take the place of a module.
    words = [sys.executable, "-P", "-m", f"blu.compiler.cli.{command}", *flags]
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # which the child inherits
        try:
            child = subprocess.Popen(words, stdin=stdin, pass_fds=(writing,))
        finally:
            os.close(writing)
        return _follow(child, pipe, pass_timeout, before)


def _follow(
    child: subprocess.Popen[bytes], pipe: IO[bytes], pass_timeout: float | None, unblocked: set[int | signal.Signals]
) -> Outcome:
    outcome, pending = Outcome(), b""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, unblocked)
        while True:
            limit = _limit(outcome, pass_timeout)
            if not select.select([pipe], [], [], limit)[0]:
                outcome.death = f"did not end within {limit:g} s"
                break
            data = pipe.read(1 << 16)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                outcome.take(json.loads(line))
    except KeyboardInterrupt:
        outcome.death = "was interrupted"
        raise KeyboardInterrupt(f"in pass '{outcome.current['name']}'" if outcome.current else "") from None
    finally:
        _end(child, outcome)
    return outcome


def _limit(outcome: Outcome, pass_timeout: float | None) -> float | None:
    """Seconds to wait for the next event: a pass has its own limit, reading at least START_TIMEOUT, writing none."""
    if not pass_timeout or outcome.is_finished:
        return None
    return pass_timeout if outcome.current is not None else max(pass_timeout, START_TIMEOUT)


def _end(child: subprocess.Popen[bytes], outcome: Outcome) -> None:
    """Collect the child; one that was given up is killed."""
    if outcome.death:
        child.kill()
    outcome.returncode = child.wait()
    if outcome.returncode < 0 and not outcome.death:
        outcome.death = f"crashed with {signal.Signals(-outcome.returncode).name}"


@dataclass(frozen=True)
class Victim:
    """What a child that died was given: the IR it read, flags that its replacement needs, plugin files.

    `location` is where the file begins, for IR that comes from one.
    """

    name: str
    data: bytes
    flags: tuple[str, ...] = ()
    load_pass: tuple[str, ...] = ()
    location: str | None = None


def death_error(outcome: Outcome, victim: Victim, directory: Path | None, pass_timeout: float | None) -> PassError:
    """The error for a child that died, with a reproducer: the IR just before the fatal pass where that can be had."""
    current = outcome.current
    if current is None or outcome.is_finished:
        doing = "writing the result of" if outcome.is_finished else "reading"
        return PassError(f"MLIR {outcome.death} while {doing} {victim.name}", location=victim.location)
    level = f" at level '{current['level']}'" if current["level"] else ""
    message = f"pass '{current['name']}'{level} {outcome.death}"
    error = PassError(message, location=victim.location, pass_name=current["name"], level=current["level"])
    text, left = _cut(outcome, victim, pass_timeout)
    pipeline = ",".join(step["text"] for step in left)
    header = Reproducer(pipeline, message, victim.load_pass).header()
    return attach_reproducer(error, header + text, f"{current['number']:03d}-{current['name']}", directory)


def _cut(outcome: Outcome, victim: Victim, pass_timeout: float | None) -> tuple[str, list[dict[str, Any]]]:
    """The IR before the fatal pass and the passes from there on; the input and all passes where that fails."""
    done = outcome.steps[: outcome.started - 1]
    text = victim.data.decode(errors="replace")
    if not done and not victim.data.startswith(b"ML\xefR"):
        return text, outcome.steps
    after = _text_after(done, victim, pass_timeout)
    return (text, outcome.steps) if after is None else (after, outcome.steps[outcome.started - 1 :])


def _text_after(steps: list[dict[str, Any]], victim: Victim, pass_timeout: float | None) -> str | None:
    """The IR after those passes, from one more child; None where that one fails as well."""
    with tempfile.TemporaryDirectory(prefix="blu-") as folder:
        source, result = Path(folder, "input.mlir"), Path(folder, "result.mlir")
        source.write_bytes(victim.data)
        pipeline = ",".join(step["text"] for step in steps)
        plugins = [f"--load-pass={path}" for path in victim.load_pass]
        flags = [f"--pass-pipeline={pipeline}", "--mlir-print-debuginfo", *victim.flags, *plugins, "-o", str(result)]
        outcome = run_child([str(source), *flags], pass_timeout=pass_timeout or START_TIMEOUT)
        return result.read_text() if outcome.returncode == 0 and not outcome.death else None

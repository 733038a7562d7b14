"""A command over a file of IR runs itself in a child process, and outlives it: MLIR ends the process on some input."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from blu.compiler.driver.supervise import Victim, death_error, run_child


def run_supervised(
    command: str,
    words: Sequence[str],
    source: str,
    *,
    pass_timeout: float | None = None,
    reproducer_dir: Path | None = None,
    load_pass: Sequence[str] = (),
    flags: tuple[str, ...] = (),
) -> int:
    """Run `command` ("opt", "compile") with these words in a child; its exit code.

    `source` is the file of IR ("-" for stdin). Raises PassError for what has killed the child, if anything did; `flags`
    are those that reading the file again needs.
    """
    with tempfile.TemporaryFile() as copy:
        if source == "-":
            copy.write(sys.stdin.buffer.read())
            copy.seek(0)
        sys.stdout.flush()  # what this process has to say comes before what the child says
        sys.stderr.flush()
        outcome = run_child(words, command=command, stdin=copy, pass_timeout=pass_timeout)
        if not outcome.death:
            return outcome.returncode
        copy.seek(0)
        data = copy.read() if source == "-" else Path(source).read_bytes()
        name = "<stdin>" if source == "-" else source
        victim = Victim(name, data, flags, tuple(load_pass), f"{name}:1:1")
        raise death_error(outcome, victim, reproducer_dir, pass_timeout)

"""Starts the ranks of tests, each of which runs a module of `tests.support.ranks`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blu.runtime.ranks.mpi import wheel_file
from tests.support.folders import ROOT

PATIENCE = 60.0
MARK = "TEST_OF_RANKS"
"""A variable that all processes of a test have, by which those that it leaves behind are found."""


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and the command lines of processes that it left behind."""

    code: int
    out: str
    err: str
    orphans: list[str]


def mpiexec() -> str:
    """The program that starts ranks of MPI."""
    found = wheel_file("mpiexec") or shutil.which("mpiexec")
    assert found, "the tests of ranks need mpiexec: pip install 'blu[test]'"
    return str(found)


def run_ranks(size: int, module: str, *words: str, flags: Sequence[str] = (), **variables: str) -> Outcome:
    """Let `size` ranks of MPI run `python -m tests.support.ranks.<module>` to the end; `flags` are for mpiexec."""
    command = [mpiexec(), *flags, "-n", str(size), sys.executable, "-m", f"tests.support.ranks.{module}", *words]
    return run_command(command, variables)


def launch_ranks(size: int, *command: str, flags: Mapping[str, object] | None = None, **variables: str) -> Outcome:
    """Let `size` ranks that Blu launches run a module of `tests.support.ranks`."""
    return run_command(launching(size, *command, flags=flags), variables)


def launching(size: int, module: str, *words: str, flags: Mapping[str, object] | None = None) -> list[str]:
    """The command that launches ranks; `flags` are fields of `RankLaunch`."""
    given = "".join(f", {name}={value!r}" for name, value in (flags or {}).items())
    child = [sys.executable, "-m", f"tests.support.ranks.{module}", *words]
    code = f"import sys; from blu.runtime.ranks.launch import *; sys.exit(launch(RankLaunch({child!r}, {size}{given})))"
    return [sys.executable, "-c", code]


def start_command(command: list[str], variables: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Start a command in the repository's root, in a process group of its own."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})}
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    environment[MARK] = environment.get(MARK, str(time.monotonic_ns()))
    return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, start_new_session=True, **streams)


def run_command(command: list[str], variables: Mapping[str, str] | None = None, patience: float = PATIENCE) -> Outcome:
    """Run a command to its end; the test fails where that does not come."""
    mark = str(time.monotonic_ns())
    process = start_command(command, {**(variables or {}), MARK: mark})
    try:
        out, err = process.communicate(timeout=patience)
        return Outcome(process.returncode, out, err, [line for _, line in marked(mark)])
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{command} did not end in {patience} s") from None
    finally:
        for number, _ in marked(mark):
            os.kill(number, signal.SIGKILL)


def marked(mark: str) -> list[tuple[int, str]]:
    """The processes that have the mark: their numbers and command lines."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append((int(folder.name), (folder / "cmdline").read_text().replace("\0", " ")))
        except OSError:
            continue
    return found

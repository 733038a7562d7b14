"""Starts the ranks of tests, each of which runs a module of `tests.support.ranks`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping

from blu.runtime.ranks.mpi import wheel_file
from tests.support.folders import ROOT

PATIENCE = 60.0


def start_ranks(
    size: int, module: str, *words: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start `size` ranks of MPI that run `python -m tests.support.ranks.<module>`, in a process group of their own."""
    mpiexec = wheel_file("mpiexec") or shutil.which("mpiexec")
    assert mpiexec, "the tests of ranks need mpiexec: pip install 'blu[test]'"
    return subprocess.Popen(
        [mpiexec, "-n", str(size), sys.executable, "-m", f"tests.support.ranks.{module}", *words],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run_ranks(
    size: int, module: str, *words: str, environment: Mapping[str, str] | None = None, patience: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """The same, to its end; the test fails where that does not come."""
    process = start_ranks(size, module, *words, environment=environment)
    try:
        out, err = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"{size} ranks of {module} did not end in {patience} s:\n{out}\n{err}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)

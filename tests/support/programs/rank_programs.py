"""Scripts that several ranks run together under mpiexec."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def run_ranks(script: Path, count: int, *arguments: str, timeout: float = 240) -> list[dict[str, Any]]:
    """What each of `count` ranks printed behind "RANK ", by rank."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    command = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(count), sys.executable, str(script)]
    root = str(Path(__file__).parents[3])  # scripts import what others have as `tests.`
    environment = {**os.environ, "BLU_NUM_THREADS": "1", "PYTHONPATH": root}
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=timeout, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line.partition("RANK ")[2]) for line in done.stdout.splitlines() if "RANK " in line]
    return sorted(found, key=lambda item: item["rank"])

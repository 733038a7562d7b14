"""How benchmarks start ranks: in processes that can import this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 900


def importable() -> dict[str, str]:
    """The environment, with this checkout to import from."""
    paths = [text for text in (os.environ.get("PYTHONPATH", ""), str(ROOT)) if text]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def run_on_ranks(
    program: list[str], ranks: int, log: Path, device: str = "cuda", seconds: float = SECONDS
) -> int | None:
    """The exit code of a program's ranks, each with a GPU on "cuda"; None if they had to be ended after so many
    seconds. What they say goes into a file."""
    words = [sys.executable, "-m", "blu", "run", "--nproc", str(ranks), "--device", device, *program]
    with log.open("w") as out, subprocess.Popen(words, env=importable(), stdout=out, stderr=out) as process:
        try:
            return process.wait(min(seconds, SECONDS))
        except subprocess.TimeoutExpired:
            process.terminate()  # the launcher ends its ranks
            return None

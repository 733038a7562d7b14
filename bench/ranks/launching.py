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


def run_on_ranks(program: list[str], ranks: int, log: Path, device: str = "cuda") -> int:
    """The exit code of a program's ranks, each with a GPU on "cuda"; what they say goes into a file."""
    words = [sys.executable, "-m", "blu", "run", "--nproc", str(ranks), "--device", device, *program]
    with log.open("w") as out:
        return subprocess.run(words, env=importable(), stdout=out, stderr=subprocess.STDOUT, timeout=SECONDS).returncode

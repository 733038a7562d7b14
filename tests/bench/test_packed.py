"""`bench/gpu/packed.py`: problems that are compiled in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.folders import ROOT

SCRIPT = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [{root!r}, {gpu!r}]
import packed

FOLDER = Path({folder!r})
NAMES = ("first one", "ill", "dies", "last")
PROBLEMS = [SimpleNamespace(name=name, path=FOLDER / name) for name in NAMES]

def pack(problem):
    if problem.name == "ill":
        raise ValueError("no such kernel")
    if problem.name == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    problem.path.write_text("")
    return f"{{problem.name}}: wgmma"

sys.exit(packed.run("", FOLDER, PROBLEMS, pack, None, None))
"""


def test_a_process_that_dies_while_it_compiles_takes_one_problem_along(tmp_path: Path) -> None:
    folder, script = tmp_path / "packed", tmp_path / "problems.py"
    script.write_text(SCRIPT.format(root=str(ROOT), gpu=str(ROOT / "bench" / "gpu"), folder=str(folder)))
    command = [sys.executable, str(script), "--pack", "--workers", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1 and not ended.stderr
    assert ended.stdout.splitlines() == [
        "first one: wgmma",
        "ill: FAILED, ValueError: no such kernel",
        "dies: FAILED, the process ended with -11: ",
        "last: wgmma",
    ]
    assert sorted(item.name for item in folder.iterdir()) == ["first one", "last"]

"""Style and types: ruff on everything that is Python, pyright on the package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("frontend", "dialects", "passes", "compiler", "runtime")


def test_ruff_has_no_complaints() -> None:
    finished = subprocess.run([sys.executable, "-m", "ruff", "check", "."], cwd=ROOT, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pyright_finds_no_mistakes() -> None:
    _link_package()
    command = [sys.executable, "-m", "pyright", "--project", ".", "--outputjson", "--pythonpath", sys.executable]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert finished.stdout.startswith("{"), finished.stdout + finished.stderr
    report = json.loads(finished.stdout)
    wrong = [
        f"{Path(item['file']).resolve()}:{item['range']['start']['line'] + 1}: {item['message']}"
        for item in report["generalDiagnostics"]
        if item["severity"] == "error"
    ]
    assert not wrong, "\n".join(wrong)
    assert report["summary"]["filesAnalyzed"] > 200, "pyright did not follow the links"


def _link_package() -> None:
    """The package as one folder of links, which is how pyright reads it (see pyproject.toml)."""
    package = ROOT / "build" / "pyright" / "blu"
    package.mkdir(parents=True, exist_ok=True)
    for target in [*(ROOT / "blu").glob("*.py*"), ROOT / "blu" / "plan", *(ROOT / name for name in FOLDERS)]:
        link = package / target.name
        if not link.exists():
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(target, package))

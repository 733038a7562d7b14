"""The lit tests, run as part of pytest: each must pass, none may be skipped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "lit_tests"
LIT = [sys.executable, "-c", "from lit.main import main; main()"]


@pytest.mark.timeout(1200)
def test_all_lit_tests_pass(tmp_path):
    report = tmp_path / "report.json"
    command = [*LIT, str(FOLDER), "-v", "-j", "2", "-o", str(report), "--timeout", "0"]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=1100)
    assert report.exists(), finished.stderr
    tests = json.loads(report.read_text())["tests"]
    wrong = [f"{test['code']}: {test['name']}" for test in tests if test["code"] != "PASS"]
    assert not wrong, "\n".join([*wrong, finished.stdout])
    assert len(tests) == len([path for path in FOLDER.rglob("*.mlir") if "inputs" not in path.parts])

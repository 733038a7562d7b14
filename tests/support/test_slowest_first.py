"""The order of tests under `-n`: each runs once, slow ones first, and what took long is written down."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import slowest_first
from tests.support.slowest_first import ordered

NAMES = [f"test_{letter}" for letter in "abcdefgh"]


def test_every_process_begins_with_its_slow_tests_and_goes_on_in_order() -> None:
    seconds = {"test_c": 5.0, "test_h": 50.0, "test_f": 7.0, "test_gone": 99.0}
    assert ordered(NAMES, seconds, 2) == [
        *["test_h", "test_c", "test_a", "test_b"],
        *["test_f", "test_d", "test_e", "test_g"],
    ]


def test_what_shares_a_fixture_with_a_slow_test_stays_with_it() -> None:
    together = dict.fromkeys(("test_b", "test_c", "test_g"), "one file") | {"test_h": "another"}
    assert ordered(NAMES, {"test_c": 5.0, "test_f": 7.0}, 2, together) == [
        *["test_f", "test_a", "test_d", "test_e"],
        *["test_b", "test_c", "test_g", "test_h"],
    ]


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 11])
@pytest.mark.parametrize("slow", [0, 1, 3, 8])
def test_every_test_is_in_the_order_once(workers: int, slow: int) -> None:
    for together in ({}, dict.fromkeys(NAMES[2:5], "file")):
        found = ordered(NAMES, dict.fromkeys(NAMES[:slow], 9.0), workers, together)
        assert sorted(found) == NAMES


TESTS = """
import pytest

@pytest.fixture(scope="module")
def shared(): print("made")

@pytest.mark.parametrize("number", range(4))
def test_quick(number): pass

def test_slow(shared): pass

def test_beside(): pass

def test_shared(shared): pass
"""
CONFTEST = """
import pytest

pytest_plugins = ("support.slowest_first",)

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    report.duration = 9.0 if item.name == "test_slow" else 0.1
    return report
"""


def test_slow_tests_are_written_down_and_run_first_then(tmp_path: Path) -> None:
    plugin = Path(slowest_first.__file__).read_text()
    (tmp_path / "support").mkdir()
    (tmp_path / "support" / "slowest_first.py").write_text(plugin)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "durations.json"
    file.write_text('{"test_gone.py::test": 7.0, "test_it.py::test_quick[1]": 3.0}')
    assert "PASSED" in run(tmp_path, "--update-durations")
    assert list(json.loads(file.read_text())) == ["test_it.py::test_slow"], "files that are gone are forgotten"
    lines = [line for line in run(tmp_path, "-n", "2").splitlines() if "PASSED" in line]
    slow = next(line for line in lines if "test_slow" in line)
    of_its_process = [line for line in lines if line[:5] == slow[:5]]
    assert slow == of_its_process[0], f"its process does not begin with it: {lines}"
    assert "test_shared" in of_its_process[1], f"what they share is made again: {lines}"


def run(folder: Path, *words: str) -> str:
    """What pytest says, a line for each test."""
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "--rootdir", str(folder), *words, "."]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder)
    assert "7 passed" in done.stdout, done.stdout + done.stderr
    return done.stdout

"""The suite ends with a report whatever a test does, if it hangs in native code and keeps Python's lock as well."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import watchdog

HANGS = """
import ctypes, pytest, time

def test_before(): assert True

@pytest.mark.timeout(1)
def test_native(): # a mutex that its own thread waits for; PyDLL keeps Python's lock meanwhile
    mutex = ctypes.create_string_buffer(256)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)

@pytest.mark.timeout(1)
def test_python():
    while True: time.sleep(0.1)

def test_after(): assert True
"""


def run_tests(folder: Path, *words: str) -> tuple[int, str]:
    """pytest's exit status and output for the tests above."""
    (folder / "test_it.py").write_text(HANGS)
    (folder / "conftest.py").write_text(Path(watchdog.__file__).read_text())
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *words]
    command += ["--timeout-method=signal", "--watchdog-grace=1", str(folder)]
    environment = {name: text for name, text in os.environ.items() if name != "PYTEST_ADDOPTS"}  # meant for this run
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder, env=environment)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.timeout(150)
def test_a_test_that_hangs_in_native_code_is_reported_and_the_others_run(tmp_path: Path) -> None:
    start = time.monotonic()
    status, output = run_tests(tmp_path, "-n", "1")
    assert status == 1 and time.monotonic() - start < 100
    assert "2 failed, 2 passed" in output, output
    assert "crashed while running" in output and "in test_native" in output
    assert "FAILED test_it.py::test_python" in output and "Timeout (>1.0s)" in output


@pytest.mark.timeout(150)
def test_without_processes_the_place_is_shown_and_the_run_ends(tmp_path: Path) -> None:
    status, output = run_tests(tmp_path)
    assert status == 1 and "in test_native" in output and "Timeout (0:00:02)!" in output


def test_every_test_of_this_suite_is_watched(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin(watchdog.__name__) and watchdog.limit_of(request.node) > 0

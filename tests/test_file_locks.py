"""Locks on files: one holder at a time, for as long as it lives."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from blu.file_locks import holding_lock

HOLD = """
import sys, pathlib
from blu.file_locks import holding_lock
with holding_lock(pathlib.Path(sys.argv[1]), 0):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_thread_holds_a_lock_at_a_time(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def hold() -> None:
        with holding_lock(tmp_path / "lock", 60):
            inside.append(1)
            most.append(len(inside))
            inside.pop()

    threads = [threading.Thread(target=hold) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def test_the_lock_of_a_process_ends_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout and other.stdout.readline() == "held\n"
    with pytest.raises(TimeoutError, match="another process has its lock"), holding_lock(path, 0.1):
        pass
    other.kill()
    other.communicate()
    with holding_lock(path, 0):
        assert path.is_file()


def test_a_lock_is_free_after_an_error_and_no_link_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(KeyError), holding_lock(path, 0):
        raise KeyError
    with holding_lock(path, 0):
        pass
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="link"), holding_lock(tmp_path / "link", 0):
        pass

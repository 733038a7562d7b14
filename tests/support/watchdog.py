"""Ends a process of tests that hangs in native code, where neither signals nor threads of Python get a turn.

pytest-timeout interrupts a test that runs Python. One that hangs in a kernel or a pass while it holds Python's lock is
not interrupted; a thread of faulthandler's, which needs no lock, prints where every thread is and ends the process some
seconds later. Under `-n` the test is reported as failed then, and the others go on in another process.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from collections.abc import Generator
from typing import Any

import pytest

_STDERR = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "seconds after a test's timeout at which its process is ended, if the test still runs"
    parser.addoption("--watchdog-grace", type=float, default=30.0, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Keep the standard error of the terminal: while a test runs, its own is captured."""
    config.stash[_STDERR] = os.dup(sys.__stderr__.fileno()) if sys.__stderr__ else 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch one test, with its fixtures."""
    limit = limit_of(item)
    if limit > 0:
        seconds = limit + item.config.getoption("--watchdog-grace")
        faulthandler.dump_traceback_later(seconds, exit=True, file=item.config.stash[_STDERR])
    try:
        return (yield)
    finally:
        faulthandler.cancel_dump_traceback_later()


def limit_of(item: pytest.Item) -> float:
    """The seconds that a test may take; 0 is any time. As pytest-timeout reads them."""
    marker = item.get_closest_marker("timeout")
    if marker is not None:
        return float(marker.args[0] if marker.args else marker.kwargs["timeout"])
    given = item.config.getoption("timeout")
    return float(given if given is not None else item.config.getini("timeout") or 0)

"""Fixtures of all tests."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Iterator

import pytest

from tests.support.golden_text import Golden
from tests.support.programs.cuda_programs import gpu  # noqa: F401 (a fixture)
from tests.support.training.training_runs import trial  # noqa: F401 (a fixture)

pytest_plugins = ("tests.support.slowest_first", "tests.support.watchdog")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write tests/golden anew from what the code gives")
    parser.addoption("--update-kernels", action="store_true", help="record anew what kernels are compiled to")


def pytest_configure(config: pytest.Config) -> None:
    """A shell's background jobs ignore Ctrl-C, those of nohup SIGHUP, and so would commands that tests interrupt.

    Cycles are looked for less often than by default: there are six thousand tests, which stay.
    """
    gc.set_threshold(10_000, 20, 20)
    if config.getoption("--update-kernels"):
        from tests.support.kernels import spills  # which imports all of the compiler

        spills.recording()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there now stays: cycles are looked for among what tests make."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Golden files, to compare text with."""
    return Golden(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def unload_plugins() -> Iterator[None]:
    """Passes that a test loads from files do not reach the next test."""
    yield
    registry = sys.modules.get("blu.passes.framework.registry")
    if registry is not None:
        registry.unload_pass_files()

"""How often Python looks for cycles while Blu imports and compiles, and afterwards."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest

from blu.collecting import ALLOCATIONS, collecting_rarely


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    """Those of a user's program, for the test."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_cycles_are_looked_for_rarely_inside_and_as_before_outside() -> None:
    with collecting_rarely():
        with collecting_rarely():
            assert gc.get_threshold() == (ALLOCATIONS, 10, 10)
        assert gc.get_threshold() == (ALLOCATIONS, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)
    with pytest.raises(KeyError), collecting_rarely():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [0, ALLOCATIONS + 1])
def test_what_is_rarer_stays(threshold: int) -> None:
    gc.set_threshold(threshold, 5, 5)
    with collecting_rarely():
        assert gc.get_threshold() == (threshold, 5, 5)
    assert gc.get_threshold() == (threshold, 5, 5)


def test_what_is_set_inside_stays() -> None:
    with collecting_rarely():
        gc.set_threshold(300, 10, 10)
    assert gc.get_threshold() == (300, 10, 10)


def test_the_last_thread_that_leaves_puts_the_threshold_back() -> None:
    is_inside, may_leave = threading.Event(), threading.Event()

    def stay() -> None:
        with collecting_rarely():
            is_inside.set()
            may_leave.wait(60)

    thread = threading.Thread(target=stay)
    with collecting_rarely():
        thread.start()
        assert is_inside.wait(60)
    assert gc.get_threshold() == (ALLOCATIONS, 10, 10)
    may_leave.set()
    thread.join()
    assert gc.get_threshold() == (700, 10, 10)

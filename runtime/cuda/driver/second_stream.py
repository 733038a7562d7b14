"""The stream beside Blu's own, on which ranks exchange data while kernels run.

    second.begin()              what is enqueued here from now on waits for what is enqueued on ours
    ... second.handle           another library enqueues its work
    second.mark(0)              this was piece 0
    second.join(0)              what is enqueued on ours from now on waits for piece 0

In a capture the second stream is a branch of the graph. Each piece that was marked is joined within the same run, so
whoever waits for our stream has waited for both.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blu.runtime.cuda.driver.driver import Driver


class SecondStream:
    """It is opened at the first use, and lives as long as the driver, as its events do: all programs use the same."""

    def __init__(self, driver: Driver):
        self._driver = driver
        self._ends: list[Any] = []

    @cached_property
    def handle(self) -> int:
        """The stream's."""
        return self._driver.open_stream()

    @cached_property
    def _start(self) -> Any:
        return self._driver.event(is_timed=False)

    def begin(self) -> None:
        """Let what is enqueued here wait for what is enqueued on ours."""
        # A wait is for the event's latest record, so that one event serves for all.
        self._driver.record_on(self._driver.working_stream, self._start)
        self._driver.let_wait(self.handle, self._start)

    def mark(self, number: int) -> None:
        """Give what is enqueued here so far a number, by which it is joined."""
        while len(self._ends) <= number:
            self._ends.append(self._driver.event(is_timed=False))
        self._driver.record_on(self.handle, self._ends[number])

    def join(self, number: int) -> None:
        """Let what is enqueued on ours wait for what was given this number last."""
        self._driver.let_wait(self._driver.working_stream, self._ends[number])

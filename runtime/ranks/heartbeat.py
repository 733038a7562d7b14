"""Signs of life: each rank tells the store where it is, and ends when another is lost, whatever it is doing.

Libraries that exchange arrays say nothing about a rank that is gone: they wait. So a thread of each rank talks to the
store of rank 0, which ends all ranks when one dies, fails, or lets the others wait.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NoReturn

from blu.errors import RankError
from blu.runtime.ranks import frames
from blu.runtime.ranks.running_clock import RunningClock
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.verdicts import LOST, Position, Verdict

FLUSH_SECONDS = 1.0
"""Seconds that writing the rest of the output may take, where a thread that hangs holds it."""


class RankWatch:
    """Tells the store where this rank is; `end` is called, in a thread of the watch, when all ranks are to end.

    A step, an exchange or a phase is noted by replacing one object, which costs next to nothing.
    """

    def __init__(self, store: Store, timeout: float, end: Callable[[Verdict], None]):
        self._store = store
        self._timeout = timeout
        self._end = end
        self._interval = min(1.0, timeout / 8)
        self._clock = RunningClock(self._interval)
        self._position = Position()
        self._since = self._clock.now()
        self._is_over = threading.Event()
        self._connection = store.watched_connection()
        self._thread = threading.Thread(target=self._run, name="blu heartbeat", daemon=True)
        self._thread.start()

    @property
    def position(self) -> Position:
        """Where this rank is now."""
        return replace(self._position, age=max(0.0, self._clock.now() - self._since))

    def begin_step(self, step: int) -> None:
        """Note that a step begins, the first of which is 1."""
        self._move(replace(self._position, step=step, is_waiting=False))

    def started(self, exchange: str, line: str = "") -> None:
        """Note that an exchange was started, which is said in words, by the user's `file:line`."""
        before = self._position
        self._move(replace(before, count=before.count + 1, exchange=exchange, line=line, is_waiting=False))

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Note that this rank waits for the exchange that it started last, or for the device that does it."""
        self._move(replace(self._position, is_waiting=True))
        try:
            yield
        finally:
            self._move(replace(self._position, is_waiting=False))

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Note that this rank does something that may take long ("saving a checkpoint"), for which others may wait."""
        self._move(replace(self._position, phase=name))
        try:
            yield
        finally:
            self._move(replace(self._position, phase=""))

    def stop(self) -> None:
        """RankWatch no more: this rank is about to leave."""
        self._is_over.set()

    def give_way(self, seconds: float = 2.0) -> None:
        """Let the watch end this process, where it is about to."""
        self._thread.join(seconds)

    def close(self) -> None:
        """Drop the connection, having left."""
        self._is_over.set()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def _move(self, position: Position) -> None:
        self._position, self._since = position, self._clock.now()

    def _run(self) -> None:
        try:
            verdict = self._beat()
        except TimeoutError:
            verdict = self._lost(f"has said nothing for {self._timeout:g} s")
        except (OSError, RankError) as error:
            verdict = self._lost(f"is gone ({error})")
        if verdict is not None and not self._is_over.is_set():
            self._end(verdict)

    def _lost(self, what: str) -> Verdict:
        host, port = self._store.address
        return Verdict(f"rank 0, which keeps the store at {host}:{port}, {what}", (0,))

    def _beat(self) -> Verdict | None:
        """Tell where this rank is, again and again, until the store says that all ranks end."""
        self._connection.settimeout(self._timeout)
        answers = select.poll()
        answers.register(self._connection, select.POLLIN)
        heard = self._clock.look()
        while not self._is_over.is_set():
            with contextlib.suppress(OSError):  # whoever is gone may have said why, which is still to be read
                self._connection.sendall(frames.encode({"do": "beat", "position": self.position.to_json()}))
            end = time.monotonic() + self._interval
            while answers.poll(max(0.0, end - time.monotonic()) * 1e3):
                header, _ = frames.receive(self._connection)
                heard = self._clock.look()
                if header.get("do") == "end":
                    return Verdict.parse(header)
            if self._clock.look() - heard > self._timeout:
                raise TimeoutError
        return None


_ENDING = threading.Lock()
"""Held by the thread that ends this process: one reason is said."""


def end_process(verdict: Verdict, who: str) -> NoReturn:
    """Say why, and end this process at once, whatever its other threads are doing.

    What is being exchanged is not given up before: the program would go on with numbers that are worth nothing.
    """
    _ENDING.acquire()
    with contextlib.suppress(OSError):
        os.write(2, f"blu: {verdict.message}. So {who} ends\n".encode())
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(FLUSH_SECONDS)
    os._exit(LOST)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()

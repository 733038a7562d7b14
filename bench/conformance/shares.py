"""Samples in an order that tells most first, divided between processes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

MANY = 100
LOST = 3
"""The exit code of a process whose GPU answers nothing more."""


@dataclass(frozen=True)
class Place:
    """A sample: its entry, the entry's full name and that in the table of spellings, and which of its samples it is."""

    entry: Any = field(repr=False)
    full: str
    name: str
    number: int
    sample: Any = field(repr=False)


def places_of(names: Sequence[str], every: int, of_complex: bool = False) -> list[Place]:
    """The first samples of all entries, then the second, and so on; of entries with more than a hundred each nth."""
    from bench.conformance.entries import entries_of, samples_of
    from bench.conformance.spelling import SPELLINGS

    found = []
    for name in dict.fromkeys(names):
        for entry in entries_of(name) if name in SPELLINGS else ():
            full = f"{name}.{entry.variant_test_name}" if entry.variant_test_name else name
            samples = samples_of(entry, of_complex)
            taken = range(0, len(samples), every if len(samples) > MANY else 1)
            found += [(rank, Place(entry, full, name, at, samples[at])) for rank, at in enumerate(taken)]
    return [place for _, place in sorted(found, key=lambda item: item[0])]


def own_share(places: Sequence[Place], share: str, after: int) -> list[Place]:
    """Those of share "2/14", the first `after` of them left out."""
    number, shares = (int(word) for word in share.split("/"))
    return list(places[number::shares])[after:]


def outcomes_of(words: Sequence[str], jobs: int, seconds: float) -> Iterator[dict[str, Any]]:
    """What processes of a share each print, one outcome a line, until the time is over."""
    found: list[dict[str, Any]] = []
    deadline = time.monotonic() + seconds
    threads = [
        threading.Thread(target=_run_share, args=(words, f"{job}/{jobs}", deadline, found)) for job in range(jobs)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield from found


def _run_share(words: Sequence[str], share: str, deadline: float, found: list[dict[str, Any]]) -> None:
    """A process of a share, and one more for what is left each time its GPU is lost."""
    taken, code = 0, LOST
    while code == LOST and time.monotonic() < deadline:
        code, outcomes = _run_process([*words, "--share", share, "--after", str(taken)], deadline)
        taken += len(outcomes)
        found += outcomes
    if code not in (0, None):
        found.append({"entry": f"share {share}", "wrong": {"stage": "process", "what": f"exit code {code}"}})


def _run_process(words: Sequence[str], deadline: float) -> tuple[int | None, list[dict[str, Any]]]:
    """Its exit code, None where the time was over, and its lines."""
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True)
    stopper = threading.Timer(max(deadline - time.monotonic(), 0), process.kill)
    stopper.start()
    assert process.stdout is not None
    outcomes = [json.loads(line) for line in process.stdout if line.endswith("}\n")]
    code = process.wait()
    stopper.cancel()
    return (None if time.monotonic() >= deadline else code), outcomes

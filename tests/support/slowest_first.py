"""Under `-n`, slow tests run first and processes that are done take over work of others, so that none is left alone.

`tests/data/durations.json` says how long tests take that take long. `pytest --update-durations` writes it anew for the
tests that run then; only the order depends on it, so that it need not be exact.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[1] / "data" / "durations.json"
SLOW = 2.0
"""Seconds from which on a test is worth its place at the beginning, away from the fixtures that it shares."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-durations", action="store_true", help=f"write {FILE.name} anew for the tests that run")


def pytest_configure(config: pytest.Config) -> None:
    """Record durations where all reports come together."""
    if config.getoption("--update-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config.rootpath))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests for the processes that share them; one process runs them in the order of the files."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers < 2:
        return
    by_name = {item.nodeid: item for item in items}
    assert len(by_name) == len(items)
    modules = {name: _module_of(name) for name, item in by_name.items() if takes_fixtures_of_its_module(item)}
    items[:] = [by_name[name] for name in ordered(list(by_name), durations(), workers, modules)]


def takes_fixtures_of_its_module(item: pytest.Item) -> bool:
    """Whether a test takes something that is made once for tests of its module that follow each other."""
    taken = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(definitions[-1].scope == "module" for definitions in taken.values())


def _module_of(name: str) -> str:
    return name.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Processes that are done take over tests of others, unless another way was asked for (`--dist`)."""
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log) if config.getoption("dist") == "load" else None


def durations() -> dict[str, float]:
    """Seconds of the tests that take long."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def ordered(
    names: Sequence[str], seconds: Mapping[str, float], workers: int, together: Mapping[str, str] | None = None
) -> list[str]:
    """Names for `workers`, each of which begins with an equal share of this list: the slow ones first in each share.

    The others stay in their order, since neighbours share fixtures. Of those that are `together` under one word, one
    that is slow takes the others along: what they share would be made again for them.
    """
    groups: dict[str, list[str]] = defaultdict(list)
    for name in names:
        groups[(together or {}).get(name, name)].append(name)
    costs = {word: sum(seconds.get(name, 0.0) for name in group) for word, group in groups.items()}
    slow = sorted((word for word in groups if costs[word]), key=lambda word: (-costs[word], word))
    quick = [name for name in names if not costs[(together or {}).get(name, name)]]
    result: list[str] = []
    for worker in range(workers):
        first = [name for word in slow[worker::workers] for name in groups[word]]
        share = len(names) * (worker + 1) // workers - len(names) * worker // workers
        count = len(quick) if worker == workers - 1 else max(0, share - len(first))
        result += [*first, *quick[:count]]
        quick = quick[count:]
    return result


class _Recorder:
    """Adds up what each test takes, with its fixtures, and writes it down at the end."""

    def __init__(self, root: Path):
        self.root = root
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        found = {name: round(seconds, 1) for name, seconds in self.seconds.items() if seconds >= SLOW}
        known = {name: seconds for name, seconds in durations().items() if name not in self.seconds}
        there = {name: seconds for name, seconds in known.items() if (self.root / name.partition("::")[0]).exists()}
        FILE.parent.mkdir(exist_ok=True)
        FILE.write_text(json.dumps(there | found, indent=1, sort_keys=True) + "\n")

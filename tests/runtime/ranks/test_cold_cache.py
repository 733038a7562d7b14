"""Ranks that start at once with an empty cache that they share: one of them compiles, or all do, and all are right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from blu.compiler.cache import Cache
from tests.support.folders import TESTS
from tests.support.programs.rank_programs import run_ranks

SCRIPT = TESTS / "support" / "ranks" / "compiling.py"
RANKS = 4


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "cache"
    folder.mkdir()
    monkeypatch.setenv("BLU_CACHE_DIR", str(folder))
    yield folder
    names = [path.name for path in folder.rglob("*") if path.is_file() and path.parent.name != "locks"]
    assert not [name for name in names if name.startswith(".") or name.endswith(".tmp")], "what was half written"


def compiled_by(cache: Path, readers: int = 0) -> int:
    """How many ranks compile the program that all ask for; each has the right result, and the cache the program."""
    found = run_ranks(SCRIPT, RANKS, str(readers))
    assert [item["rank"] for item in found] == list(range(RANKS))
    assert all(item["error"] < 1e-13 for item in found), found
    assert len(Cache(cache).entries()) == 1
    return sum(item["found"] == [False] for item in found)


@pytest.mark.slow
def test_of_ranks_that_start_at_once_one_compiles(cache: Path) -> None:
    assert compiled_by(cache) == 1
    assert compiled_by(cache) == 0


@pytest.mark.slow
def test_where_locks_do_not_work_all_compile_and_write_at_once(cache: Path) -> None:
    """As on some network file systems: no rank reads what another has half written."""
    (cache / "locks").write_text("no folder")
    assert 1 <= compiled_by(cache, readers=2) <= RANKS - 2
    assert compiled_by(cache) == 0

"""The object of the thread pool is made while passes are imported, once for all programs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import blu
from blu.compiler.codegen import ahead
from blu.compiler.codegen.worker_pool import WorkerPool
from blu.dialects.targets.cpu import CPU_TARGETS
from blu.errors import PassError

TARGET = CPU_TARGETS["x86-64-v3"]
ELF = b"\x7fELF"


@pytest.fixture(autouse=True)
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """An empty cache, nothing begun, and how often workers are asked for what."""
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(ahead, "_begun", {})
    counts: Counter[str] = Counter()
    ask = WorkerPool.ask

    def count(pool: WorkerPool, kind: str, target: dict[str, Any], text: str) -> bytes:
        counts[kind] += 1
        return ask(pool, kind, target, text)

    monkeypatch.setattr(WorkerPool, "ask", count)
    return counts


def test_what_has_begun_is_waited_for_and_not_made_again(asked: Counter[str]) -> None:
    for _ in range(2):
        ahead.begin(TARGET)
    assert len(ahead._begun) == 1
    _, make = ahead.thread_pool(TARGET)
    assert make().startswith(ELF) and asked["llvm"] == 1
    assert not ahead._begun
    assert make().startswith(ELF) and asked["llvm"] == 2


def test_a_program_takes_what_has_begun_and_the_next_finds_it_in_the_cache(asked: Counter[str]) -> None:
    for count in (3, 4):
        blu.jit(lambda x: x + 1)(np.ones(count, np.float32))
    assert asked["llvm"] == 1 and not ahead._begun


def test_a_first_program_is_traced_while_the_pool_is_made() -> None:
    begun = []

    def function(x: Any) -> Any:
        begun.append(len(ahead._begun))
        return x + 1

    for count in (3, 4):
        blu.jit(function)(np.ones(count, np.float32))
    assert begun == [1, 0]


def test_what_failed_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*request: Any) -> NoReturn:
        raise PassError("the code generator died")

    _, make = ahead.thread_pool(TARGET)
    with monkeypatch.context() as patch:
        patch.setattr(WorkerPool, "ask", die)
        ahead.begin(TARGET)
        with pytest.raises(PassError, match="died"):
            make()
    assert make().startswith(ELF)

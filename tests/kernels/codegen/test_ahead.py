"""Code is made before somebody asks for it: the thread pool's once for all programs, that of kernels as they come."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

import blu
from blu.compiler.codegen import ahead
from blu.compiler.codegen import kernel_texts as kernel_texts_module
from blu.compiler.codegen.kernel_texts import kernel_texts
from blu.compiler.codegen.worker_pool import WorkerPool
from blu.compiler.lowered import Lowered
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


def chained(x: Any, w: Any) -> Any:
    """Three kernels, of which the second is the longest."""
    return blu.sum(x, 0), blu.tanh(x @ w), blu.cumsum(x, 1)


def test_kernels_are_begun_the_longest_first_when_they_are_lowered(
    asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, begin = list[bytes](), ahead._begin
    monkeypatch.setattr(ahead, "_begin", lambda key, request: (begun.append(request[2]), begin(key, request)))
    given = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    program = blu.jit(chained)
    results = program(*given)
    kernels = [text for text in begun if isinstance(text, bytes)]
    texts = {kernel.text for kernel in kernel_texts(program.trace(*given).lower().module)}
    assert set(kernels) == texts and len(kernels) == 3
    assert len(kernels[0]) == max(map(len, texts)) and asked["kernels"] == len(texts)
    assert not ahead._begun
    np.testing.assert_allclose(np.asarray(results[1]), np.tanh(given[0] @ given[1]), rtol=1e-5)


def test_kernels_that_nobody_asks_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*given: Any) -> NoReturn:
        raise PassError("no plan")

    monkeypatch.setattr(Lowered, "executable", fail)
    begun, begin = set[str](), ahead._begin
    monkeypatch.setattr(ahead, "_begin", lambda key, request: (begun.add(request[0]), begin(key, request)))
    with pytest.raises(PassError, match="no plan"):
        blu.jit(chained)(np.ones((5, 7), np.float32), np.ones((7, 3), np.float32))
    assert begun == {"llvm", "kernels"} and len(ahead._begun) == 1, "the thread pool is for the next program"


def test_the_text_of_a_kernel_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """But where passes of users follow, which may change the kernel."""
    written, write = list[str](), kernel_texts_module.kernel_text

    def noted(kernel: Any, declared: Any) -> Any:
        text = write(kernel, declared)
        written.append(text.name)
        return text

    for module in (ahead, kernel_texts_module):
        monkeypatch.setattr(module, "kernel_text", noted)
    for is_extended, times in ((False, 1), (True, 2)):
        monkeypatch.setattr(ahead, "is_extended", lambda found=is_extended: found)
        written.clear()
        blu.jit(chained)(np.ones((5, 7 + times), np.float32), np.ones((7 + times, 3), np.float32))
        assert len(written) == 3 * times and len(set(written)) == 3

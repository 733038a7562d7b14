"""Machine code that is known to be needed before somebody asks for it: it is made while the program is lowered.

All programs for a processor have the same object of the thread pool, which takes longer to make than most kernels. And
a kernel that is lowered waits for no other.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from typing import Any

from blu.compiler.cache import Cache, cache_of_kernels
from blu.compiler.codegen.kernel_cache import KernelCache
from blu.compiler.codegen.kernel_texts import KernelText, declarations, kernel_text
from blu.compiler.codegen.worker_pool import worker_pool
from blu.compiler.fingerprint import code_key, is_extended
from blu.dialects.core.mlir import ir
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import Target
from blu.passes.framework.finished import telling_of_kernels
from blu.runtime.pool import pool_text

# The key of a piece of code, and what makes it.
Wanted = tuple[str, Callable[[], bytes]]
# What a worker is asked: which kind of code, for which target, of which text.
Request = tuple[str, dict[str, Any], str | bytes]

# What is being made, by process (a fork has not its parent's threads) and key.
_begun: dict[tuple[int, str], Future[bytes]] = {}
# What this process has looked for: by target and cache.
_looked: set[tuple[int, Target, Cache]] = set()


def begin(target: Target) -> None:
    """Start all workers, for kernels that come soon."""
    begin_pool(target)
    worker_pool().start()


def begin_pool(target: Target) -> None:
    """Let a worker make what the first program on this machine needs beside its kernels."""
    cache = cache_of_kernels()
    if not isinstance(target, CpuTarget) or (looked := (os.getpid(), target, cache)) in _looked:
        return
    _looked.add(looked)
    key, request = _request(target)
    if KernelCache(cache).get(key) is None:
        _begin(key, request)


@contextmanager
def making_kernels(target: Target) -> Iterator[Mapping[str, KernelText]]:
    """Inside, workers make code of each kernel for a processor as soon as it is lowered.

    Gives the texts of these kernels by name, where only passes of ours follow, which do not change them any more.
    """
    written: dict[str, KernelText] = {}
    if not isinstance(target, CpuTarget):
        yield written
        return
    kind, about, cache = "kernels", described(target), KernelCache(cache_of_kernels())
    described_target, keys, is_last = json.dumps(about), set[str](), not is_extended()

    def begin_kernel(kernel: ir.Operation, others: Sequence[ir.Operation]) -> None:
        text = kernel_text(kernel, declarations(others))
        if is_last:
            written[text.name] = text
        key = code_key(kind, described_target, text.text)
        if key not in keys and cache.get(key) is None:
            keys.add(key)
            _begin(key, (kind, about, text.text))

    try:
        with telling_of_kernels(begin_kernel):
            yield written
    finally:
        for key in keys:  # what nobody has asked for
            _begun.pop((os.getpid(), key), None)


def thread_pool(target: CpuTarget) -> Wanted:
    """The object of the thread pool."""
    key, request = _request(target)
    return key, partial(made, key, *request)


def made(key: str, *request: Any) -> bytes:
    """Code by what a worker is asked for it. Where it has begun to be made, that is waited for."""
    begun = _begun.pop((os.getpid(), key), None)
    return begun.result() if begun else worker_pool().ask(*request)


def _request(target: CpuTarget) -> tuple[str, Request]:
    about, text = described(target), pool_text(target.triple)
    return code_key("llvm", json.dumps(about), text), ("llvm", about, text)


def _begin(key: str, request: Request) -> None:
    _begun[(os.getpid(), key)] = future = Future()
    threading.Thread(target=_fulfil, args=(future, *request), daemon=True).start()


def described(target: Target) -> dict[str, Any]:
    """What a worker is told of a target."""
    return {**asdict(target), "triple": target.triple}


def _fulfil(future: Future[bytes], *request: Any) -> None:
    try:
        future.set_result(worker_pool().ask(*request))
    except BaseException as error:
        future.set_exception(error)

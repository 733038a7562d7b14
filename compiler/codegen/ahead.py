"""Machine code that is known to be needed before there is a kernel: it is made while the program is traced and lowered.

All programs for a processor have the same object of the thread pool, which takes longer to make than most kernels.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from typing import Any

from blu.compiler.cache import Cache, cache_of_kernels
from blu.compiler.codegen.kernel_cache import KernelCache
from blu.compiler.codegen.worker_pool import worker_pool
from blu.compiler.fingerprint import code_key
from blu.dialects.targets.cpu import CpuTarget
from blu.dialects.targets.nvidia import Target
from blu.runtime.pool import pool_text

# The key of a piece of code, and what makes it.
Wanted = tuple[str, Callable[[], bytes]]

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
        _begun[(os.getpid(), key)] = future = Future()
        threading.Thread(target=_fulfil, args=(future, *request), daemon=True).start()


def thread_pool(target: CpuTarget) -> Wanted:
    """The object of the thread pool. Where it has begun to be made, that is waited for."""
    key, request = _request(target)

    def make() -> bytes:
        begun = _begun.pop((os.getpid(), key), None)
        return begun.result() if begun else worker_pool().ask(*request)

    return key, make


def _request(target: CpuTarget) -> tuple[str, tuple[str, dict[str, Any], str]]:
    about, text = described(target), pool_text(target.triple)
    return code_key("llvm", json.dumps(about), text), ("llvm", about, text)


def described(target: Target) -> dict[str, Any]:
    """What a worker is told of a target."""
    return {**asdict(target), "triple": target.triple}


def _fulfil(future: Future[bytes], *request: Any) -> None:
    try:
        future.set_result(worker_pool().ask(*request))
    except BaseException as error:
        future.set_exception(error)

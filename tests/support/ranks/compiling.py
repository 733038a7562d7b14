"""Ranks that compile one program at the same moment, run it, and say whether they found it in the cache.

compiling.py READERS      so many ranks, the last ones, compile nothing: they read again and again, others write
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import blu
from blu.compiler.cache import Cache, Members
from blu.runtime.ranks.team import join_team

TIMES = 30


def net(x: Any, w: Any) -> Any:
    """With a product, rows, and an exchange: kernels of several families."""
    return blu.all_reduce(blu.softmax(blu.sin(x @ w), axis=-1), "dp")


def note(readers: int, is_reader: bool) -> list[bool]:
    """Where what the cache answers is noted, from here on: whether the program was there."""
    found: list[bool] = []
    compile_or_get = Cache.get_or_compile

    def noted(
        cache: Cache, key: str, compile: Callable[[], Members], details: Mapping[str, Any]
    ) -> tuple[Members, bool]:
        end = time.monotonic() + 60
        while is_reader and cache.get(key) is None and time.monotonic() < end:
            pass
        members, is_kept = compile_or_get(cache, key, compile, details)
        for _ in range(TIMES if readers else 0):  # so often that something half written would be read
            assert cache.get(key) is not None
            if not is_reader:
                cache.put(key, members, details)
        found.append(is_kept)
        return members, is_kept

    Cache.get_or_compile = noted
    return found


def main() -> None:
    """Run by each rank."""
    warnings.simplefilter("error")
    with join_team() as team:
        ranks, rank = team.world.size, team.world.rank
        readers = int(sys.argv[1])
        found = note(readers, is_reader=rank >= ranks - readers)
        rng = np.random.default_rng(0)
        x, w = rng.normal(size=(ranks, 8, 16)), rng.normal(size=(16, 24))
        traced = blu.jit(net, mesh=blu.Mesh(dp=ranks)).trace(blu.spec((8, 16), "f64"), blu.spec((16, 24), "f64"))
        assert team.watch is not None and team.store is not None
        team.store.barrier("all have traced it")
        with team.watch.phase("compiling"):
            program = traced.compile("cpu").program
            team.store.barrier("all have compiled it", 60)
        [result] = program.run([x[rank], w])
        weights = np.exp(np.sin(x @ w))
        error = np.max(np.abs(np.asarray(result) - np.sum(weights / weights.sum(-1, keepdims=True), 0)))
    sys.stdout.write(f"RANK {json.dumps({'rank': rank, 'error': float(error), 'found': found})}\n")


if __name__ == "__main__":
    main()

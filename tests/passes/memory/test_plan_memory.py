"""Where intermediate results lie: what is alive at the same time lies apart, whenever each of many begins and ends."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from blu.passes.host.bufferize.plan_memory import Interval, assign_offsets


def random_intervals(seed: int) -> list[Interval]:
    """Some long, most short; of sizes that recur, of one unit or many, and some of nothing."""
    rng = np.random.default_rng(seed)
    last = int(rng.integers(1, 60))
    nothing: Any = None
    found = []
    for _ in range(rng.integers(0, 70)):
        first = int(rng.integers(0, last + 1))
        end = min(last, first + int(rng.choice([0, 1, 2, 5, last])))
        found.append(
            Interval(nothing, int(rng.choice([0, 64, 64, 128, 512, 4096, 64 * int(rng.integers(1, 99))])), first, end)
        )
    return found


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_what_is_alive_together_lies_apart(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 50):
        intervals = random_intervals(seed)
        total = assign_offsets(intervals)
        for one, other in combinations(intervals, 2):
            are_together = one.first <= other.last and other.first <= one.last
            overlap = one.offset < other.offset + other.bytes and other.offset < one.offset + one.bytes
            assert not (are_together and overlap and one.bytes and other.bytes), (seed, one, other)
        assert all(0 <= item.offset <= total - item.bytes for item in intervals)


def alive(intervals: list[Interval], position: int) -> int:
    return sum(item.bytes for item in intervals if item.first <= position <= item.last)


def test_little_is_lost_in_gaps() -> None:
    """In the mean of many 0.137 %; without the last of three orders 0.149 %, without the last two 0.86 %."""
    shares = []
    for seed in range(100):
        intervals = random_intervals(seed)
        most = max((alive(intervals, position) for position in range(61)), default=0)
        total = assign_offsets(intervals)
        assert total >= most
        shares.append(total / most if most else 1)
    assert np.mean(shares) < 1.0014

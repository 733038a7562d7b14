"""Where a split of a dimension is after a reshape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from blu.dialects.core.dtypes import product
from blu.dialects.sharding import Split


def moved_split(
    split: Split, source: int, old: Sequence[int], new: Sequence[int], ranks: int
) -> tuple[int, Split] | None:
    """The dimension into which a reshape brings a split of `source`, and what it is there; None if into none."""
    for sources, targets in _factors(old, new):
        if source in sources:
            return _place_of(split, source, sources, targets, old, new, ranks)
    return None


def _factors(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of dimensions that have as many elements before and after."""
    found, sources, targets = [], [], []
    before = after = 1
    i = j = 0
    while i < len(old) or j < len(new):
        if (before <= after and i < len(old)) or j == len(new):
            before *= old[i]
            sources.append(i)
            i += 1
        else:
            after *= new[j]
            targets.append(j)
            j += 1
        if before == after and sources and targets:
            found.append((sources, targets))
            sources, targets, before, after = [], [], 1, 1
    if sources or targets:
        found.append((sources, targets))
    return found


def _place_of(
    split: Split,
    source: int,
    sources: Sequence[int],
    targets: Sequence[int],
    old: Sequence[int],
    new: Sequence[int],
    ranks: int,
) -> tuple[int, Split] | None:
    """The dimension of the result that a split is one of, and how that is said there; None where there is none."""
    groups = split.groups * product(old[dim] for dim in sources if dim < source)
    before = 1
    for target in targets:
        if before <= groups and groups % before == 0:
            inner = groups // before
            is_whole = not split.mirrored or inner % 2 == 0
            if new[target] > 1 and new[target] % (inner * ranks) == 0 and is_whole:
                return target, replace(split, groups=inner)
        before *= new[target]
    return None

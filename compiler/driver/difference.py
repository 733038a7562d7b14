"""The difference between two texts of a module, found by the lines that each has once.

`difflib` alone takes lines that are frequent (`linalg.yield %mulf : f32`) for noise, and shows them as changed together
with their neighbours. Names of values make most lines of a readable text unique, so those lead, and what is between two
of them is short enough to compare in full.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher

CONTEXT = 3
# Pairs of lines between two that lead. Where there are more, frequent lines are noise after all: it would take long.
MOST_PAIRS = 100_000


def difference(old: Sequence[str], new: Sequence[str], old_name: str, new_name: str) -> str:
    """A unified diff that turns the lines `old` into the lines `new`; empty where they are equal."""
    matcher = _Matcher(old, new)
    lines: list[str] = []
    for group in matcher.get_grouped_opcodes(CONTEXT):
        lines.append(f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@")
        for tag, start, stop, new_start, new_stop in group:
            if tag == "equal":
                lines += [f" {line}" for line in old[start:stop]]
                continue
            lines += [f"-{line}" for line in old[start:stop]]
            lines += [f"+{line}" for line in new[new_start:new_stop]]
    header = [f"--- {old_name}", f"+++ {new_name}"] if lines else []
    return "\n".join([*header, *lines, ""])


def _range(start: int, stop: int) -> str:
    length = stop - start
    return f"{start + bool(length)},{length}"


class _Matcher(SequenceMatcher[str]):
    """difflib's, with matching blocks of our own."""

    def __init__(self, old: Sequence[str], new: Sequence[str]):
        super().__init__(None, (), (), autojunk=False)
        self.old, self.new = old, new

    def get_matching_blocks(self) -> list[Match]:
        joined: list[Match] = []
        for start, other, length in _matches(self.old, self.new, 0, len(self.old), 0, len(self.new)):
            last = joined[-1] if joined else Match(0, 0, 0)
            if (last.a + last.size, last.b + last.size) == (start, other):
                joined[-1:] = [Match(last.a, last.b, last.size + length)]
            else:
                joined.append(Match(start, other, length))
        return [*joined, Match(len(self.old), len(self.new), 0)]


def _matches(
    old: Sequence[str], new: Sequence[str], start: int, stop: int, other: int, other_stop: int
) -> Iterator[tuple[int, int, int]]:
    """Equal runs of lines of two ranges, in order: `(place in old, place in new, length)`."""
    if start == stop or other == other_stop:
        return
    leads = _leads(old, new, range(start, stop), range(other, other_stop))
    if not leads:
        yield from _compared(old[start:stop], new[other:other_stop], start, other)
        return
    for lead, other_lead in leads:
        yield from _matches(old, new, start, lead, other, other_lead)
        yield lead, other_lead, 1
        start, other = lead + 1, other_lead + 1
    yield from _matches(old, new, start, stop, other, other_stop)


def _leads(old: Sequence[str], new: Sequence[str], rows: range, others: range) -> list[tuple[int, int]]:
    """Lines that both ranges have once: as many as stand in the same order in both."""
    once = _places(old, rows)
    there = _places(new, others)
    pairs = [(place, there[line]) for line, place in once.items() if line in there]
    # The longest increasing sequence of places in `new`, by where a sequence of each length ends at least.
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        last[length : length + 1] = [number]
    found, number = [], last[-1] if last else -1
    while number >= 0:
        found.append(pairs[number])
        number = before[number]
    return found[::-1]


def _places(lines: Sequence[str], rows: range) -> dict[str, int]:
    counts = Counter(lines[row] for row in rows)
    return {lines[row]: row for row in rows if counts[lines[row]] == 1}


def _compared(old: Sequence[str], new: Sequence[str], start: int, other: int) -> Iterator[tuple[int, int, int]]:
    has_noise = len(old) * len(new) > MOST_PAIRS
    for place, other_place, length in SequenceMatcher(None, old, new, has_noise).get_matching_blocks()[:-1]:
        yield start + place, other + other_place, length

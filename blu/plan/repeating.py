"""Launches that are made again as long as a bool is true: what is between two steps of the host, which read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from blu.plan.reading import require

BEGIN, AGAIN = "while_begin", "while_again"
"""Routines of the host. Each takes the bool: where that is false, the program goes on behind the second of them, and
where it is true, behind the first."""


def partners(routines: Sequence[str]) -> dict[int, int]:
    """By the number of a step that begins or ends such launches, that of the other. `routines` has an entry for each
    step, "" for kernels. CacheError where one is missing."""
    found, begun = {}, []
    for number, routine in enumerate(routines):
        if routine == BEGIN:
            begun.append(number)
        elif routine == AGAIN:
            require(bool(begun), "launches that are made again have not begun")
            first = begun.pop()
            found |= {first: number, number: first}
    require(not begun, "launches that are made again have no end")
    return found


def behind(partners: Mapping[int, int], places: Mapping[int, int] | Sequence[int]) -> dict[tuple[int, bool], int]:
    """Where a run goes on, by the number of a step that reads a bool and what that is; `places` are those of steps."""
    found = {}
    for number, other in partners.items():
        first, last = sorted((places[number], places[other]))
        found |= {(number, True): first + 1, (number, False): last + 1}
    return found

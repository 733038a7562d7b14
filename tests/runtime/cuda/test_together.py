"""Which collectives of a program begin as one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blu.plan.arguments import Argument
from blu.plan.collective import Collective
from blu.plan.timeline import Begin, Finish, LaunchRange
from blu.runtime.cuda.together import BeginTogether, begun_together
from blu.runtime.ranks.group import GROUPED

SAME, AFTER = [Begin(0), Finish(0), Begin(1), Finish(1)], [Begin(0), Begin(1), LaunchRange(0, 1), Finish(0), Finish(1)]
TOGETHER = [
    (SAME, {}, [BeginTogether((0, 1)), Finish(0), Finish(1)]),
    (AFTER, {}, [BeginTogether((0, 1)), *AFTER[2:]]),
    (SAME, {"source": Argument("arena", 0, 100)}, SAME),  # reads what the first one writes
    (SAME, {"target": Argument("arena", 0, 12)}, SAME),  # writes what it reads
    (SAME, {"target": Argument("arena", 0, 112)}, SAME),  # writes what it writes
    (SAME, {"source": Argument("input", 0, 100)}, [BeginTogether((0, 1)), *SAME[1::2]]),
    (SAME, {"axis": "tp"}, SAME),
    (SAME, {"kind": "permute"}, SAME),
    ([Begin(0), LaunchRange(0, 1), Begin(1)], {}, [Begin(0), LaunchRange(0, 1), Begin(1)]),
]


@pytest.mark.parametrize("moments, second, grouped", TOGETHER)
def test_which_collectives_begin_together(moments: list, second: dict[str, Any], grouped: list) -> None:
    """Of 4 elements each: from 0 to 100, and from 200 to 300."""
    places = [(Argument("arena", 0, base), Argument("arena", 0, base + 100)) for base in (0, 200)]
    items = [Collective("all_reduce", "dp", 2, "sum", 0, "f32", 4, *pair, 0, 0) for pair in places]
    items[1] = replace(items[1], **second)
    joins = lambda number: items[number].kind in GROUPED  # noqa: E731
    assert list(begun_together(moments, items, joins)) == grouped

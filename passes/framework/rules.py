"""Rules as data: what must hold for a decision, and the reason that is given where it does not."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

from blu.dataclass import dataclass
from blu.dialects.core.locations import SourcePlace, place_of, short
from blu.dialects.core.mlir import ir

Case = TypeVar("Case", contravariant=True)


@dataclass(frozen=True)
class Rule(Generic[Case]):
    """`holds` says whether a case is as the rule wants it; `reason` (with fields of the case) why it is refused."""

    name: str
    holds: Callable[[Case], bool]
    reason: str


def refusal(rules: Sequence[Rule[Case]], case: Case) -> str | None:
    """The reason of the first rule that does not hold, or None where all do."""
    for rule in rules:
        if not rule.holds(case):
            return rule.reason.format(case=case)
    return None


@dataclass(frozen=True)
class Decision:
    """What was decided, in words, and the places in the user's program that it is about.

    Decisions of one `kind` at the same lines, as those of repeated blocks are, count as alike whatever is called how.
    """

    text: str
    kind: Hashable
    locations: tuple[ir.Location, ...]

    @property
    def key(self) -> tuple[Hashable, tuple[SourcePlace, ...]]:
        """What is the same for all that are alike."""
        places = map(place_of, self.locations)
        return self.kind, tuple(SourcePlace(place.file, place.line, place.column) for place in places)

    @property
    def places(self) -> str:
        """` (model.py:10 up, model.py:12)`, or nothing where no place is known."""
        spots = dict.fromkeys(filter(None, map(short, self.locations)))
        return f" ({', '.join(spots)})" if spots else ""


def lines_of(decisions: Iterable[Decision]) -> list[str]:
    """A line for each decision, or for those that are alike: `text (model.py:10 up), and 11 more alike`."""
    alike: dict[Hashable, list[str]] = {}
    for decision in decisions:
        alike.setdefault(decision.key, []).append(f"{decision.text}{decision.places}")
    return [lines[0] + (f", and {len(lines) - 1} more alike" if len(lines) > 1 else "") for lines in alike.values()]

"""Where ranks are, and who of them is to blame when they do not go on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any

from blu.dataclass import dataclass, field

FAILED = 1
LOST = 75
"""The exit code of ranks that end because of another (EX_TEMPFAIL: it may go well the next time)."""


@dataclass(frozen=True)
class Position:
    """Where a rank is: its step, and which exchange it started last (the `count`-th), at which line.

    `is_waiting`: for that exchange to end. `phase`: what it does that may take long, if it said so. `age`: seconds
    since any of this changed.
    """

    step: int = 0
    count: int = 0
    exchange: str = ""
    line: str = ""
    is_waiting: bool = False
    phase: str = ""
    age: float = 0.0

    @classmethod
    def parse(cls, entry: dict[str, Any]) -> Position:
        """The position that a message holds; ValueError if it does not."""
        kinds = {"int": int, "str": str, "bool": bool, "float": (int, float)}
        if any(not isinstance(entry.get(item.name), kinds[str(item.type)]) for item in fields(cls)):
            raise ValueError(entry)
        return cls(**{item.name: entry[item.name] for item in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """What `parse` reads."""
        return asdict(self)

    def __str__(self) -> str:
        step = f"in step {self.step}" if self.step else "before its first step"
        doing = f", {self.phase}" if self.phase else ""
        if not self.exchange:
            return f"{step}{doing}"
        line = f" ({self.line})" if self.line else ""
        return f"{step}{doing}, {'waiting in' if self.is_waiting else 'after it started'} {self.exchange}{line}"


@dataclass(frozen=True)
class Verdict:
    """Why all ranks end: a message that names the `ranks` to blame."""

    message: str
    ranks: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The header of the message that tells it."""
        return {"do": "end", "message": self.message, "ranks": list(self.ranks)}

    @classmethod
    def parse(cls, entry: dict[str, Any]) -> Verdict:
        """The verdict that a message holds."""
        return cls(str(entry.get("message")), tuple(entry.get("ranks", ())))


@dataclass
class Member:
    """A rank, as the store knows it; `heard` is when it last said something."""

    rank: int
    host: str
    process: int
    heard: float
    position: Position = field(default_factory=Position)
    is_watched: bool = False
    has_left: bool = False
    asks: str = ""
    """What it waits for in the store."""

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host}, process {self.process})"


def numbered(ranks: Iterable[int]) -> str:
    """ "rank 1", or "ranks 0, 2, 3"; of many, the first."""
    listed = sorted(ranks)
    shown = ", ".join(map(str, listed[:16])) + (f" and {len(listed) - 16} more" if len(listed) > 16 else "")
    return f"rank{'s' if len(listed) > 1 else ''} {shown}"


def died(member: Member) -> Verdict:
    """The verdict on a rank whose connection ended without a word."""
    seen = f"it was last seen {member.position}"
    return Verdict(f"{member} died without a word (was it killed, or out of memory?); {seen}", (member.rank,))


def failed(member: Member, message: str) -> Verdict:
    """The verdict on a rank that said that it ends."""
    return Verdict(f"{member} failed {member.position}: {message}", (member.rank,))


def judge(members: Sequence[Member], now: float, timeout: float) -> Verdict | None:
    """The verdict on ranks that are silent for longer than `timeout` seconds, or that others wait for so long.

    None yet, too, while nothing was heard of a rank for half of that: whoever waits may wait for that one.
    """
    watched = [member for member in members if member.is_watched and not member.has_left]
    silent = [member for member in watched if now - member.heard > timeout]
    if silent:
        first = min(silent, key=lambda member: member.heard)
        text = f"{first} has said nothing for {now - first.heard:.0f} s; it was {first.position}"
        return Verdict(text, tuple(member.rank for member in silent))
    if any(now - member.heard > timeout / 2 for member in watched):
        return None
    still = [member for member in watched if _age(member, now) > timeout]
    # Where nobody moves, those that have started more wait, in a call to a library that does not say so.
    least = min((member.position.count for member in watched), default=0)
    is_stuck = len(still) == len(watched)
    late = [item for item in still if item.position.is_waiting or (is_stuck and item.position.count > least)]
    if not late or any(member.position.phase for member in watched):
        return None
    longest = max(late, key=lambda member: _age(member, now))
    waited = f"{longest} has been waiting for {_age(longest, now):.0f} s: it is {longest.position}"
    return _blame(members, waited, now, timeout)


def _age(member: Member, now: float) -> float:
    return member.position.age + now - member.heard


def _blame(members: Sequence[Member], waited: str, now: float, timeout: float) -> Verdict:
    gone = [member for member in members if member.has_left]
    if gone:
        return Verdict(f"{gone[0]} has ended, {gone[0].position}. {waited}", tuple(member.rank for member in gone))
    least = min(member.position.count for member in members)
    behind = [member for member in members if member.position.count == least]
    if len(behind) == len(members):
        behind = [member for member in members if not member.position.is_waiting]
    if behind:
        first = behind[0]
        does = "hangs" if _age(first, now) > timeout / 2 else "lags"
        text = f"{first} {does} {first.position}, where nothing has changed for {_age(first, now):.0f} s. {waited}"
        return Verdict(text, tuple(member.rank for member in behind))
    return _disagreement(members) or Verdict(f"all ranks wait for each other, and nothing arrives. {waited}")


def _disagreement(members: Sequence[Member]) -> Verdict | None:
    """The verdict on ranks that wait in different exchanges: those in the one that fewer are in are to blame."""
    at: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        at.setdefault((member.position.exchange, member.position.line), []).append(member)
    if len(at) == 1:
        return None
    groups = sorted(at.values(), key=lambda group: (len(group), -group[0].rank))
    few, many = groups[0], groups[-1]
    return Verdict(
        f"ranks wait in different exchanges: {few[0]} is {few[0].position}, and {many[0]} is {many[0].position}",
        tuple(member.rank for member in few),
    )

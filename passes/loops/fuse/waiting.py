"""Which groups wait for which, directly or through others, answered without a search."""

from __future__ import annotations

from collections.abc import Iterable


class Waiting:
    """Groups by number, and whom each of them waits for.

    A set of groups is an integer with a bit for each of them, so that to join two sets, or to look into one, is one
    operation of integers (Python's, of n / 64 words for n groups). A group that begins to wait hands on what is new to
    those that wait for it, and these hand on what is new to them: as groups join close to where they were begun, that
    is a few of them, where a search from one group for another walks through all layers between the two.

    `steps` counts the sets that were joined or looked into.
    """

    def __init__(self) -> None:
        self._ahead: list[int] = []  # for each group, all that it waits for
        self._itself: list[int] = []  # for each group, its own bit and those of the groups that are merged into it
        self._needs: list[set[int]] = []  # for each group, those whose results it reads
        self._users: list[set[int]] = []  # for each group, those that read its results
        self.steps = 0

    def begin(self) -> int:
        """A new group, which waits for none: its number."""
        number = len(self._ahead)
        self._ahead.append(0)
        self._itself.append(1 << number)
        self._needs.append(set())
        self._users.append(set())
        return number

    def waits(self, one: int, other: int) -> bool:
        """Whether a group is another, or waits for it."""
        self.steps += 1
        return one == other or bool(self._ahead[one] & self._itself[other])

    def needs(self, one: int) -> frozenset[int]:
        """The groups that a group waits for directly."""
        return frozenset(self._needs[one])

    def waits_through_third(self, one: int, other: int) -> bool:
        """Whether one of two groups waits for the other, and not only directly."""
        between = (self._needs[one] | self._needs[other]) - {one, other}
        return any(self.waits(item, one) or self.waits(item, other) for item in between)

    def let_wait(self, one: int, others: Iterable[int]) -> None:
        """Let a group wait for others, none of which waits for it."""
        ahead = 0
        for other in others:
            if other != one:
                self._needs[one].add(other)
                self._users[other].add(one)
                ahead |= self._ahead[other] | self._itself[other]
        assert not ahead & self._itself[one], "a group waits for itself"
        self._hand_on(ahead, [one])

    def merge(self, one: int, other: int) -> None:
        """Let `one` take the place of `other`. Neither waits for the other through a third."""
        needs = (self._needs[one] | self._needs[other]) - {one, other}
        users = (self._users[one] | self._users[other]) - {one, other}
        for links, items in ((self._users, needs), (self._needs, users)):
            for item in items:
                links[item].discard(other)
                links[item].add(one)
        self._needs[one], self._users[one] = needs, users
        self._needs[other], self._users[other] = set(), set()
        self._itself[one] |= self._itself[other]
        self._ahead[one] = (self._ahead[one] | self._ahead[other]) & ~self._itself[one]
        self._hand_on(self._ahead[one] | self._itself[one], users)

    def _hand_on(self, ahead: int, users: Iterable[int]) -> None:
        """Let groups, and all that wait for them, wait for these."""
        waiting = list(users)
        while waiting:
            user = waiting.pop()
            self.steps += 1
            if ahead & ~self._ahead[user]:
                self._ahead[user] |= ahead
                waiting.extend(self._users[user])

"""Where threads of all ranks meet that run beside what the ranks do in step, such as those that write checkpoints."""

from __future__ import annotations

import time
from collections import Counter

from blu.dataclass import dataclass, field
from blu.runtime.ranks.store import Store

_POLL_SECONDS = 0.02


@dataclass
class MeetingBeside:
    """Rounds that one thread of each of `ranks` comes to; alone, if there is no `store`.

    Nobody waits in the store, since whoever does keeps this rank's other threads from it, and some of those have to get
    on before the round is complete. RankLostError where a rank is lost.
    """

    rank: int
    ranks: int
    store: Store | None = field(repr=False)
    _rounds: Counter[str] = field(default_factory=Counter, init=False, repr=False)

    def gathered(self, name: str, value: bytes) -> list[bytes]:
        """What each rank says under a name, by rank."""
        if self.store is None:
            return [value]
        self._rounds[name] += 1
        key = f"beside: {name}#{self._rounds[name]}"
        self.store.set(f"{key} of {self.rank}", value)
        here = self.store.add(key)
        while here < self.ranks:
            time.sleep(_POLL_SECONDS)
            here = self.store.add(key, 0)
        values = [self.store.get(f"{key} of {rank}") for rank in range(self.ranks)]
        self._drop(f"beside: {name}#{self._rounds[name] - 1}")
        return values

    def _drop(self, key: str) -> None:
        """Let the store forget the round before: whoever has come to this one has read that."""
        assert self.store is not None
        self.store.drop(f"{key} of {self.rank}")
        if self.rank == 0:
            self.store.drop(key)

"""The place of one process among those that train one model together."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from blu.compiler.training.parallel import DATA_AXIS
from blu.dataclass import dataclass, field
from blu.errors import RankError, calling_line
from blu.plan.mesh import Mesh
from blu.runtime.ranks.beside import MeetingBeside
from blu.runtime.ranks.team import RankTeam, agree_on_exchanges
from blu.runtime.runnable import Runnable

_END = "the step to end with"
_FOREVER = 1e6


@dataclass
class Place:
    """Rank `rank` of `ranks`, which share the work as a mesh; alone, if there is no `team`."""

    rank: int = 0
    ranks: int = 1
    mesh: Mesh = field(default_factory=Mesh)
    team: RankTeam | None = field(default=None, repr=False)
    _last_step: int = field(default=0, init=False)
    _reason: str = field(default="", init=False)

    @classmethod
    def in_team(cls, team: RankTeam, mesh: Mesh | None = None) -> Place:
        """The place of this process in a team, whose ranks have different sequences where no mesh is given."""
        first = cls.first_of(team.world.size, mesh)
        return cls(team.world.rank, first.ranks, first.mesh, team if first.ranks > 1 else None)

    @classmethod
    def first_of(cls, ranks: int, mesh: Mesh | None = None) -> Place:
        """The place of the first of so many ranks, before they have met."""
        return cls(0, ranks, mesh or (Mesh(**{DATA_AXIS: ranks}) if ranks > 1 else Mesh()))

    @property
    def data_ranks(self) -> int:
        """Into how many parts a batch is cut."""
        return self.mesh.ranks(DATA_AXIS)

    @property
    def data_rank(self) -> int:
        """Which of the parts of a batch this rank has; several may have the same."""
        return self.mesh.coordinates(self.rank).get(DATA_AXIS, 0)

    def told(self, name: str, value: Callable[[], str]) -> str:
        """What the first rank says under a name."""
        store = None if self.team is None else self.team.store
        if store is None:
            return value()
        return store.broadcast(name, value().encode() if self.is_first else b"").decode()

    def agree(self, name: str, value: object) -> None:
        """RankError on all ranks where they do not have the same."""
        if self.team is not None:
            self.team.agree(name, json.dumps(value, indent=1, sort_keys=True, default=str))

    def compare(
        self, name: str, arrays: Mapping[str, Any], holder: Callable[[str, int], int] = lambda name, rank: 0
    ) -> None:
        """RankError on all ranks, with the tensor and the rank, where arrays have not the bits that they should have.

        A rank has of an array what the rank has that `holder` names, given the array's name and the rank.
        """
        if self.team is None:
            return
        with self.phase(f"comparing {name}"):
            own = {key: f"{zlib.crc32(_bytes_of(array)):08x}" for key, array in arrays.items()}
        sums = [json.loads(value) for value in self.gathered(f"the bits of {name}", json.dumps(own).encode())]
        pairs = [(key, rank, holder(key, rank)) for key in own for rank in range(self.ranks)]
        wrong = [(key, rank, first) for key, rank, first in pairs if sums[rank].get(key) != sums[first].get(key)]
        if wrong:
            key, rank, first = wrong[0]
            more = f"; so do {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise RankError(
                f"of the {name}, {key} differs: rank {rank} has the bits {sums[rank].get(key)} (CRC-32), "
                f"rank {first} has {sums[first].get(key)}{more}",
                advice="memory or a link may be faulty on one of them: go on from the last checkpoint, with --resume",
            )

    def gathered(self, name: str, value: bytes) -> list[bytes]:
        """What each rank says under a name, by rank; whoever watches ends this where one does not come."""
        if self.team is None or self.team.store is None or self.team.watch is None:
            return [value]
        self.team.watch.started(name, calling_line())
        with self.team.watch.waiting():
            return self.team.store.gather(name, value, _FOREVER)

    @cached_property
    def beside(self) -> MeetingBeside:
        """Where threads of all ranks meet that run beside training."""
        return MeetingBeside(self.rank, self.ranks, None if self.team is None else self.team.store)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Do something that may take long, and for which the other ranks wait."""
        watch = None if self.team is None else self.team.watch
        with nullcontext() if watch is None else watch.phase(name):
            yield

    def begin_step(self, step: int) -> None:
        """Let whoever watches know at which step this rank is."""
        if self.team is not None and self.team.watch is not None:
            self.team.watch.begin_step(step)

    def agree_on_exchanges(self, entry: str, program: Runnable) -> None:
        """RankError on all ranks, with the first line that differs, where they would not exchange the same."""
        if self.team is not None:
            agree_on_exchanges(entry, program.plan.collectives)

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that saves and shows."""
        return self.rank == 0

    def agreed_end(self, step: int, wanted: str) -> str:
        """Why to stop after this step, if that is what all ranks do; `wanted` is why this rank would.

        What ends a run (a signal, the time) reaches ranks at different steps, and one that stopped alone would leave
        the others waiting. So the first decides, a step ahead: no rank gets through the next step without it, and by
        then all know.
        """
        store = None if self.team is None else self.team.store
        if store is None:
            return wanted
        if self.is_first and wanted and not self._last_step:
            self._last_step, self._reason = step + 1, wanted
            store.set(f"{_END}: why", wanted.encode())
            store.add(_END, self._last_step)
        if not self.is_first and not self._last_step:
            self._last_step = store.add(_END, 0)
        if not self._last_step or step < self._last_step:
            return ""
        return self._reason or store.get(f"{_END}: why").decode()


def _bytes_of(array: Any) -> memoryview:
    """What an array has in memory, row by row, whatever its dtype."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data

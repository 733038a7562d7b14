"""The ranks of one run, from where they meet to where they part.

    with join_team() as team:
        team.agree("version of Blu", version)
        team.group.start("all_reduce", ...).wait()

Whatever ends one rank (an exception, a signal, a hang) ends the others, with a line that says which it was and where.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import secrets
import sys
import traceback
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import numpy as np

import blu.installed as installed
from blu import settings
from blu.dataclass import dataclass
from blu.errors import RankError, RankLostError, calling_line
from blu.plan.collective import Collective, schedule_text
from blu.runtime.ranks.agreement import agree
from blu.runtime.ranks.group import Alone, RankGroup
from blu.runtime.ranks.heartbeat import RankWatch, end_process
from blu.runtime.ranks.server import StoreServer, listen
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.verdicts import Verdict
from blu.runtime.ranks.world import World

_FOREVER = 1e6
_LOOPBACK = "127.0.0.1"
_INVITATION_BYTES = 1024


@dataclass
class RankTeam:
    """All ranks of a run, seen from one of them. A rank that is alone has no store and no watch.

    `group` is that of all ranks, whose exchanges the watch is told of.
    """

    world: World
    group: RankGroup
    store: Store | None = None
    watch: RankWatch | None = None
    server: StoreServer | None = None
    """What keeps the store, on rank 0."""

    def agree(self, name: str, value: bytes | str) -> None:
        """Raise RankError on all ranks if they have different values under this name."""
        if self.store is not None and self.watch is not None:
            self.watch.started(f"the comparison of {name}", calling_line())
            with self.watch.waiting():  # whose watching ends this if a rank does not come
                agree(self.store, name, value, _FOREVER)

    def __enter__(self) -> RankTeam:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
            return
        self._end_if_lost(error)
        self.fail("".join(traceback.format_exception_only(error)).strip())

    def close(self) -> None:
        """Part, once all ranks are here."""
        if self.store is not None and self.watch is not None:
            self.watch.started("the end")
            try:
                with self.watch.waiting():
                    self.store.barrier("the end", _FOREVER)
            except RankError as error:
                self._end_if_lost(error)
                self.fail(f"{type(error).__name__}: {error}")
                raise
            self.watch.stop()
            with contextlib.suppress(RankError):  # all have come to the end: nobody needs to hear it
                self.store.leave()
        self.group.close()
        self._hang_up()

    def fail(self, message: str) -> None:
        """Tell all ranks that this one ends and why: they end as well."""
        if self.store is not None and self.watch is not None:
            self.watch.stop()
            with contextlib.suppress(RankError):  # the others are told by whoever sees that this one is gone
                self.store.fail(message, self.watch.position)
        self.group.abort()
        self._hang_up()

    def _end_if_lost(self, error: BaseException) -> None:
        """End as the watch does where another rank is lost, whichever of the two hears of it first."""
        if isinstance(error, RankLostError) and self.watch is not None:
            self.watch.give_way()
            self._end(Verdict(str(error)))

    def _end(self, verdict: Verdict) -> None:
        """End this process, because of another or because it is the one to blame."""
        where = self.watch.position if self.watch is not None else ""
        end_process(verdict, f"rank {self.world.rank}, {where},")

    def _hang_up(self) -> None:
        if team_in_use() is self:
            use_team(None)
        if self.watch is not None:
            self.watch.close()
        if self.store is not None:
            self.store.close()
        if self.server is not None:
            self.server.close()


def join_team(world: World | None = None, *, device: str = "cpu", max_ctas: int | None = None) -> RankTeam:
    """Meet the other ranks of this run.

    `device` is what their arrays are on: with "cpu" they are exchanged through MPI, with "cuda" through NCCL, which
    may take `max_ctas` thread blocks, and each rank has the GPU of its number on the host: call it before anything
    else uses a GPU. Where ranks meet is MASTER_ADDR and MASTER_PORT, if these are set, and else rank 0 tells the others
    through MPI. Programs that are loaded from then on exchange through this team. Raises RankError where ranks do not
    find each other within BLU_RANK_JOIN seconds, and where this process has joined them already.
    """
    if _joined is not None:
        raise RankError("this process has joined the other ranks already", advice="leave them first: team.close()")
    world = world or World.of_environment()
    if device == "cuda":
        team = _join_gpus(world, max_ctas)
    else:
        team = RankTeam(world, Alone()) if world.size == 1 else _assembled(world, _mpi(world))
    use_team(team)
    return team


_joined: RankTeam | None = None


def use_team(team: RankTeam | None) -> None:
    """Let programs that are loaded from now on exchange through this team."""
    global _joined
    _joined = team


def team_in_use() -> RankTeam | None:
    """The team that this process has joined, if it has."""
    return _joined


def agree_on_exchanges(entry: str, collectives: Sequence[Collective]) -> None:
    """Raise RankError on all ranks if they are about to run programs that do not exchange the same.

    Libraries may take arrays of different sizes without a word, and give wrong sums.
    """
    if _joined is not None:
        _joined.agree("program", f"{entry}\n{schedule_text(collectives)}")


def team_of_process(device: str, max_ctas: int | None = None) -> RankTeam:
    """The team that this process has joined; where it has none, it joins one, and parts when it ends.

    RankError where the team exchanges arrays of another kind of device.
    """
    if _joined is None:
        atexit.register(_part, join_team(device=device, max_ctas=max_ctas))
    assert _joined is not None
    if (_joined.group.library == "nccl") != (device == "cuda"):
        advice = f"join them for what programs run on: join_team(device={device!r})"
        raise RankError(
            f"the ranks exchange through {_joined.group.library}, and a program runs on {device}", advice=advice
        )
    return _joined


def _part(team: RankTeam) -> None:
    """Leave when the process ends, with the error that ends it, if one does."""
    if _joined is team:
        error = getattr(sys, "last_value", None)
        team.__exit__(type(error) if error is not None else None, error, None)


def _mpi(world: World) -> RankGroup:
    from blu.runtime.ranks.mpi import MpiGroup

    return MpiGroup.of_world(world)


def _join_gpus(world: World, max_ctas: int | None) -> RankTeam:
    from blu.runtime.ranks.gpus import take_gpu
    from blu.runtime.ranks.nccl import NcclGroup

    take_gpu(world)
    if world.size == 1:
        return RankTeam(world, NcclGroup.of_world(world, None, max_ctas))
    if world.address is None and "mpiexec" not in world.starter:
        raise RankError(
            f"rank {world.rank} of {world.size} does not know where ranks meet",
            advice="set MASTER_ADDR and MASTER_PORT to an address of rank 0, the same on all ranks",
        )
    team = _assembled(world, Alone() if world.address else _mpi(world))
    try:
        group = NcclGroup.of_world(world, team.store, max_ctas)
    except BaseException as error:
        team.fail(f"{type(error).__name__}: {error}")
        raise
    group.observer, team.group = team.watch, group
    return team


def _assembled(world: World, group: RankGroup) -> RankTeam:
    """The team, whose ranks tell each other through the group where they meet, if the environment does not."""
    current = settings.current()
    try:
        server, address, token = _meet(world, group, current.rank_timeout)
        store = Store(address, world, token, current.rank_join)
        store.seconds = current.rank_timeout
        team = RankTeam(world, group, store, None, server)
        team.watch = RankWatch(store, current.rank_timeout, team._end)
    except BaseException:
        group.abort()
        raise
    group.observer = team.watch
    try:
        team.agree("version of Blu", installed.version_of("blu"))
    except BaseException as error:
        team.fail(f"{type(error).__name__}: {error}")
        raise
    return team


def _meet(world: World, group: RankGroup, timeout: float) -> tuple[StoreServer | None, tuple[str, int], bytes]:
    """Where the store is, and the token; on rank 0, what keeps it."""
    token = settings.current().rank_token
    if world.address is not None:
        server = StoreServer(listen(world.address), world.size, token.encode(), timeout) if world.rank == 0 else None
        return server, world.address, token.encode()
    if world.rank != 0:
        invitation = _told(group)
        return None, (invitation["host"], invitation["port"]), invitation["token"].encode()
    host = _LOOPBACK if world.local_size == world.size else world.host
    token = token or secrets.token_hex(16)
    server = StoreServer(listen((host, 0)), world.size, token.encode(), timeout)
    _told(group, {"host": host, "port": server.address[1], "token": token})
    return server, (host, server.address[1]), token.encode()


def _told(group: RankGroup, invitation: dict[str, Any] | None = None) -> dict[str, Any]:
    """What rank 0 tells all through the group."""
    memory = np.zeros(_INVITATION_BYTES, np.uint8)
    if invitation is not None:
        text = json.dumps(invitation).encode()
        memory[: len(text)] = np.frombuffer(text, np.uint8)
    at = memory.ctypes.data
    group.start("broadcast", dtype="u8", source=at, target=at, count=_INVITATION_BYTES).wait()
    return json.loads(memory.tobytes().rstrip(b"\0"))

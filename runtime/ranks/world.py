"""Which of how many processes this one is, as whoever started them says in the environment."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping

from blu.dataclass import dataclass, field
from blu.errors import RankError

MAX_RANKS = 1 << 20
ADDRESS = ("MASTER_ADDR", "MASTER_PORT")
_UNDER_TORCHRUN = "TORCHELASTIC_RUN_ID"
"""Set for torchrun's own children: variables of what started torchrun are then not about them."""

_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""True where torchrun itself listens at MASTER_PORT, for PyTorch: Blu's ranks meet at the port after that."""


@dataclass(frozen=True)
class Starter:
    """A program that starts ranks, and the variables by which it tells them who they are."""

    name: str
    rank: str
    size: str
    local_rank: str
    local_size: str = ""
    needs: str = ""
    """A variable without which the others do not say anything about this process."""
    host: str = ""
    """The variable with the name by which the host is known to others, if there is one."""

    @property
    def variables(self) -> tuple[str, ...]:
        """Those of which none may be absent where one is there."""
        return tuple(filter(None, (self.rank, self.size, self.local_rank, self.local_size)))


TORCHRUN = Starter("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
OPEN_MPI = Starter(
    "Open MPI's mpiexec",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
)
HYDRA = Starter(
    "MPICH's mpiexec",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    needs="MPI_LOCALRANKID",
    host="PMI_HOSTNAME",
)
# A batch script has most of these as well; only what srun starts is a step with so many tasks.
SRUN = Starter(
    "srun",
    "SLURM_PROCID",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_LOCALID",
    needs="SLURM_STEP_NUM_TASKS",
    host="SLURMD_NODENAME",
)
# What mpiexec or torchrun starts within a step of srun still sees srun's variables, so those count last.
STARTERS = (TORCHRUN, OPEN_MPI, HYDRA)


@dataclass(frozen=True)
class World:
    """This process among the `size` that run together; `local_rank` of `local_size` on its host.

    `address` is where they meet (host, port), if the environment says; `starter` is what started them, if anything.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    host: str = field(default_factory=socket.gethostname)
    address: tuple[str, int] | None = None
    starter: str = ""

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] = os.environ) -> World:
        """What torchrun, mpiexec (Open MPI's, MPICH's) or srun say; a process that none of them started is alone.

        Raises RankError, which names the variable, where they are broken or contradict each other.
        """
        found = [starter for starter in STARTERS if _speaks(starter, environment)]
        if TORCHRUN in found and _UNDER_TORCHRUN in environment:
            found = [TORCHRUN]
        if not found and _speaks(SRUN, environment):
            found = [SRUN]
        address = _address(environment)
        if not found:
            return cls(address=address)
        worlds = [_world(starter, environment, address) for starter in found]
        for starter, world in zip(found[1:], worlds[1:], strict=True):
            _check_agreement(found[0], worlds[0], starter, world)
        return worlds[0]


def _speaks(starter: Starter, environment: Mapping[str, str]) -> bool:
    if starter.needs:
        return starter.needs in environment
    return any(name in environment for name in starter.variables)


def _world(starter: Starter, environment: Mapping[str, str], address: tuple[str, int] | None) -> World:
    missing = [name for name in starter.variables if name not in environment]
    if missing:
        there = next(name for name in starter.variables if name in environment)
        raise RankError(
            f"{there}={environment[there]} is set as {starter.name} does it, and {missing[0]} is not",
            advice=f"set {', '.join(missing)} as well, or unset {there} to run one process",
        )
    size = _number(environment, starter.size, 1, MAX_RANKS)
    rank = _number(environment, starter.rank, 0, size - 1, starter.size)
    local_size = _local_size(starter, environment, size)
    bound = starter.local_size if starter.local_size and local_size < size else starter.size
    local_rank = _number(environment, starter.local_rank, 0, local_size - 1, bound)
    host = environment.get(starter.host) or socket.gethostname()
    return World(rank, size, local_rank, local_size, host, address, starter.name)


def _local_size(starter: Starter, environment: Mapping[str, str], size: int) -> int:
    if starter.local_size:
        return _number(environment, starter.local_size, 1, size, starter.size)
    return _slurm_local_size(environment, size)


def _slurm_local_size(environment: Mapping[str, str], size: int) -> int:
    """The tasks on this node, of a list as "2(x3),1", in which nodes with equal numbers stand together."""
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", environment.get("SLURM_TASKS_PER_NODE", ""))
    counts: list[int] = []
    for item in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", item)
        if match is None:
            raise RankError(f"SLURM_TASKS_PER_NODE={text} is not a list as 2(x3),1")
        counts += [int(match[1])] * int(match[2] or 1)
    node = _number(environment, "SLURM_NODEID", 0, MAX_RANKS) if "SLURM_NODEID" in environment else 0
    return min(counts[node], size) if node < len(counts) else size


def _number(environment: Mapping[str, str], name: str, least: int, most: int, bound: str = "") -> int:
    text = environment[name]
    if not re.fullmatch(r"-?\d{1,18}", text.strip()):
        raise RankError(f"{name}={text!r} is no integer")
    value = int(text)
    if not least <= value <= most:
        because = f", as {bound}={environment[bound]}" if bound else ""
        raise RankError(f"{name}={value} is not from {least} to {most}{because}")
    return value


def _address(environment: Mapping[str, str]) -> tuple[str, int] | None:
    """Where ranks meet, if the environment says so."""
    given = [name for name in ADDRESS if environment.get(name, "").strip()]
    if not given:
        return None
    if len(given) == 1:
        [missing] = set(ADDRESS) - set(given)
        raise RankError(f"{given[0]}={environment[given[0]]} is set, and {missing} is not", advice="set or unset both")
    port = _number(environment, "MASTER_PORT", 1, 65535)
    return environment["MASTER_ADDR"].strip(), port % 65535 + 1 if environment.get(_AGENT_STORE) == "True" else port


def _check_agreement(first: Starter, one: World, second: Starter, other: World) -> None:
    for name in ("size", "rank", "local_rank"):
        here, there = getattr(one, name), getattr(other, name)
        if here != there:
            names = getattr(first, name), getattr(second, name)
            raise RankError(
                f"{names[0]}={here} contradicts {names[1]}={there}: the variables are those of {first.name} and "
                f"of {second.name}",
                advice="unset those of the one that did not start this process",
            )

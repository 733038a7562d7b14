"""What `blu doctor` says about running as several processes: MPI, NCCL, and how GPUs are linked."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from subprocess import CompletedProcess

import blu.installed as installed
from blu.dataclass import dataclass
from blu.errors import UnsupportedError
from blu.runtime.ranks import mpi, nccl
from blu.runtime.ranks.launch import find_mpiexec

Ask = Callable[[list[str]], "CompletedProcess[str]"]
"""Runs a command, for a limited time."""
MPI_TEST = """
import numpy
from blu.runtime.ranks import mpi, world
group = mpi.MpiGroup.of_world(world.World.of_environment())
x = numpy.ones(1, numpy.float32)
at = x.ctypes.data
group.start("all_reduce", reduction="sum", dtype="f32", source=at, target=at, count=1).wait()
assert x[0] == group.size == 2, (x, group.size)
if group.rank == 0:
    print(mpi.library_name())
"""
NCCL_TEST = "from blu.runtime.ranks import nccl; print(nccl.library()[0].get_version().libnccl)"
# What nvidia-smi calls a link between two GPUs, from the best to the worst.
LINKS = {
    "NV": "NVLink",
    "PIX": "one PCIe switch",
    "PXB": "several PCIe switches",
    "PHB": "PCIe, through the processor",
    "NODE": "PCIe, through the processor",
    "SYS": "PCIe and the link between processors",
}


@dataclass(frozen=True)
class RankPart:
    """One thing that several processes need; `advice` says how to get it where it is not `there`."""

    name: str
    text: str
    there: bool = True
    advice: str = ""


def parts(ask: Ask) -> Iterator[RankPart]:
    """All of them."""
    yield _mpi(ask)
    yield _nccl(ask)
    yield from _links(ask)


def _mpi(ask: Ask) -> RankPart:
    if not installed.version_of("mpi4py"):
        return RankPart("mpi", "no mpi4py: no exchange between processors", False, mpi.INSTALL)
    try:
        mpiexec = find_mpiexec()
    except UnsupportedError as error:
        return RankPart("mpi", error.message, False, error.advice)
    start = time.perf_counter()
    outcome = ask([mpiexec, "-n", "2", sys.executable, "-c", MPI_TEST])
    if outcome.returncode != 0:
        return RankPart("mpi", f"{mpiexec} cannot run two processes: {_last(outcome)}", False, mpi.INSTALL)
    seconds = time.perf_counter() - start
    return RankPart("mpi", f"{outcome.stdout.strip()}, two processes by {mpiexec} in {seconds:.1f} s")


def _nccl(ask: Ask) -> RankPart:
    version = installed.version_of("nccl4py")
    if not version:
        return RankPart("nccl", "no nccl4py: no exchange between GPUs", False, nccl.INSTALL)
    outcome = ask([sys.executable, "-c", NCCL_TEST])
    if outcome.returncode != 0:
        return RankPart("nccl", f"nccl4py {version}, which finds no libnccl: {_last(outcome)}", False, nccl.INSTALL)
    return RankPart("nccl", f"nccl4py {version}, libnccl {outcome.stdout.strip()}")


def _links(ask: Ask) -> Iterator[RankPart]:
    outcome = ask(["nvidia-smi", "topo", "-m"])
    if outcome.returncode == 0 and (links := found_links(outcome.stdout)):
        count, names = links
        yield RankPart(
            "gpu links", f"{count} GPUs" + (f", linked by {' and '.join(names)}" if names else ", not linked")
        )


def found_links(matrix: str) -> tuple[int, list[str]] | None:
    """The number of GPUs, and what links them, in what `nvidia-smi topo -m` prints; None where there are not two."""
    rows = [line.split() for line in re.sub(r"\x1b\[[\d;]*m", "", matrix).splitlines()]
    gpus = [row for row in rows if row and re.fullmatch(r"GPU\d+", row[0]) and "GPU1" not in row[1:]]
    if len(gpus) < 2:
        return None
    kinds = {re.sub(r"\d+$", "", cell) for row in gpus for cell in row[1 : 1 + len(gpus)]}
    return len(gpus), list(dict.fromkeys(name for kind, name in LINKS.items() if kind in kinds))


def _last(outcome: CompletedProcess[str]) -> str:
    """The last line of what a failed command said that is not empty."""
    lines = [line for line in (outcome.stdout + outcome.stderr).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"

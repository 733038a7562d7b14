"""Starts the ranks of a run on this host, and ends all when one fails, with the exit code of the first that did."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from blu import settings
from blu.dataclass import dataclass, field
from blu.errors import RankError, UnsupportedError
from blu.runtime.ranks import mpi
from blu.runtime.ranks.child import end_with_parent, is_alive
from blu.runtime.ranks.gpus import visible_gpus
from blu.runtime.ranks.running_clock import RunningClock
from blu.runtime.ranks.streams import StreamGiver
from blu.runtime.ranks.verdicts import FAILED, LOST, numbered
from blu.runtime.ranks.world import ADDRESS, HYDRA, OPEN_MPI, TORCHRUN

LOOPBACK = "127.0.0.1"
GRACE = 5.0
ENDING = 15.0
"""Seconds that processes may take to go that have nothing more to do."""
_LOOK_SECONDS = 0.02
_PAUSE_SECONDS = 0.1
_CHILD = Path(__file__).with_name("child.py")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Open MPI refuses to start more ranks than cores, and anything for root, unless it is told to.
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}


@dataclass(frozen=True)
class RankLaunch:
    """`count` ranks on this host that run `command`, through MPI or, `on_gpus`, each with a GPU of its own.

    Of several hosts (`nodes`, of which this one is number `node`), each starts as many; `rendezvous` is then an address
    of the first, which all are given. When one rank has failed, the others have `grace` seconds to end by themselves.
    """

    command: Sequence[str]
    count: int
    on_gpus: bool = False
    rendezvous: tuple[str, int] | None = None
    nodes: int = 1
    node: int = 0
    grace: float = GRACE
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def check(self) -> None:
        """Raise what is wrong with it: RankError, or UnsupportedError where ranks cannot be started here."""
        if self.count < 1 or not 0 <= self.node < self.nodes:
            raise RankError(f"{self.count} ranks on host {self.node} of {self.nodes}: hosts are counted from 0")
        if self.nodes > 1 and self.rendezvous is None:
            raise RankError(f"{self.nodes} hosts do not know where to meet", advice="give all --rendezvous HOST:PORT")
        if self.nodes > 1 and self.on_gpus and not settings.current().rank_token:
            advice = "set BLU_RANK_TOKEN to a secret, the same on all hosts, so that nobody else takes part in the run"
            raise RankError(f"{self.nodes} hosts have no token to know each other by", advice=advice)
        if self.on_gpus:
            self._check_gpus()
        elif self.nodes > 1:
            advice = "on processors, MPI starts ranks on other hosts: mpiexec -hosts HOST,HOST -n N COMMAND"
            raise UnsupportedError("--nodes is for ranks that run on GPUs", advice=advice)

    def _check_gpus(self) -> None:
        gpus = visible_gpus()
        if gpus is not None and self.count > len(gpus):
            raise RankError(
                f"{self.count} ranks on {socket.gethostname()}, which has {len(gpus)} GPUs that may be used",
                advice="each rank needs a GPU of its own",
            )

    def commands(self, folder: str) -> list[tuple[list[str], dict[str, str]]]:
        """The processes to start, with their environments."""
        child = [sys.executable, "-I", "-S", str(_CHILD), folder, str(os.getpid()), *self.command]
        others = {name for starter in (TORCHRUN, HYDRA, OPEN_MPI) for name in starter.variables} | {*ADDRESS}
        shared = {name: text for name, text in self.environment.items() if name not in others}
        shared.update(settings.as_environment(num_threads=self._threads()))
        if self.nodes == 1:  # what else listens at the port, or comes to it, is no rank of this run
            token = settings.current().rank_token or secrets.token_hex(16)
            shared.update(settings.as_environment(rank_token=token))
        if not self.on_gpus:
            if self.rendezvous is not None:
                shared.update(_meeting(self.rendezvous))
            return [([find_mpiexec(), "-n", str(self.count), *child], {**_OPEN_MPI, **shared})]
        shared.update(_meeting(self.rendezvous or (LOOPBACK, _free_port())))
        return [(child, {**shared, **self._numbers(local_rank)}) for local_rank in range(self.count)]

    def _numbers(self, local_rank: int) -> dict[str, str]:
        values = self.node * self.count + local_rank, self.nodes * self.count, local_rank, self.count
        return dict(zip(TORCHRUN.variables, map(str, values), strict=True))

    def _threads(self) -> int:
        """How many threads each rank has: those that were asked for, or a part of the processor."""
        return settings.current().num_threads or max(1, len(os.sched_getaffinity(0)) // self.count)


def _meeting(address: tuple[str, int]) -> dict[str, str]:
    return {"MASTER_ADDR": address[0], "MASTER_PORT": str(address[1])}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return probe.getsockname()[1]


def find_mpiexec() -> str:
    """The program that starts ranks: that of the MPI library which comes with a package, or the system's."""
    found = mpi.wheel_file("mpiexec") or shutil.which("mpiexec")
    if not found:
        raise UnsupportedError("there is no mpiexec to start ranks with", advice=mpi.INSTALL)
    return found


def launch(job: RankLaunch) -> int:
    """Run all ranks to their end. The exit code of the first that failed, or 0.

    Ctrl-C, SIGTERM and SIGHUP reach every rank; those that do not end then within seconds are killed.
    """
    job.check()
    with tempfile.TemporaryDirectory(prefix="blu-ranks-") as folder:
        running = _Running(folder, job)
        with running.forwarding():
            return running.wait()


def _status(code: int) -> str:
    if code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


class _Running:
    """The processes of a launch."""

    def __init__(self, folder: str, job: RankLaunch):
        self._folder = Path(folder)
        self._job = job
        self._first = job.node * job.count if job.on_gpus else 0
        self._processes: list[subprocess.Popen[Any]] = []
        self._streams = None if job.on_gpus else StreamGiver(self._folder)
        self._clock = RunningClock(_PAUSE_SECONDS)
        self._deadline = float("inf")
        self._signal = 0
        self._signalled: set[tuple[int, int]] = set()
        self._failure: tuple[int, int] | None = None

    def wait(self) -> int:
        """Start the ranks, wait until all have ended, and say which failed first."""
        try:
            for command, environment in self._job.commands(str(self._folder)):
                # A session of their own: what the terminal sends reaches them through us alone.
                start = partial(end_with_parent, os.getpid())
                options: dict[str, Any] = {"start_new_session": True, "preexec_fn": start}
                self._processes.append(subprocess.Popen(command, env=environment, **options))
            self._wait_until(self._look)
        finally:
            self._end()
        return self._report()

    def _wait_until(self, is_done: Callable[[], bool], seconds: float = float("inf")) -> None:
        """Look again and again, until it is done or so many seconds, or the deadline, have passed."""
        self._deadline = self._clock.look() + seconds
        while not is_done() and self._clock.look() <= self._deadline:
            time.sleep(_LOOK_SECONDS)

    @contextlib.contextmanager
    def forwarding(self) -> Iterator[None]:
        """Pass signals on to the ranks."""

        def forward(number: int, frame: FrameType | None) -> None:
            if self._signal:
                self._deadline = 0.0  # asked for twice
            self._signal = number
            self._send(number)

        before = {number: signal.signal(number, forward) for number in _FORWARDED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _look(self) -> bool:
        """Whether all ranks have ended, and what they have said is passed on; if one has failed, time runs."""
        if self._first_failure() is not None or self._signal:
            self._deadline = min(self._deadline, self._clock.now() + self._job.grace)
        if self._signal:
            self._send(self._signal)  # also to ranks that had not begun when it came
        if self._streams is not None:
            self._streams.give()
        return self._have_said()

    def _have_said(self) -> bool:
        return len(list(self._folder.glob("*.said"))) == self._job.count or self._have_gone()

    def _are_quiet(self) -> bool:
        """Whether what ranks have said is passed on, of those that have begun."""
        return all((self._folder / f"{rank}.said").exists() for rank in self._begun())

    def _have_died(self) -> bool:
        return not any(is_alive(number) for numbers in self._begun().values() for number in numbers)

    def _have_gone(self) -> bool:
        return all(process.poll() is not None for process in self._processes)

    def _ends(self) -> dict[int, tuple[int, int]]:
        """The exit code, and when it ended, of each rank that has."""
        ends = {}
        for path in self._folder.glob("*.end"):
            code, at = path.read_text().split()
            ends[int(path.stem)] = int(code), int(at)
        return ends

    def _first_failure(self) -> tuple[int, int] | None:
        """The rank that failed first, and its exit code."""
        # Those that were lost because of another come after it, whenever they ended.
        failed = [(code == LOST, at, rank, code) for rank, (code, at) in self._ends().items() if code != 0]
        return min(failed)[2:] if failed else None

    def _send(self, number: int) -> None:
        """A signal for each rank that runs, once."""
        ended = self._ends()
        for rank, [process, *_] in self._begun().items():
            if rank not in ended and (rank, number) not in self._signalled:
                self._signalled.add((rank, number))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, number)

    def _begun(self) -> dict[int, list[int]]:
        """Of each rank that has begun its process, and those that started it, but for this one."""
        found = {int(path.stem): map(int, path.read_text().split()) for path in self._folder.glob("*.pid")}
        return {rank: [number for number in numbers if number != os.getpid()] for rank, numbers in found.items()}

    def _end(self) -> None:
        """Leave no process behind."""
        # Before ours: a rank that is killed here has not failed, though it ends like one that somebody else killed.
        self._failure = self._first_failure()
        self._send(signal.SIGKILL)
        self._wait_until(self._are_quiet, self._job.grace)
        if self._first_failure() is None:  # mpiexec ends by itself, if all is well
            self._wait_until(self._have_gone, ENDING)
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._wait_until(self._have_died, ENDING)
        if self._streams is not None:
            self._streams.close()

    def _report(self) -> int:
        if self._signal:
            return 128 + self._signal
        if self._failure is not None:
            rank, code = self._failure
            if code < 0 or (rank and code != LOST):
                sys.stderr.write(f"blu: rank {rank} of {self._job.count * self._job.nodes} {_status(code)} first\n")
            return 128 - code if code < 0 else code
        ended, begun = self._ends(), self._begun()
        missing = [rank for rank in range(self._first, self._first + self._job.count) if rank not in ended]
        if missing:
            codes = [process.returncode for process in self._processes]
            sys.stderr.write(f"blu: {_lost(missing, begun)}\n")
            return next((code for code in codes if code > 0), FAILED)
        return 0


def _lost(missing: Sequence[int], begun: Container[int]) -> str:
    """What is said of ranks of which nobody knows how they ended."""
    never = [rank for rank in missing if rank not in begun]
    if never:
        return f"{numbered(never)} {'was' if len(never) == 1 else 'were'} never started"
    return f"nobody knows how {numbered(missing)} ended: what had started them is gone"

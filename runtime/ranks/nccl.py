"""Exchange between GPUs through NCCL (nccl4py): work that is enqueued on a stream, or captured into a graph.

The host does not wait, and learns nothing of a rank that is gone: for that there is the watch of `heartbeat`. Sums of
16-bit floats are rounded at each rank they pass, and the maximum of a number and NaN is the number.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from blu.errors import DeviceError, RankError, UnsupportedError
from blu.runtime.ranks.group import Done, Exchange, Pending, RankGroup
from blu.runtime.ranks.store import Store
from blu.runtime.ranks.world import World

INSTALL = "pip install 'blu[nccl-cu12]' or 'blu[nccl-cu13]', whichever the GPU's driver is for"
_DTYPES = {
    "f64": "FLOAT64",
    "f32": "FLOAT32",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "i8": "INT8",
    "i32": "INT32",
    "i64": "INT64",
    "u8": "UINT8",
    "u32": "UINT32",
    "u64": "UINT64",
    "bool": "UINT8",
}
# NCCL does not know 16-bit integers, and computes with no floats of 8 bits here; it moves them as what is as wide.
_MOVED = {"i16": "FLOAT16", "u16": "FLOAT16", "f8e4m3": "UINT8", "f8e5m2": "UINT8"}
_FINE = (0, 7)
"""Of NCCL's results: success, and in progress."""
_REDUCTIONS = {"sum": "SUM", "mean": "AVG", "max": "MAX", "min": "MIN"}


@cache
def library() -> tuple[ModuleType, ModuleType]:
    """nccl.core, and the functions of NCCL that take addresses. UnsupportedError where one of them is not there."""
    try:
        import nccl.core as core  # type: ignore[import-not-found]
        from nccl.bindings import nccl as functions  # type: ignore[import-not-found]

        core.get_version()
        functions.get_version()
    except (ImportError, RuntimeError, OSError) as error:
        raise UnsupportedError(f"NCCL is not to be had: {str(error).splitlines()[0]}", advice=INSTALL) from error
    return core, functions


class NcclGroup(RankGroup):
    """Ranks of an NCCL communicator, one GPU each. Arrays are in the memory of the GPU whose context is current."""

    library = "nccl"

    def __init__(self, communicator: Any):
        self._core, self._functions = library()
        self._communicator = communicator
        self._is_captured = False
        self.rank: int = communicator.rank
        self.size: int = communicator.nranks

    @classmethod
    def of_world(cls, world: World, store: Store | None, max_ctas: int | None = None) -> NcclGroup:
        """All ranks, which meet through the store; it is not needed by one that is alone.

        `max_ctas` is the most thread blocks that NCCL may take for an exchange, from kernels that run beside it.
        """
        core, _ = library()
        mine = core.get_unique_id().as_bytes if world.rank == 0 else b""
        identity = mine if store is None else store.broadcast("the identity of NCCL's communicator", mine)
        config = core.NCCLConfig(max_ctas=max_ctas)
        with _explained("start"):
            unique = core.UniqueId.from_bytes(identity)
            return cls(core.Communicator.init(world.size, world.rank, unique, config))

    def _split(self, color: int | None, key: int) -> NcclGroup | None:
        with _explained("split the ranks"):
            communicator = self._communicator.split(color, key)
        return None if color is None else NcclGroup(communicator)

    def check(self) -> None:
        if int(self._communicator.get_async_error()) not in _FINE:
            raise DeviceError(
                f"an exchange of NCCL's failed: {self._communicator.get_last_error()}",
                advice="what ranks exchanged since is worth nothing: start all of them again",
            )

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        with _explained("start exchanges together"), self._core.group():
            yield

    def abort(self) -> None:
        self._communicator.abort()

    def close(self) -> None:
        """Leave the group. NCCL would wait for graphs to be gone that hold its exchanges: those are left to the end
        of the process."""
        if not self._is_captured:
            self._communicator.destroy()

    def _begin(self, exchange: Exchange, stream: int) -> Pending:
        self._is_captured = self._is_captured or _is_capturing(stream)
        with _explained(f"start {exchange}"):
            getattr(self, f"_{exchange.kind}")(exchange, stream)
        return Done()

    def _all_reduce(self, exchange: Exchange, stream: int) -> None:
        dtype, op = self._reduced(exchange)
        communicator = self._communicator._comm
        self._functions.all_reduce(exchange.source, exchange.target, exchange.count, dtype, op, communicator, stream)

    def _reduce_scatter(self, exchange: Exchange, stream: int) -> None:
        dtype, op = self._reduced(exchange)
        taken = exchange.taken(self.size)
        communicator = self._communicator._comm
        self._functions.reduce_scatter(exchange.source, exchange.target, taken, dtype, op, communicator, stream)

    def _all_gather(self, exchange: Exchange, stream: int) -> None:
        dtype, communicator = self._moved(exchange), self._communicator._comm
        self._functions.all_gather(exchange.source, exchange.target, exchange.count, dtype, communicator, stream)

    def _broadcast(self, exchange: Exchange, stream: int) -> None:
        self._functions.broadcast(
            exchange.source,
            exchange.target,
            exchange.count,
            self._moved(exchange),
            exchange.root,
            self._communicator._comm,
            stream,
        )

    def _all_to_all(self, exchange: Exchange, stream: int) -> None:
        part = exchange.count // self.size
        step = part * exchange.itemsize
        with self._core.group():
            for rank in range(self.size):
                self._send(exchange, exchange.source + rank * step, part, rank, stream)
                self._receive(exchange, exchange.target + rank * step, part, rank, stream)

    def _permute(self, exchange: Exchange, stream: int) -> None:
        with self._core.group():
            self._send(exchange, exchange.source, exchange.count, (self.rank + exchange.shift) % self.size, stream)
            self._receive(exchange, exchange.target, exchange.count, (self.rank - exchange.shift) % self.size, stream)

    def _send(self, exchange: Exchange, address: int, count: int, rank: int, stream: int) -> None:
        self._functions.send(address, count, self._moved(exchange), rank, self._communicator._comm, stream)

    def _receive(self, exchange: Exchange, address: int, count: int, rank: int, stream: int) -> None:
        self._functions.recv(address, count, self._moved(exchange), rank, self._communicator._comm, stream)

    def _moved(self, exchange: Exchange) -> int:
        name = _MOVED.get(exchange.dtype) or _DTYPES[exchange.dtype]
        return int(getattr(self._core.NcclDataType, name))

    def _reduced(self, exchange: Exchange) -> tuple[int, int]:
        """NCCL's numbers of the dtype and the reduction."""
        if exchange.dtype not in _DTYPES:
            raise RankError(f"NCCL knows no {exchange}", advice="convert to i32 or u32")
        op = getattr(self._core.NcclRedOp, _REDUCTIONS[exchange.reduction])
        return int(getattr(self._core.NcclDataType, _DTYPES[exchange.dtype])), int(op)


def _is_capturing(stream: int) -> bool:
    """Whether what is enqueued on the stream becomes a part of a graph."""
    from cuda.bindings import driver  # type: ignore[attr-defined]

    _, status = driver.cuStreamIsCapturing(stream)
    return int(status) != 0


@contextlib.contextmanager
def _explained(doing: str) -> Iterator[None]:
    """What NCCL raises, as an error of Blu's that says what it was about to do."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ not in ("NCCLError", "NcclInvalid"):
            raise
        raise DeviceError(f"NCCL could not {doing}: {error}", advice="NCCL_DEBUG=INFO says more") from error

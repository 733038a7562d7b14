"""The store that rank 0 keeps: where ranks find each other, leave each other small values, and are watched."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import hmac
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from blu.errors import RankError
from blu.runtime.ranks import frames
from blu.runtime.ranks.running_clock import RunningClock
from blu.runtime.ranks.verdicts import Member, Position, Verdict, died, failed, judge, numbered

GREETING_SECONDS = 10.0
GREETING_BYTES = 4096
TALK, BEAT = "talk", "beat"
"""What a rank's two connections are for: questions, which may wait for others, and signs of life."""
JOIN = "the start"
"""The round that ranks come to first."""


def proof(token: bytes, *parts: str) -> str:
    """What only those who know the token can say about the parts."""
    return hmac.new(token, "\0".join(parts).encode(), hashlib.sha256).hexdigest()


def listen(address: tuple[str, int]) -> socket.socket:
    """A socket that listens there (port 0: any that is free). RankError if the port is taken."""
    host, port = address
    try:
        family, kind, _, _, at = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return _bound(socket.socket(family, kind), at)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise RankError(
                f"port {port} of {host}, where ranks are to meet, is taken",
                advice="end what listens there, or choose another with --rendezvous HOST:PORT or MASTER_PORT",
            ) from error
        if not isinstance(error, socket.gaierror) and error.errno != errno.EADDRNOTAVAIL:
            raise RankError(f"cannot listen at {host}:{port}: {error.strerror or error}") from error
    # The name that others know this host by may be no address of its own, as behind a translation of addresses.
    return _bound(socket.socket(socket.AF_INET, socket.SOCK_STREAM), ("", port))


def _bound(listener: socket.socket, at: Any) -> socket.socket:
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(at)
        listener.listen(4096)
    except OSError:
        listener.close()
        raise
    return listener


class StoreServer:
    """Serves `size` ranks in a thread of its own, from when it is made.

    A rank that is silent, or that others wait for, for longer than `timeout` seconds is given up, and all with it.
    """

    def __init__(self, listener: socket.socket, size: int, token: bytes, timeout: float):
        self.size = size
        self._listener = listener
        self._token = token
        self._timeout = timeout
        self._interval = min(1.0, timeout / 8)
        self._clock = RunningClock(self._interval)
        self._members: dict[int, Member] = {}
        self._values: dict[str, bytes] = {}
        self._readers: dict[str, int] = {}  # of values that so many ranks will still ask for, once each
        self._counts: dict[str, int] = {}
        self._rounds: dict[str, dict[int, bytes]] = {}
        self._answered: dict[str, set[int]] = {}
        self._verdict: Verdict | None = None
        self._watchers: dict[int, asyncio.StreamWriter] = {}
        self._told: set[int] = set()
        self._has_started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="blu store", daemon=True)
        self._thread.start()
        self._has_started.wait()

    @property
    def kept(self) -> int:
        """How many values, counts and rounds it remembers."""
        return len(self._values) + len(self._counts) + len(self._rounds)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return self._listener.getsockname()[:2]

    def close(self, seconds: float = 5.0) -> None:
        """End once every other rank has left or was told why all end, or after so many seconds."""
        asyncio.run_coroutine_threadsafe(self._until(self._is_over, seconds, heeding=False), self._loop).result()
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _is_over(self) -> bool:
        others = [member for member in self._members.values() if member.rank != 0]
        return all(member.has_left or member.rank in self._told for member in others)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed, self._stopped = asyncio.Event(), asyncio.Event()
        server = await asyncio.start_server(self._connected, sock=self._listener)
        watching = asyncio.create_task(self._watch())
        self._has_started.set()
        await self._stopped.wait()
        server.close()
        watching.cancel()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # in which connections are closed

    def _notify(self) -> None:
        """Let all who wait look again."""
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    async def _until(self, is_done: Callable[[], bool], seconds: float, heeding: bool = True) -> bool:
        """Whether it is done in time. A verdict ends the waiting, unless it is not heeded."""
        end = time.monotonic() + seconds
        while not is_done():
            left = end - time.monotonic()
            if left <= 0 or (heeding and self._verdict):
                return False
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return True

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        member, role = None, ""
        with contextlib.suppress(ConnectionError, asyncio.CancelledError, TimeoutError):
            try:
                member, role = await asyncio.wait_for(self._greet(reader, writer), GREETING_SECONDS)
                while member is not None:
                    header, body = await frames.receive_async(reader)
                    writer.write(await self._answer(member, header, body))
                    await writer.drain()
            finally:
                writer.close()
                if member is not None:
                    self._lost(member, role)

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[Member | None, str]:
        """Who has connected; nobody if it is a stranger, or a rank that cannot take part, which is told why."""
        nonce = secrets.token_hex(16)
        writer.write(frames.encode({"blu": "store", "nonce": nonce}))
        header, _ = await frames.receive_async(reader, GREETING_BYTES)
        role, rank, size = header.get("role"), header.get("rank"), header.get("size")
        expected = proof(self._token, nonce, str(header.get("nonce")), f"{role} {rank} {size}")
        refusal = "the token is another run's"
        if hmac.compare_digest(expected, str(header.get("proof"))) and role in (TALK, BEAT):
            refusal = self._refusal(header) if role == TALK else ""
        if not isinstance(rank, int) or refusal:
            writer.write(frames.encode({"refused": refusal}))
            await writer.drain()
            return None, ""
        member = self._enter(header, writer)
        writer.write(frames.encode({"proof": proof(self._token, str(header.get("nonce")), nonce)}))
        await writer.drain()
        return member, str(role)

    def _refusal(self, header: frames.Header) -> str:
        """Why a rank cannot take part, or nothing. What is wrong with one rank is so with all."""
        rank, size = int(header["rank"]), int(header["size"])
        who = f"rank {rank} ({header.get('host')}, process {header.get('process')})"
        refusal = ""
        if len(self._members) == self.size:  # this run has begun, and whoever comes now does not end it
            return f"{who} came when all {self.size} ranks were there already: another run meets at this address"
        if size != self.size:
            refusal = f"{who} says that there are {size} ranks, and rank 0 that there are {self.size}"
        elif rank in self._members:
            refusal = f"{who} came when {self._members[rank]} was there already: two processes have one rank"
        if refusal:
            self._end(Verdict(refusal, (rank,)))
        return refusal

    def _enter(self, header: frames.Header, writer: asyncio.StreamWriter) -> Member:
        rank = header["rank"]
        if header["role"] == TALK:
            host, process = str(header.get("host")), int(header.get("process", 0))
            self._members[rank] = Member(rank, host, process, self._clock.now())
        member = self._members[rank]
        if header["role"] == BEAT:
            member.is_watched = True
            self._watchers[rank] = writer
            self._tell(rank)
        return member

    async def _answer(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        member.heard = self._clock.now()
        action = getattr(self, f"_do_{header.get('do')}", None)
        if action is None:
            raise frames.FrameError(f"the store cannot {header.get('do')!r}")
        try:
            result = action(member, header, body)
            return await result if asyncio.iscoroutine(result) else result
        except (KeyError, TypeError, ValueError) as error:
            raise frames.FrameError(f"{header.get('do')} without {error}") from error

    def _do_set(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        self._values[header["key"]] = body
        if "readers" in header:
            self._readers[header["key"]] = int(header["readers"])
        self._notify()
        return frames.encode({})

    async def _do_get(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        key = header["key"]
        member.asks = repr(key)
        if not await self._until(lambda: key in self._values, float(header["seconds"])):
            return self._late(f"nobody has set {key!r} within {header['seconds']:g} s")
        member.asks = ""
        return frames.encode({}, self._read(key))

    def _read(self, key: str) -> bytes:
        """A value, which is forgotten with the last of its readers, if they are counted."""
        if key not in self._readers:
            return self._values[key]
        self._readers[key] -= 1
        if self._readers[key]:
            return self._values[key]
        del self._readers[key]
        return self._values.pop(key)

    def _do_add(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        key = header["key"]
        self._counts[key] = self._counts.get(key, 0) + int(header["amount"])
        return frames.encode({"count": self._counts[key]})

    def _do_drop(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        self._values.pop(header["key"], None)
        self._readers.pop(header["key"], None)
        self._counts.pop(header["key"], None)
        return frames.encode({})

    async def _do_gather(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        name, seconds = header["name"], float(header["seconds"])
        gathered = self._rounds.setdefault(name, {})
        gathered[member.rank] = body
        self._notify()
        member.asks = name.partition("#")[0]
        if not await self._until(lambda: len(gathered) == self.size, seconds):
            message = self._missing(name, gathered, seconds)
            if name.startswith(JOIN):  # nobody need wait any longer
                self._end(Verdict(message, tuple(rank for rank in range(self.size) if rank not in gathered)))
            return self._late(message)
        member.asks = ""
        values = [gathered[rank] for rank in range(self.size)]
        answered = self._answered.setdefault(name, set())
        answered.add(member.rank)
        if len(answered) == self.size:  # rounds have numbers: nobody comes to this one again
            del self._rounds[name], self._answered[name]
        return frames.encode({"lengths": list(map(len, values))}, b"".join(values))

    def _missing(self, name: str, gathered: dict[int, bytes], seconds: float) -> str:
        absent = [rank for rank in range(self.size) if rank not in gathered]
        what, time = name.partition("#")[0], f"{round(seconds, 1):g} s"
        text = f"{numbered(absent)} of {self.size} did not come to {what} within {time}"
        elsewhere = [self._members[rank] for rank in absent if rank in self._members]
        known = [
            f"{member} {f'waits for {member.asks}' if member.asks else f'is {member.position}'}"
            for member in elsewhere[:4]
        ]
        never = [rank for rank in absent if rank not in self._members]
        known += [f"{numbered(never)} never connected"] if never else []
        return "; ".join([text, *known])

    def _late(self, message: str) -> bytes:
        """The answer to who has waited in vain."""
        if self._verdict is not None:
            return frames.encode({"lost": self._verdict.message})
        return frames.encode({"failed": message})

    def _do_beat(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        member.position = Position.parse(header["position"])
        return frames.encode({"do": "live"})

    def _do_fail(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        member.position = Position.parse(header["position"])
        member.has_left = True
        self._end(failed(member, str(header["message"])))
        return frames.encode({})

    def _do_leave(self, member: Member, header: frames.Header, body: bytes) -> bytes:
        member.has_left = True
        self._notify()
        return frames.encode({})

    def _lost(self, member: Member, role: str) -> None:
        """A rank's connection has ended."""
        if role == BEAT:
            self._watchers.pop(member.rank, None)
        if not member.has_left:
            member.has_left = True
            self._end(died(member))

    def _end(self, verdict: Verdict) -> None:
        """Tell all ranks to end; the first verdict counts."""
        self._verdict = self._verdict or verdict
        for rank in list(self._watchers):
            self._tell(rank)
        self._notify()

    def _tell(self, rank: int) -> None:
        if self._verdict is not None and rank not in self._told:
            self._told.add(rank)
            self._watchers[rank].write(frames.encode(self._verdict.to_json()))

    async def _watch(self) -> None:
        while self._verdict is None:
            await asyncio.sleep(self._interval)
            now = self._clock.look()
            if verdict := judge([self._members[rank] for rank in sorted(self._members)], now, self._timeout):
                self._end(verdict)

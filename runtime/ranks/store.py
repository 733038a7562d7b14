"""A rank's side of the store that rank 0 keeps (`StoreServer`): small values, rounds that all ranks come to."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections import Counter
from typing import Any

from blu.errors import RankError, RankLostError
from blu.runtime.ranks import frames
from blu.runtime.ranks.server import BEAT, GREETING_SECONDS, JOIN, TALK, proof
from blu.runtime.ranks.verdicts import Position
from blu.runtime.ranks.world import World

_RETRY_SECONDS = 0.05
_GRACE = 10.0
"""Seconds that the store may take to say that time is up."""


class Store:
    """The store as one rank sees it. Any thread may use it; who waits keeps the others waiting.

    Values are bytes. What waits gives up with a RankError that names the ranks that did not come, after `seconds`, or
    at once where another rank was lost.
    """

    def __init__(self, address: tuple[str, int], world: World, token: bytes, seconds: float):
        """Connect to the store, and wait for all ranks to be there."""
        self.address = address
        self.world = world
        self.seconds = seconds
        self._token = token
        self._lock = threading.Lock()
        self._rounds: Counter[str] = Counter()
        end = time.monotonic() + seconds
        self._connection = self._connect(TALK, seconds)
        try:
            self.gather(JOIN, b"", max(end - time.monotonic(), _RETRY_SECONDS))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def set(self, key: str, value: bytes) -> None:
        """Leave a value for all ranks."""
        self._ask({"do": "set", "key": key}, value)

    def get(self, key: str, seconds: float | None = None) -> bytes:
        """The value of a key, once a rank has set it."""
        return self._ask({"do": "get", "key": key}, seconds=seconds or self.seconds)[1]

    def add(self, key: str, amount: int = 1) -> int:
        """Add to a count that all ranks share (0 at first); what it is then."""
        return self._ask({"do": "add", "key": key, "amount": amount})[0]["count"]

    def drop(self, key: str) -> None:
        """Forget the value and the count of a key, if there are any: nobody will ask for them."""
        self._ask({"do": "drop", "key": key})

    def gather(self, name: str, value: bytes, seconds: float | None = None) -> list[bytes]:
        """What all ranks brought to the round of this name, by rank. A name may be used again, for another round."""
        self._rounds[name] += 1
        request = {"do": "gather", "name": f"{name}#{self._rounds[name]}"}
        header, body = self._ask(request, value, seconds or self.seconds)
        values, begin = [], 0
        for length in header["lengths"]:
            values.append(body[begin : begin + length])
            begin += length
        return values

    def barrier(self, name: str, seconds: float | None = None) -> None:
        """Wait until all ranks are here."""
        self.gather(name, b"", seconds)

    def broadcast(self, name: str, value: bytes = b"", root: int = 0, seconds: float | None = None) -> bytes:
        """The value that rank `root` gives, which waits for nobody. It is forgotten once all others have read it."""
        self._rounds[name] += 1
        key = f"{name}#{self._rounds[name]}"
        if self.world.rank == root:
            if self.world.size > 1:
                self._ask({"do": "set", "key": key, "readers": self.world.size - 1}, value)
            return value
        return self.get(key, seconds)

    def fail(self, message: str, position: Position) -> None:
        """Tell all ranks that this one ends, and why: they end as well."""
        request = {"do": "fail", "message": message, "position": position.to_json()}
        self._ask(request, seconds=0.0)

    def leave(self) -> None:
        """Say goodbye: this rank needs nobody any more."""
        self._ask({"do": "leave"}, seconds=0.0)

    def close(self) -> None:
        """Drop the connection."""
        self._connection.close()

    def watched_connection(self) -> socket.socket:
        """A connection by which the store knows that this process lives."""
        return self._connect(BEAT, self.seconds)

    def _ask(self, request: frames.Header, body: bytes = b"", seconds: float | None = None) -> frames.Frame:
        """The store's answer, which may take so many seconds."""
        patience = self.seconds if seconds is None else seconds
        try:
            with self._lock:
                self._connection.settimeout(patience + _GRACE)
                self._connection.sendall(frames.encode(request | {"seconds": patience}, body))
                header, answer = frames.receive(self._connection)
        except OSError as error:
            raise self._lost(error) from error
        if "lost" in header:
            raise RankLostError(str(header["lost"]))
        if "failed" in header:
            raise RankError(str(header["failed"]))
        return header, answer

    def _lost(self, error: OSError) -> RankLostError:
        host, port = self.address
        return RankLostError(f"rank 0, which keeps the store at {host}:{port}, is gone: {error}")

    def _connect(self, role: str, seconds: float) -> socket.socket:
        """A connection that has been greeted. A store that is not there yet may come within so many seconds."""
        end = time.monotonic() + seconds
        while True:
            try:
                connection = socket.create_connection(self.address, timeout=max(end - time.monotonic(), 0.1))
                break
            except OSError as error:
                if time.monotonic() + _RETRY_SECONDS > end:
                    raise self._nobody(error, seconds) from error
                time.sleep(_RETRY_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._greet(connection, role)
        except BaseException:
            connection.close()
            raise
        return connection

    def _nobody(self, error: OSError, seconds: float) -> RankError:
        host, port = self.address
        return RankError(
            f"rank {self.world.rank} of {self.world.size} found nobody at {host}:{port} within {seconds:g} s "
            f"({error.strerror or error})",
            advice="is rank 0 running, and is this its address (MASTER_ADDR, MASTER_PORT, or --rendezvous)?",
        )

    def _greet(self, connection: socket.socket, role: str) -> None:
        """Prove to the store that this rank belongs to the run, and have it prove the same."""
        connection.settimeout(GREETING_SECONDS)
        mine, theirs = secrets.token_hex(16), ""
        answer: frames.Header = {}
        try:
            header, _ = frames.receive(connection, 4096)
            theirs = str(header.get("nonce"))
            connection.sendall(frames.encode(self._greeting(role, mine, theirs)))
            answer, _ = frames.receive(connection, 1 << 16)
        except (OSError, TimeoutError) as error:
            raise self._stranger(str(error)) from error
        if "refused" in answer:
            raise RankError(f"rank 0 refuses rank {self.world.rank}: {answer['refused']}", advice=_advice(answer))
        if answer.get("proof") != proof(self._token, mine, theirs):
            raise self._stranger("it does not know the token")

    def _greeting(self, role: str, mine: str, theirs: str) -> dict[str, Any]:
        rank, size = self.world.rank, self.world.size
        return {
            "role": role,
            "rank": rank,
            "size": size,
            "host": self.world.host,
            "process": os.getpid(),
            "nonce": mine,
            "proof": proof(self._token, theirs, mine, f"{role} {rank} {size}"),
        }

    def _stranger(self, reason: str) -> RankError:
        host, port = self.address
        return RankError(
            f"what listens at {host}:{port} is not rank 0 of this run: {reason}",
            advice="choose another port with --rendezvous HOST:PORT or MASTER_PORT",
        )


def _advice(answer: frames.Header) -> str:
    refused = str(answer.get("refused"))
    if "another run meets" in refused:
        return "choose another port with --rendezvous HOST:PORT or MASTER_PORT"
    if "token" in refused:
        return "give all ranks of a run the same BLU_RANK_TOKEN, and each run at one address another port"
    return ""

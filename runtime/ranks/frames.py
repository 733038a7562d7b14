"""Messages between ranks and the store: an object of JSON, and bytes that it is about. Nothing in them is ever run."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import Any

MAX_HEADER = 1 << 20
MAX_BODY = 64 << 20
_LENGTHS = struct.Struct("!II")

Header = dict[str, Any]
Frame = tuple[Header, bytes]


class FrameError(ConnectionError):
    """What came is no message of Blu's."""


def encode(header: Header, body: bytes = b"") -> bytes:
    """The bytes of a message."""
    text = json.dumps(header).encode()
    return _LENGTHS.pack(len(text), len(body)) + text + body


def _lengths(prefix: bytes, limit: int) -> tuple[int, int]:
    header, body = _LENGTHS.unpack(prefix)
    if header > min(MAX_HEADER, limit) or body > min(MAX_BODY, limit):
        raise FrameError(f"a message of {header} + {body} bytes")
    return header, body


def _decode(text: bytes, body: bytes) -> Frame:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FrameError("a message that is no JSON") from error
    if not isinstance(header, dict):
        raise FrameError("a message that is no object")
    return header, body


def receive(connection: socket.socket, limit: int = MAX_BODY) -> Frame:
    """The next message. ConnectionError where the other side is gone or talks otherwise, TimeoutError if it is late."""
    header, body = _lengths(_exactly(connection, _LENGTHS.size), limit)
    return _decode(_exactly(connection, header), _exactly(connection, body))


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(count - len(data), 1 << 20))
        if not piece:
            raise ConnectionError("the connection was closed")
        data += piece
    return bytes(data)


async def receive_async(reader: asyncio.StreamReader, limit: int = MAX_BODY) -> Frame:
    """The same, for the store."""
    try:
        header, body = _lengths(await reader.readexactly(_LENGTHS.size), limit)
        return _decode(await reader.readexactly(header), await reader.readexactly(body))
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("the connection was closed") from error

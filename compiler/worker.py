"""The process that generates machine code: reads requests from standard input, answers on standard output.

A message is a line of JSON and, where the line has "bytes", that many bytes after it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import IO, Any


def write_message(stream: IO[bytes], header: dict[str, Any], payload: bytes = b"") -> None:
    """Send a line of JSON that says how many bytes follow, and those bytes."""
    stream.write(json.dumps({**header, "bytes": len(payload)}).encode() + b"\n")
    stream.write(payload)
    stream.flush()


def read_message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """The next message, or None where the other side has ended."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        return None
    header = json.loads(line)
    payload = stream.read(header["bytes"])
    return (header, payload) if len(payload) == header["bytes"] else None


def answer(header: dict[str, Any], payload: bytes) -> bytes:
    """Do what a request asks for: "kernels" or "llvm" to an object, "assembly" or "llvm_ir" to text."""
    from blu.compiler.codegen import Codegen

    codegen = Codegen(header["target"])
    text = payload.decode()
    kinds = {
        "kernels": codegen.object_of_kernels,
        "llvm": codegen.object_of_llvm,
        "assembly": lambda text: codegen.assembly(text).encode(),
        "llvm_ir": lambda text: codegen.llvm_ir(text).encode(),
    }
    return kinds[header["kind"]](text)


def main() -> None:
    """Serve until standard input ends. Standard output carries messages only: prints of libraries go to the log."""
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import blu.compiler.codegen  # noqa: F401  (so that the first request does not wait for it)

    while message := read_message(requests):
        try:
            write_message(answers, {"ok": True}, answer(*message))
        except Exception as error:
            write_message(answers, {"ok": False, "error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()

"""The process that generates machine code: reads requests from standard input, answers on standard output.

A message is a line of JSON and, where the line has "bytes", that many bytes after it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from typing import IO, Any

KERNEL = "kernel: "
_kernel = ""


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
    """Do what a request asks for: "kernels" or "llvm" to an object, "assembly", "ptx" or "llvm_ir" to text."""
    return _kinds(json.dumps(header["target"]))[header["kind"]](payload)


@lru_cache(maxsize=4)
def _kinds(target: str) -> dict[str, Callable[[bytes], bytes]]:
    """What can be made for a target (as JSON)."""
    from blu.compiler.codegen.native import Codegen
    from blu.compiler.codegen.ptx import PtxCodegen

    described = json.loads(target)
    if described["triple"].startswith("nvptx"):
        ptx = PtxCodegen(described, announce)
        return {"ptx": ptx.ptx_of_kernels, "llvm_ir": lambda text: ptx.llvm_ir(text).encode()}
    codegen = Codegen(described, announce)
    return {
        "kernels": codegen.object_of_kernels,
        "llvm": lambda text: codegen.object_of_llvm(text.decode()),
        "assembly": lambda text: codegen.assembly(text).encode(),
        "llvm_ir": lambda text: codegen.llvm_ir(text).encode(),
    }


def announce(kernel: str) -> None:
    """Write to the log which kernel is next, so that the parent can say at which one this process died."""
    global _kernel
    _kernel = kernel
    os.write(2, f"{KERNEL}{kernel}\n".encode())


def _end_with(parent: int) -> None:
    """End this process when its parent has died, whatever it is computing."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def serve(answer: Callable[[dict[str, Any], bytes], bytes], prepare: Callable[[], None]) -> None:
    """Answer until standard input ends. Standard output carries messages only: prints of libraries go to the log.

    `prepare` imports what the first answer would wait for.
    """
    global _kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Control-C is for the parent, which kills a worker it gives up
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    prepare()
    from blu.errors import BluError

    while message := read_message(requests):
        _kernel = ""
        try:
            write_message(answers, {"ok": True}, answer(*message))
        except Exception as error:
            said = error.message if isinstance(error, BluError) else f"{type(error).__name__}: {error}"
            write_message(answers, {"ok": False, "error": said, "kernel": _kernel})


def _import_generator() -> None:
    # MLIR's bindings import it for attributes that nobody makes here: half of the time until the first answer.
    sys.modules.setdefault("numpy", None)  # type: ignore[arg-type]
    import blu.compiler.codegen.native  # noqa: F401


if __name__ == "__main__":
    serve(answer, _import_generator)

"""The process that runs passes for a tuner: of a module it gives what all passes that it has before it make of it."""

from __future__ import annotations

from typing import Any

from blu.compiler.codegen.worker import serve


def answer(header: dict[str, Any], payload: bytes) -> bytes:
    """The text of a module after these passes."""
    from blu.compiler.driver.remaining import run_remaining

    return run_remaining(payload.decode()).encode()


def _import_passes() -> None:
    import blu.compiler.driver.remaining  # noqa: F401


if __name__ == "__main__":
    serve(answer, _import_passes)

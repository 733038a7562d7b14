"""The process that writes kernels of GPUs: of a module with one kernel it gives what its emitter makes of that."""

from __future__ import annotations

from typing import Any

from blu.compiler.codegen.worker import serve


def answer(header: dict[str, Any], payload: bytes) -> bytes:
    """The kernel's code, as bytecode."""
    from blu.passes.gpu.emission import emit_alone

    return emit_alone(payload)


def _import_emitters() -> None:
    import blu.passes.gpu.emission  # noqa: F401
    from blu.dialects.core.context import kept_context

    kept_context()  # which the first answer would wait for


if __name__ == "__main__":
    serve(answer, _import_emitters)

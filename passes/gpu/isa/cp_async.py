"""`cp.async`: copies to shared memory that threads begin and wait for.

Source: PTX ISA, "cp.async", "cp.async.commit_group", "cp.async.wait_group".
"""

from __future__ import annotations

from blu.dialects.core.mlir import ir, nvvm
from blu.passes.gpu.isa.assembly import assembly


def copy(address: ir.Value, offset: int, source: ir.Value, size: int, present: ir.Value | None = None) -> None:
    """Begin to copy `size` bytes (16, 8 or 4) to shared memory; only the first `present` are read, the others become 0.

    Without `present`, all are there.
    """
    kind = "cg" if size == 16 else "ca"
    text = f"cp.async.{kind}.shared.global [$0+{offset}], [$1], {size}"
    if present is None:
        assembly([], [address, source], f"{text};", "r,l,~{memory}")
    else:
        assembly([], [address, source, present], f"{text}, $2;", "r,l,r,~{memory}")


def commit_group() -> None:
    """Close the group of copies that were begun since the last group."""
    nvvm.cp_async_commit_group()


def wait_group(count: int) -> None:
    """Wait until at most the last `count` groups of copies are still on their way."""
    nvvm.cp_async_wait_group(count)


def wait_all() -> None:
    """Wait until all copies that this thread began have arrived."""
    assembly([], [], "cp.async.wait_all;", "~{memory}")

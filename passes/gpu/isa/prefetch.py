"""`cp.async.bulk.prefetch.L2`: memory that is brought into the second cache before anyone asks for it.

Source: PTX ISA, "cp.async.bulk.prefetch".
"""

from __future__ import annotations

from blu.dialects.core.mlir import ir
from blu.passes.gpu.isa.assembly import assembly

BULK_PREFETCH = "cp.async.bulk.prefetch.L2.global [$0], $1;"
PIECE_BYTES = 16
"""Addresses and sizes are multiples of it."""


def bulk_prefetch(address: ir.Value, size: ir.Value) -> None:
    """Bring `size` bytes (i32) from a global address (i64) on; what is written there in the meantime stays right."""
    assembly([], [address, size], BULK_PREFETCH, "l,r")

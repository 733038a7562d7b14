"""What an emitter says of its kernel's launch, by attributes that become the launch's."""

from __future__ import annotations

GRID, THREADS, SHARED, CLUSTER = "blu.grid", "blu.threads", "blu.shared_bytes", "blu.cluster"
"""On GPUs: blocks in three dimensions, threads of a block, bytes of shared memory, and blocks of a cluster."""
PER_PROCESSOR = "nvvm.minctasm"
"""Blocks that have enough registers on a processor at the same time."""
MAPS = "blu.tensor_maps"
"""The tensor maps that a kernel takes as its last arguments."""
READS_EARLY = "blu.reads_early"
"""Of a kernel on a GPU that first of all reads much of its arguments, which it need not wait for."""

"""What an emitted kernel says of its launch, by attributes that passes over the host program read."""

from __future__ import annotations

BLOCKS, CHUNK = "blu.blocks", "blu.chunk"
"""On processors: blocks, and how many of them a thread claims at a time."""
GRID, THREADS, SHARED, CLUSTER = "blu.grid", "blu.threads", "blu.shared_bytes", "blu.cluster"
"""On GPUs: blocks in three dimensions, threads of a block, bytes of shared memory, and blocks of a cluster."""
PER_PROCESSOR = "nvvm.minctasm"
"""Blocks that have enough registers on a processor at the same time."""
MAPS = "blu.tensor_maps"
"""The tensor maps that a kernel takes as its last arguments."""
MAX_GRID = (2**31 - 1, 65535, 65535)
"""The most blocks of a grid in its first dimension, and in its second and third."""

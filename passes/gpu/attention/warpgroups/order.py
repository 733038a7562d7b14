"""The order of blocks with a causal mask, of which those of the last rows have most to do: they come first.

Heads take turns, so that the longest blocks of several heads come before the shorter ones of any.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from blu.dialects.targets.nvidia import GpuTarget

BLOCKS_AT_A_TIME = 4
"""Of a warpgroup with rows of 64 columns, on a processor."""
CACHED_BYTES = 8 << 20
"""Of the L2 cache, for what the blocks of several heads walk over at a time."""


def heads_together(own: Sequence[int], walked: Sequence[Sequence[int]], size: int) -> int:
    """Heads of `own` rows [.., heads, rows, columns] whose blocks take turns, as long as what they walk over is cached.

    The more heads take turns, the less is left for the end.
    """
    heads = own[-3] if len(own) > 2 else 1
    each = sum(prod(shape) for shape in walked) * size // prod(own[:-2])
    fits = (count for count in range(heads, 1, -1) if heads % count == 0 and count * each <= CACHED_BYTES)
    return next(fits, 1)


def is_one_round(blocks: int, target: GpuTarget) -> bool:
    """Whether so many blocks are there at a time, so that what they have to do is shared out once and for all."""
    return blocks <= BLOCKS_AT_A_TIME * target.processors

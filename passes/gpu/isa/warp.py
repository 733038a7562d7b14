"""How many threads run together, and the mask of all of them (`membermask`)."""

from __future__ import annotations

WARP = 32
ALL_LANES = -1

"""How much memory this process takes."""

from __future__ import annotations

import resource
import sys


def peak_memory_bytes() -> int:
    """The most memory that this process has had so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit

"""How much arithmetic training takes, and how much the machine could do: for the share that is used (MFU)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

# Multiplications and additions of f32 in one cycle of a core with two units for fused multiply-adds.
FLOPS_PER_CYCLE = {"x86-64-v4": 64, "x86-64-v3": 32, "x86-64-v2": 8, "aarch64": 16}


def flops_per_token(config: Mapping[str, Any], num_parameters: int, length: int) -> int:
    """Multiplications and additions for a token, both ways: 6 for a parameter that multiplies, and attention.

    As in PaLM's appendix B; the table of positions multiplies nothing.
    """
    multiplied = num_parameters - config["n_positions"] * config["n_embd"]
    return 6 * multiplied + 12 * config["n_layer"] * config["n_embd"] * length


@cache
def peak_flops(target: str, threads: int) -> float | None:
    """What the machine's cores could do in f32 at their present clock, per second; None where it is not known."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    clocks = [float(value) for value in re.findall(r"^cpu MHz\s*: ([\d.]+)", text, re.MULTILINE)]
    if not clocks or target not in FLOPS_PER_CYCLE:
        return None
    return max(clocks) * 1e6 * FLOPS_PER_CYCLE[target] * threads

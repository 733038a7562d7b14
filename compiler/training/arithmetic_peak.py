"""How much arithmetic training takes, and how much the machine could do: for the share that is used (MFU)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

# Multiplications and additions of f32 in one cycle of a core with two units for fused multiply-adds.
FLOPS_PER_CYCLE = {"x86-64-v4": 64, "x86-64-v3": 32, "x86-64-v2": 8, "aarch64": 16}


# Dense products of 16-bit numbers, of tf32, and f32 arithmetic, in 10^12 operations per second, by what is in the
# names of GPUs; the first that fits counts. From NVIDIA's data sheets, where sums are in f32.
_GPU_PEAKS = (
    ("H200 NVL", (835, 417, 60)),
    ("H200", (989, 494, 67)),
    ("H100 NVL", (835, 417, 60)),
    ("H100 PCIe", (756, 378, 51)),
    ("H100", (989, 494, 67)),
    ("A100", (312, 156, 19.5)),
    ("A30", (165, 82, 10.3)),
    ("A10G", (70, 35, 35)),
    ("A10", (125, 62.5, 31.2)),
    ("L40S", (362, 183, 91.6)),
    ("L4", (121, 60, 30.3)),
    ("RTX 6000 Ada", (364, 182, 91.1)),
    ("RTX A6000", (154.8, 77.4, 38.7)),
    ("GeForce RTX 4090", (165.2, 82.6, 82.6)),
    ("GeForce RTX 3090", (71, 35.6, 35.6)),
)
_COLUMNS = {"bf16": 0, "f16": 0, "tf32": 1, "f32": 2}


def gpu_peak_flops(name: str, dtype: str) -> float | None:
    """What a GPU of this name could do per second, with products of a recipe's dtype; None where it is not known."""
    words = f" {name} ".replace("-", " ")
    for known, peaks in _GPU_PEAKS:
        if f" {known} " in words:
            return 1e12 * peaks[_COLUMNS[dtype]]
    return None


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

"""What benchmarks share: what a report says of its command, machine, kernels and checkpoints."""

from __future__ import annotations

import hashlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def command_line() -> str:
    """This process's command."""
    script, root = Path(sys.argv[0]).resolve(), Path(__file__).resolve().parents[2]
    script = script.relative_to(root) if script.is_relative_to(root) else Path("bench", script.name)
    return f"python {script} {' '.join(sys.argv[1:])}".strip()


def describe(torch: Any) -> dict[str, str]:
    """The machine and versions."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda or ""}


def microseconds_of_kernels(program: Any, inputs: list[Any]) -> dict[str, float]:
    """What each kernel takes in a run of a program whose launches are waited for one by one, the longest first."""
    kernels: Counter[str] = Counter()
    for kernel, _, microseconds in program.time_launches(inputs):
        kernels[kernel] += microseconds
    return dict(kernels.most_common())


def digest(checkpoint: Path) -> str:
    """SHA-256 of the weights and the optimizer's state in a checkpoint."""
    found = hashlib.sha256()
    for path in sorted(checkpoint.glob("*.safetensors")):
        found.update(path.read_bytes())
    return found.hexdigest()

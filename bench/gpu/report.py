"""What benchmarks against PyTorch share: what a report says of its command and machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any


def command_line() -> str:
    """This process's command."""
    return f"python bench/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()


def describe(torch: Any) -> dict[str, str]:
    """The machine and versions."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda or ""}

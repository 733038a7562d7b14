"""What benchmarks against PyTorch share: times by CUDA events, and what a report says of its command and machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def microseconds(torch: Any, call: Callable[[int], Any], launches: int, wait_clocks: int) -> float:
    """The time of one of several calls in a row, which get their numbers, by CUDA events.

    The GPU is busy for `wait_clocks` before, so that the host is ahead of it.
    """
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    torch.cuda._sleep(wait_clocks)
    start.record()
    for number in range(launches):
        call(number)
    end.record()
    torch.cuda.synchronize()
    return 1e3 * start.elapsed_time(end) / launches


def command_line() -> str:
    """This process's command."""
    return f"python bench/{Path(sys.argv[0]).name} {' '.join(sys.argv[1:])}".strip()


def describe(torch: Any) -> dict[str, str]:
    """The machine and versions."""
    return {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda or ""}

"""`blu run FILE.py`: a Python program of the user's, as several processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from blu.compiler.cli.messages import UsageError
from blu.compiler.cli.ranks.flags import DEVICES, take_launch_flags

_OURS = ("--nproc", "--nodes", "--node-rank", "--rendezvous", "--device")


def python_program(words: Sequence[str]) -> int | None:
    """Which of the words is a Python program that is to be run, if any is; those after it are the program's own."""
    index = 0
    while index < len(words) and words[index].startswith("-"):
        name, equals, _ = words[index].partition("=")
        if name not in _OURS:
            return None
        index += 1 if equals else 2
    return index if index < len(words) and words[index].endswith(".py") else None


def run_python_program(words: Sequence[str], at: int) -> int:
    """Run the program that is word `at`; the exit code."""
    ours, path = list(words[:at]), words[at]
    if not Path(path).is_file():
        raise UsageError(f"there is no file {path}")
    device = _take_device(ours)
    flags, _ = take_launch_flags(ours)
    command = [sys.executable, *words[at:]]
    return subprocess.call(command) if flags.count is None else flags.launch(command, device == "cuda")


def _take_device(words: list[str]) -> str:
    """The device that the words name, which is taken out of them."""
    device = DEVICES[0]
    for index, word in reversed(list(enumerate(words))):
        name, equals, value = word.partition("=")
        if name == "--device":
            device = value if equals else words[index + 1]
            del words[index : index + (1 if equals else 2)]
    if device not in DEVICES:
        raise UsageError(f"--device {device} is not {' or '.join(DEVICES)}")
    return device

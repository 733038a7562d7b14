"""`blu`: one command in front of all others. `blu opt ...` is `blu-opt ...`.

This file imports next to nothing, so that Ctrl-C is heard before the rest is imported.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

# Each is a file beside this one with a function main(argv) -> exit code, imported only when it is asked for.
COMMANDS = {
    "compile": "compile a model, and run it",
    "run": "run a compiled model",
    "train": "train a model",
    "bench": "measure Blu beside PyTorch",
    "tune": "find faster schedules of kernels",
    "opt": "run passes over a file of IR",
    "doctor": "say what is installed, what works, and what to do",
    "cache": "look at the compile cache, or clear it",
}


def usage() -> str:
    """The text of `blu --help`."""
    lines = [f"  {name:<10} {line}" for name, line in COMMANDS.items()]
    return "\n".join(["usage: blu COMMAND ...", "", "commands:", *lines, "", "`blu COMMAND --help` says more."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named by the first argument; its exit code. Without `argv` this is all that the process does."""
    if argv is None and signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end_at_once)
    from blu.compiler.cli.outcome import run_command

    words = list(sys.argv[1:] if argv is None else argv)
    code = run_command("blu", lambda: _run(words))
    if argv is None:  # the process ends now, and Ctrl-C must not disturb it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _end_at_once(number: int, frame: FrameType | None) -> None:
    """What Ctrl-C does before the command has begun, when there is nothing yet to clean up."""
    os.write(2, b"blu: interrupted\n")
    os._exit(130)


def blu_compile() -> int:
    """The command `blu-compile`."""
    sys.argv.insert(1, "compile")
    return main()


def blu_opt() -> int:
    """The command `blu-opt`."""
    sys.argv.insert(1, "opt")
    return main()


def _run(words: list[str]) -> int:
    from blu import settings
    from blu.compiler.cli.messages import UsageError, version_line
    from blu.errors import suggestion

    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        print(version_line("blu"))
        return 0
    if words[0] not in COMMANDS:
        advice = suggestion(words[0], list(COMMANDS)) or f"commands: {', '.join(COMMANDS)}"
        raise UsageError(f"there is no command '{words[0]}'", advice=advice)
    if words[0] != "doctor":  # which says all that is wrong with them
        settings.current()
    return importlib.import_module(f".{words[0]}", __package__).main(words[1:])


if __name__ == "__main__":
    sys.exit(main())

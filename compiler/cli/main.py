"""`blu`: one command in front of all others. `blu opt ...` is `blu-opt ...`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from blu.compiler.cli.messages import UsageError, print_error, suggestion

# Each is a file beside this one with a function main(argv) -> exit code, imported only when it is asked for.
COMMANDS = {
    "compile": "compile a model, and run it",
    "run": "run a compiled model",
    "train": "train a model",
    "opt": "run passes over a file of IR",
    "doctor": "say what is installed, what works, and what to do",
    "cache": "look at the compile cache, or clear it",
}


def usage() -> str:
    """The text of `blu --help`."""
    lines = [f"  {name:<10} {line}" for name, line in COMMANDS.items()]
    return "\n".join(["usage: blu COMMAND ...", "", "commands:", *lines, "", "`blu COMMAND --help` says more."])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command named by the first argument; its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(usage())
        return 0 if words else 2
    if words[0] == "--version":
        from importlib.metadata import version

        print(f"blu {version('blu')}")
        return 0
    if words[0] not in COMMANDS:
        advice = suggestion(words[0], list(COMMANDS)) or f"commands: {', '.join(COMMANDS)}"
        print_error(UsageError(f"there is no command '{words[0]}'", advice=advice), "blu")
        return 2
    return importlib.import_module(f".{words[0]}", __package__).main(words[1:])


if __name__ == "__main__":
    sys.exit(main())

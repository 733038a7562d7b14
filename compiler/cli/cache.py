"""`blu cache`: look at the compile cache, or clear it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from blu.compiler.cache import Cache, default_cache
from blu.compiler.cli.messages import print_error
from blu.errors import BluError


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="blu cache", description=__doc__, allow_abbrev=False)
    actions = {"list": "what is in it", "clear": "delete everything in it", "path": "where it is (BLU_CACHE_DIR)"}
    listed = "; ".join(f"{name}: {text}" for name, text in actions.items())
    parser.add_argument("action", nargs="?", choices=actions, default="list", help=listed)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; its exit code."""
    arguments = make_parser().parse_args(argv)
    try:
        cache = default_cache()
        if cache.directory is None:
            print("the compile cache is off")
        elif arguments.action == "path":
            print(cache.directory)
        elif arguments.action == "clear":
            print(f"{_count(cache.clear())} deleted from {cache.directory}")
        else:
            print(listing(cache))
        return 0
    except BluError as error:
        print_error(error, "blu cache")
        return 1


def listing(cache: Cache) -> str:
    """A line for each entry, the one used last first."""
    entries = cache.entries()
    kernels, bytes_of_kernels = cache.kernels()
    total = sum(entry.nbytes for entry in entries) + bytes_of_kernels
    lines = [
        f"{entry.key[:12]}  {entry.nbytes / 1e6:8.2f} MB  {_age(entry.used):>8}  {entry.target:<10}  {entry.name}"
        for entry in entries
    ]
    return "\n".join(
        [
            *lines,
            f"{_count(len(entries))} and the code of {kernels} kernels, "
            f"{total / 1e6:.1f} MB of {cache.limit / 1e6:.0f} MB, in {cache.directory}",
        ]
    )


def _count(number: int) -> str:
    return f"{number} {'program' if number == 1 else 'programs'}"


def _age(used: float) -> str:
    seconds = max(0.0, time.time() - used)
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())

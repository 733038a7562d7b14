"""`python -m blu.dialects` prints the table of all ops and what each of them has."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Collection

from rich.console import Console
from rich.table import Table

from blu.dialects.core.context import make_context
from blu.dialects.core.op_table import OpRow, op_rows

WIDEST = 1000
COLUMNS = ("op", "family", "operands", "attributes", "regions", "dtypes", "reference", "lowering", "gradient")


def lowered_names() -> Collection[str]:
    """The ops with a lowering rule. Passes stand above dialects, so they are looked up by name, if they are there."""
    try:
        return importlib.import_module("blu.passes.loops.lower_to_linalg").RULES
    except ImportError:
        return ()


def op_table(rows: list[OpRow]) -> Table:
    """The rows as a table for a terminal."""
    table = Table(*COLUMNS, title=f"{len(rows)} ops of the blu dialect")
    for row in rows:
        table.add_row(
            row.name,
            row.family,
            row.operands,
            row.attributes,
            row.regions,
            row.dtypes,
            "yes" if row.has_reference else "no",
            row.lowering or "no",
            row.gradient or "no",
        )
    return table


def explained(rows: list[OpRow]) -> dict[str, list[str]]:
    """The ops that lack a part, by the part and the reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        for part in row.lacks:
            if part in row.reasons:
                found.setdefault(f"{part} ({row.reasons[part]})", []).append(row.name)
    return found


def main() -> None:
    """Print the table of ops and what is missing of each."""
    make_context()
    rows = op_rows(lowered_names())
    # A terminal has its width; in a file or a pipe no name is cut.
    Console(width=None if sys.stdout.isatty() else WIDEST).print(op_table(rows))
    for reason, names in explained(rows).items():
        print(f"no {reason}: {', '.join(names)}")
    for row in rows:
        for hole in row.holes:
            print(f"{row.name} has no {hole}")


if __name__ == "__main__":
    main()

"""Golden files: text that the code gave once and should give again.

A test compares by `golden.check("name.mlir", text)`. `pytest --update-golden` writes what the code gives now instead;
`git diff` shows what has changed.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.folders import TESTS

FOLDER = TESTS / "golden"
# How many lines of a difference are shown.
SHOWN = 60


@dataclass(frozen=True)
class Golden:
    """The files of `folder`, compared or rewritten."""

    is_updating: bool
    folder: Path = FOLDER

    def check(self, name: str, text: str) -> None:
        """Fail where the file differs from `text`, or write it where golden files are updated."""
        path = self.folder / name
        if self.is_updating:
            self.folder.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            return
        if not path.exists():
            pytest.fail(f"there is no golden file {name}; `pytest --update-golden` writes it", pytrace=False)
        difference = _difference(path.read_text(), text, name)
        if difference:
            advice = "If that is meant to be, `pytest --update-golden` writes the new text."
            pytest.fail("\n".join([f"{name} is not what the code gives now:", *difference, advice]), pytrace=False)


def _difference(expected: str, found: str, name: str) -> list[str]:
    lines = list(difflib.unified_diff(expected.splitlines(), found.splitlines(), name, "now", lineterm=""))
    return lines[:SHOWN] + ([f"... and {len(lines) - SHOWN} more lines"] if len(lines) > SHOWN else [])

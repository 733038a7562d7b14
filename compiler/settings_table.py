"""What `blu doctor --settings` prints: each setting with its value, where that comes from, and what it means."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict, astuple

from blu import settings
from blu.dataclass import dataclass
from blu.errors import SettingError


@dataclass(frozen=True)
class Row:
    """One variable as it is now. `source` is "default" or "environment", `problem` what is wrong, or empty."""

    setting: str
    value: str
    source: str
    type: str
    meaning: str
    problem: str = ""


def rows() -> Iterator[Row]:
    """A row for each setting, then one for each variable that is named like one and is none."""
    for setting in settings.TABLE:
        source = "default" if setting.given is None else "environment"
        value = setting.default_text if setting.given is None else setting.given
        yield Row(setting.name, value, source, setting.kind.says, setting.help, _problem(setting))
    for error in settings.unknown():
        yield Row(error.name, os.environ[error.name], "environment", "", "", _told(error))


def _problem(setting: settings.Setting) -> str:
    try:
        setting.value()
    except SettingError as error:
        return _told(error)
    return ""


def _told(error: SettingError) -> str:
    return f"{error.message}: {error.advice}"


def as_text(table: list[Row]) -> str:
    """Columns with a heading; what is wrong stands in the line after its row."""
    heading = Row("setting", "value", "from", "type", "meaning")
    lines = [astuple(row)[:5] for row in (heading, *table)]
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    said = []
    for row, line in zip((heading, *table), lines, strict=True):
        said.append("  ".join([*(f"{text:<{width}}" for text, width in zip(line, widths, strict=False)), line[4]]))
        said += [f"  !! {row.problem}"] if row.problem else []
    return "\n".join(line.rstrip() for line in said)


def as_records(table: list[Row]) -> list[dict[str, str]]:
    """The rows for `--json`."""
    return [asdict(row) for row in table]

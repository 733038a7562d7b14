"""Tables of schedules that `blu tune` has found: files that people read, compare, edit and check in.

    {"version": 1, "schedules": [{"problem": "e2c1556923c72204940499ae", "target": "sm_90a", "family": "gemm",
     "operands": "200x300xf32, ..", "schedule": {"kind": "wgmma", ..}, "microseconds": {"chosen": 9.1, "tuned": 7.3}}]}

`BLU_TUNED` names the table by which programs are compiled. What it says of a target is written on modules, as
`blu.tuned = {e2c1556923c72204940499ae = {kind = "wgmma", ..}}`, which the passes that choose schedules read. Nothing
here imports MLIR: a program that the cache has is compiled by no table.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blu import settings
from blu.dataclass import dataclass, field
from blu.errors import SettingError

VERSION = 1
Fields = Mapping[str, str | int]


@dataclass(frozen=True)
class TunedSchedule:
    """A schedule that was found faster than the one that is chosen, for one problem on one target.

    `about` says what else is worth knowing of it: what the kernel takes, its line, times, the device, versions.
    """

    problem: str
    target: str
    family: str
    schedule: Fields
    about: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it, as it stands in a file."""
        said = asdict(self)
        return {name: said[name] for name in ("problem", "target", "family", "schedule")} | dict(self.about)

    @classmethod
    def parse(cls, entry: Any) -> TunedSchedule:
        """What a file says. ValueError where that is no entry."""
        if not isinstance(entry, dict):
            raise ValueError(f"{entry!r} is no entry")
        own = {name: entry.get(name) for name in ("problem", "target", "family", "schedule")}
        schedule = own["schedule"]
        problem, target, family = own["problem"], own["target"], own["family"]
        is_named = all(isinstance(text, str) and text for text in (problem, target, family))
        if not is_named or not isinstance(schedule, dict):
            raise ValueError(f"an entry says its 'problem', 'target' and 'family', and its 'schedule': {entry!r}")
        if not all(type(value) in (str, int) for value in schedule.values()):
            raise ValueError(f"fields of a schedule are numbers and texts, not {schedule!r}")
        about = {name: value for name, value in entry.items() if name not in own}
        return cls(str(problem), str(target), str(family), schedule, about)


def read_table(path: Path) -> list[TunedSchedule]:
    """The entries of a file. SettingError where it cannot be read, or is no table."""
    try:
        data = json.loads(path.read_text())
        if not isinstance(data, dict) or data.get("version") != VERSION or not isinstance(data.get("schedules"), list):
            raise ValueError(f'a table of schedules is {{"version": {VERSION}, "schedules": [..]}}')
        return list(map(TunedSchedule.parse, data["schedules"]))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except ValueError as error:
        raise _unreadable(path, str(error)) from None


def _unreadable(path: Path, reason: str) -> SettingError:
    (name,) = settings.as_environment(tuned=path)
    advice = f"`blu tune` writes such a file; remove it, or unset {name}, to compile by what is chosen."
    return SettingError(f"{path} is no table of tuned schedules: {reason}", name=name, advice=advice)


def write_table(path: Path, entries: Iterable[TunedSchedule]) -> None:
    """Replace a file by one of these entries, of a problem and target the last one, in the order of their problems."""
    by_problem = {(item.target, item.problem): item for item in entries}
    shown = [by_problem[key].to_json() for key in sorted(by_problem)]
    lines = ",\n".join(json.dumps(entry) for entry in shown)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(f'{{"version": {VERSION}, "schedules": [\n{lines}\n]}}\n')
    temporary.replace(path)


def tuned_for(target: str) -> dict[str, Fields]:
    """The schedules of the table that `BLU_TUNED` names, by problems of a target. SettingError for what is no table."""
    path = settings.current().tuned
    if path is None:
        return {}
    return {item.problem: item.schedule for item in read_table(path) if item.target == target}


def tuned_key(target: str) -> tuple[str, ...]:
    """What the table adds to the keys of programs in the compile cache."""
    found = tuned_for(target)
    return (json.dumps(found, sort_keys=True),) if found else ()

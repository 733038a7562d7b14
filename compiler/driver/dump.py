"""`--dump-ir DIR`: one file per pass that changed something, the difference to the file before, and a manifest.

    ir/000-input.mlir  ir/016-blu-fuse.mlir  ir/016-blu-fuse.diff  ir/plan.json  ir/manifest.json

Values, maps and locations are called after what they are (`readable.py`), so that a difference shows what has changed.
`plan.json` is the host program (launches, memory) in lines for people. The `.mlir` files hold everything (locations,
constants in full), so `blu-opt` reads them back as the same module, and `blu-compile` continues from them: the module
itself says how far it is (`blu.level`, `blu.passes_done`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blu.compiler.driver.difference import difference
from blu.compiler.driver.file_names import file_name
from blu.compiler.driver.observer import Observer, PassRun
from blu.compiler.driver.position import START, positioned
from blu.compiler.driver.readable import DumpedText
from blu.compiler.pipelines import Step
from blu.dataclass import dataclass
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import attribute_names
from blu.errors import BluError
from blu.passes.host.export_plan import PLAN as PLAN_ATTRIBUTE

MANIFEST = "manifest.json"
PLAN = "plan.json"


class DumpWriter(Observer):
    """Writes the files; the manifest is rewritten after each pass, so that it is right when a later pass dies."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.entries: list[dict[str, Any]] = []
        self.last = _Dumped("", DumpedText("", "", None))
        self.has_plan = False

    def start(self, module: ir.Module) -> None:
        self._clear()
        self.last = _Dumped.of("000-input.mlir", module)
        with positioned(module, START):
            text = self.last.all.with_attributes_of(module)
        written = self._write(self.last.name, "// Blu IR: the input\n" + text)
        self.entries.append({"number": 0, "name": "input", **written})
        self._write_manifest()

    def after(self, step: Step, module: ir.Module, run: PassRun) -> None:
        files = self._write_change(step, module) if run.changed else {}
        seconds = {"seconds": round(run.seconds, 6), "verify_seconds": round(run.verify_seconds, 6)}
        self.entries.append({**asdict(run), **seconds, "pass": str(step.pass_), **files})
        self._write_manifest()

    def _write_change(self, step: Step, module: ir.Module) -> dict[str, str]:
        stem = f"{step.number:03d}-{file_name(step.name)}"
        level = f", on the way to level '{step.level}'" if step.level else ""
        before, self.last = self.last, _Dumped.of(f"{stem}.mlir", module)
        (self.directory / f"{stem}.diff").write_text(before.difference(self.last))
        with positioned(module, step.position):
            text = self.last.all.with_attributes_of(module)
        header = f"// Blu IR: after pass {step.number} '{step.name}'{level}\n"
        return {**self._write(f"{stem}.mlir", header + text), "diff": f"{stem}.diff", **self._write_plan(module)}

    def _write_plan(self, module: ir.Module) -> dict[str, str]:
        """The plan in lines, when a pass has just made it."""
        if self.has_plan or PLAN_ATTRIBUTE not in attribute_names(module):
            return {}
        self.has_plan = True
        plan = json.loads(ir.StringAttr(module.operation.attributes[PLAN_ATTRIBUTE]).value)
        (self.directory / PLAN).write_text(_lines(plan))
        return {"plan": PLAN}

    def _write(self, name: str, text: str) -> dict[str, str]:
        data = text.encode()
        (self.directory / name).write_bytes(data)
        return {"file": name, "sha256": hashlib.sha256(data).hexdigest()}

    def _write_manifest(self) -> None:
        (self.directory / MANIFEST).write_text(json.dumps({"passes": self.entries}, indent=1) + "\n")

    def _clear(self) -> None:
        """Create the folder, and remove what an earlier dump left in it (nothing else)."""
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BluError(f"cannot create the folder {self.directory} for --dump-ir: {error.strerror}") from error
        for name in _files_of_manifest(self.directory / MANIFEST):
            (self.directory / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class _Dumped:
    """A module as it was dumped: the name of its file, and its text."""

    name: str
    all: DumpedText

    @classmethod
    def of(cls, name: str, module: ir.Module) -> _Dumped:
        return cls(name, DumpedText.of(module))

    def difference(self, other: _Dumped) -> str:
        """A unified diff to another, of locations only where nothing else differs."""
        ours, theirs = self.all, other.all
        pairs = (ours.text, theirs.text) if ours.plain == theirs.plain else (ours.plain, theirs.plain)
        old, new = (text.splitlines() for text in pairs)
        return difference(old, new, self.name, other.name)


def _lines(plan: dict[str, Any]) -> str:
    """JSON with a line for each entry of its lists."""
    fields = [f" {json.dumps(key)}: {_in_lines(value)}" for key, value in plan.items()]
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _in_lines(value: Any) -> str:
    if not isinstance(value, list) or not value:
        return json.dumps(value)
    return "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"


def _files_of_manifest(manifest: Path) -> list[str]:
    """Files that an earlier manifest lists; plain names in its own folder only."""
    try:
        entries = json.loads(manifest.read_text())["passes"]
        names = [entry.get(key) for entry in entries for key in ("file", "diff", "plan")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [name for name in names if isinstance(name, str) and Path(name).name == name]

"""`--dump-ir DIR`: one file per pass that changed something, the difference to the file before, and a manifest.

    ir/000-input.mlir  ir/003-blu-fuse.mlir  ir/003-blu-fuse.diff  ir/manifest.json

The files hold everything (locations, constants in full), so `blu-opt` reads them back as the same module, and
`blu-compile --compile-from` continues from them: the module itself says how far it is (`blu.level`, `blu.passes_done`).
"""

from __future__ import annotations

import difflib
import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from blu.compiler.file_names import file_name
from blu.compiler.observer import Observer, PassRun
from blu.compiler.pipelines import Step
from blu.compiler.position import positioned
from blu.dialects.mlir import ir
from blu.dialects.modules import module_text
from blu.errors import BluError

MANIFEST = "manifest.json"


class DumpWriter(Observer):
    """Writes the files; the manifest is rewritten after each pass, so that it is right when a later pass dies."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.entries: list[dict[str, Any]] = []
        self.plain: list[str] = []

    def start(self, module: ir.Module) -> None:
        self._clear()
        self.plain = module_text(module, locations=False).splitlines()
        text = "// Blu IR: the input\n" + module_text(module)
        self.entries.append({"number": 0, "name": "input", **self._write("000-input.mlir", text)})
        self._write_manifest()

    def after(self, step: Step, module: ir.Module, run: PassRun) -> None:
        files = self._write_change(step, module) if run.changed else {}
        self.entries.append({**asdict(run), "pass": str(step.pass_), **files})
        self._write_manifest()

    def _write_change(self, step: Step, module: ir.Module) -> dict[str, str]:
        stem = f"{step.number:03d}-{file_name(step.name)}"
        level = f", on the way to level '{step.level}'" if step.level else ""
        with positioned(module, step.position):
            text = f"// Blu IR: after pass {step.number} '{step.name}'{level}\n" + module_text(module)
        plain = module_text(module, locations=False).splitlines()
        difference = difflib.unified_diff(self.plain, plain, "before", f"after {step.name}", lineterm="")
        self.plain = plain
        (self.directory / f"{stem}.diff").write_text("\n".join([*difference, ""]))
        return {**self._write(f"{stem}.mlir", text), "diff": f"{stem}.diff"}

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


def _files_of_manifest(manifest: Path) -> list[str]:
    """Files that an earlier manifest lists; plain names in its own folder only."""
    try:
        entries = json.loads(manifest.read_text())["passes"]
        names = [entry.get(key) for entry in entries for key in ("file", "diff")]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []
    return [name for name in names if isinstance(name, str) and Path(name).name == name]

"""Small training runs for the tests of `blu train`: a model of a layer, and text to learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blu.compiler.cli.train import main

# All tests train the same shapes, so that programs are compiled once.
SIZES = {"layers": 1, "heads": 2, "width": 16, "positions": 32, "vocab-size": 257}
MODEL = ["gpt2-demo-config", *(word for name, size in SIZES.items() for word in (f"--{name}", str(size)))]
BATCH = ["--batch-size", "2", "--length", "16"]
TINY = [*MODEL, *BATCH, "--checkpoint-every", "0", "--validate-every", "0"]
TEXT = "".join(f"{number} bottles of beer on the wall, {number} bottles of beer.\n" for number in range(99, 0, -1))


@dataclass(frozen=True)
class Ran:
    """What a command did: its exit code and what it wrote."""

    code: int
    output: str
    errors: str

    @property
    def result(self) -> dict[str, Any]:
        """The line of --json."""
        return json.loads(self.output.splitlines()[-1])


@dataclass
class Trial:
    """Runs `blu train` in an empty folder with a text, in this process."""

    folder: Path
    capture: pytest.CaptureFixture[str]

    def train(self, *words: str | Path, flags: Sequence[str] = TINY) -> Ran:
        """`blu train` with flags for a tiny model, and these words."""
        self.capture.readouterr()
        code = main([*flags, *map(str, words)])
        captured = self.capture.readouterr()
        return Ran(code, captured.out, captured.err)

    def refused(self, *words: str | Path, flags: Sequence[str] = TINY, code: int = 1) -> str:
        """The message of a run that must end with an error before its first step."""
        ran = self.train(*words, flags=flags)
        assert ran.code == code, (ran.code, ran.output, ran.errors)
        assert "step 1/" not in ran.output + ran.errors and "Traceback" not in ran.errors
        return ran.errors


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Trial:
    """An empty folder with text.txt and tokens.bin (nanoGPT's format)."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text(TEXT)
    np.frombuffer(TEXT.encode(), np.uint8).astype("<u2").tofile("tokens.bin")
    return Trial(tmp_path, capsys)


def same_arrays(left: Path, right: Path) -> bool:
    """Whether two checkpoints hold the same bits."""
    names = ("model.safetensors", "optimizer.safetensors")
    return all((left / name).read_bytes() == (right / name).read_bytes() for name in names)

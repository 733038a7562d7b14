"""The programs of examples/ run at their small size, learn, and are what users are told to read."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from tests.support.folders import ROOT

FILES = sorted((ROOT / "examples").glob("*.py"))
# After how many steps the mean of the last ten losses is below what, and what is then printed.
LEARNT = {
    "convnet": (60, 0.5, r"right on new images: \d+%"),
    "diffusion": (200, 0.45, r"new points are 0\.\d+ apart"),
    "llama": (250, 0.85, r"1\+1=02"),
    "lstm": (150, 0.06, r"foretold -?\d\.\d+"),
    "vit": (60, 0.3, r"right on new images: (9\d|100)%"),
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_learns(path: Path, capsys: pytest.CaptureFixture[str]):
    steps, limit, shown = LEARNT[path.stem]
    final = import_module(f"examples.{path.stem}").main(["--steps", str(steps), "--size", "small"])
    printed = capsys.readouterr().out
    losses = [float(text) for text in re.findall(r"^step \d+ \| loss (\S+)$", printed, re.MULTILINE)]
    assert final < limit < losses[0], printed
    assert re.search(shown, printed), printed


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_has_what_its_first_lines_say(path: Path):
    module, text = import_module(f"examples.{path.stem}"), path.read_text()
    assert f"python examples/{path.name} --steps" in (module.__doc__ or "")
    assert set(module.SIZES) == {"small", "medium"}
    assert len(text.splitlines()) < 200, "an example is short enough to be read"

"""`bench/gpu/one_gpu.py`, the one command for all figures of a GPU: parts that end well, ill, late, or not at all."""

from __future__ import annotations

import importlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.folders import ROOT
from tests.support.ranks.starting import MARK, marked

SLEEPING = "import subprocess; subprocess.run(['sleep', '60'])"


def program(code: str) -> str:
    return f"-c {shlex.quote(code)}"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(ROOT)
    monkeypatch.syspath_prepend(ROOT / "bench" / "gpu")
    yield importlib.import_module("one_gpu")


def test_a_part_that_fails_or_takes_too_long_does_not_end_the_others(
    bench: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, "parts of a GPU")
    table = {
        "ill": bench.OnePart(20, program("raise SystemExit(3)")),
        "slow": bench.OnePart(1, program(SLEEPING)),
        "long": bench.OnePart(1000, program("")),
        "well": bench.OnePart(20, "-c \"open('{report}', 'w').write('7')\""),
    }
    found = bench.Parts(table, tmp_path, 2).measure(100)
    assert found == {"ill": "failed, exit code 3", "slow": "cut", "long": "no time", "well": "done"}
    assert bench.read_index(tmp_path) == found and json.loads((tmp_path / "well.json").read_text()) == 7
    assert marked("parts of a GPU") == []
    assert bench.Parts(table, tmp_path, 2).measure(0, ["well"]) == dict.fromkeys(table, "no time") | {"well": "done"}


def test_what_parts_compile_is_what_they_measure(bench: ModuleType, tmp_path: Path) -> None:
    table = {
        "both": bench.OnePart(9, "", ("-c \"print('{jobs} {name}')\"", program("raise SystemExit('no such kernel')"))),
        "neither": bench.OnePart(9, ""),
    }
    assert bench.Parts(table, tmp_path, 8).pack() == {"both": "failed, exit code 1", "neither": "done"}
    assert (tmp_path / "both.packing.log").read_text() == "4 both\nno such kernel\n"


@pytest.mark.parametrize(
    "name", ["training-bf16", "resnet", "products-random", "races-decoding", "operators", "rows", "scans"]
)
def test_scripts_know_the_flags_that_parts_give_them(bench: ModuleType, name: str, tmp_path: Path) -> None:
    part = bench.PARTS[name]
    helps = {"help": bench.OnePart(60, f"{part.measure} --help", tuple(f"{text} --help" for text in part.packs))}
    parts = bench.Parts(helps, tmp_path, 1)
    assert (parts.pack(), parts.measure(100)) == ({"help": "done"}, {"help": "done"})


def test_a_part_that_is_not_there_is_refused(bench: ModuleType) -> None:
    with pytest.raises(SystemExit, match="--only speed: there are races-decoding, "):
        bench.chosen_parts("vit,speed")
    assert list(bench.chosen_parts("vit,races-decoding")) == ["races-decoding", "vit"]


def test_parts_are_scripts_that_make_blu_importable(bench: ModuleType) -> None:
    """`python -m blu` finds the folder `blu` of this checkout, and its subpackages only where it is installed."""
    commands = [text for part in bench.PARTS.values() for text in (part.measure, *part.packs)]
    assert all((ROOT / shlex.split(text)[0]).is_file() for text in commands)

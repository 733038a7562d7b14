"""ptxas is asked of PTX that is not recorded as it is, and nothing is recorded that spills."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from blu.compiler.codegen.cubins import Cubin
from tests.support.folders import ROOT
from tests.support.kernels import spills
from tests.support.kernels.spills import RECORDED, SpillRecord, proofs_in

OF_OTHERS = ".extern .func (.param .b32 r) sinf"
CLEAN, SPILLED = Cubin(b"", 40, 0, 0, "clean"), Cubin(b"", 255, 0, 16, "16 bytes spill stores")
STACK, SERIALIZED = Cubin(b"", 40, 8, 0, "8 bytes stack frame"), Cubin(b"", 40, 0, 0, "C7510: serialized")
HARMLESS = Cubin(b"", 40, 0, 0, "C7519: warpgroup.arrive is injected")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PTX that ptxas is asked of; it says of each what `ANSWERS` has."""
    texts: list[str] = []

    def assemble(ptx: dict[str, str], architecture: str) -> dict[str, Cubin]:
        texts.extend(ptx.values())
        return {name: ANSWERS[text] for name, text in ptx.items()}

    monkeypatch.setattr(spills, "assemble", assemble)
    monkeypatch.setattr(spills, "_release", lambda: "13.0")
    return texts


ANSWERS = {"a": CLEAN, "b": SPILLED, "c": STACK, "d": SERIALIZED, "e": HARMLESS, OF_OTHERS: CLEAN}


def _recorded(path: Path, text: str) -> SpillRecord:
    _ask(SpillRecord(path, is_written=True), {"k": text})
    proofs_in.cache_clear()
    return SpillRecord(path)


def _ask(record: SpillRecord, ptx: dict[str, str], architecture: str = "sm_80") -> dict[str, str]:
    """Of PTX that is there, so that the proof is one of it."""
    return record.ask(ptx, architecture, ptx)


@pytest.mark.parametrize("text", ["a", "e"])
def test_what_is_recorded_is_not_asked_again(text: str, asked: list[str], tmp_path: Path) -> None:
    record = _recorded(tmp_path / "spills.json", text)
    asked.clear()
    assert _ask(record, {"k": text}) == {}
    assert asked == []


@pytest.mark.parametrize(
    ("ptx", "architecture"), [({"k": "e"}, "sm_80"), ({"k": "a"}, "sm_90a"), ({"l": "a"}, "sm_80")]
)
def test_other_ptx_and_other_architectures_are_asked(
    ptx: dict[str, str], architecture: str, asked: list[str], tmp_path: Path
) -> None:
    record = _recorded(tmp_path / "spills.json", "a")
    asked.clear()
    assert _ask(record, ptx, architecture) == {}
    assert asked == list(ptx.values())


def test_another_release_is_asked(asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = _recorded(tmp_path / "spills.json", "a")
    asked.clear()
    monkeypatch.setattr(spills, "_release", lambda: "13.1")
    _ask(record, {"k": "a"})
    assert asked == ["a"]


def test_what_is_made_of_the_same_is_not_made_again(asked: list[str], tmp_path: Path) -> None:
    record = _recorded(tmp_path / "spills.json", "a")
    asked.clear()
    assert record.ask({}, "sm_80", {"k": "a"}) == {} and asked == []
    assert record.ask({"k": "a"}, "sm_80", {"k": "other"}) == {} and asked == [], "it is the same PTX"
    assert record.ask({"k": "b", "l": "c"}, "sm_80", {"k": "other"}) == {"k": SPILLED.log}
    assert asked == ["b"]


@pytest.mark.parametrize("text", ["b", "c", "d"])
def test_what_spills_is_said_and_never_recorded(text: str, asked: list[str], tmp_path: Path) -> None:
    record = _recorded(tmp_path / "spills.json", text)
    for _ in range(2):
        assert _ask(record, {"k": text, "l": "a"}) == {"k": ANSWERS[text].log}
    assert asked.count(text) == 3


def test_a_kernel_calls_no_function_of_others(asked: list[str], tmp_path: Path) -> None:
    record = _recorded(tmp_path / "spills.json", OF_OTHERS)
    assert _ask(record, {"k": OF_OTHERS, "l": "a"}) == {"k": "calls a function of others"}


def test_proofs_of_a_test_take_the_place_of_older_ones(asked: list[str], tmp_path: Path) -> None:
    path = tmp_path / "spills.json"
    path.write_text(json.dumps({f"{tmp_path.name}.py::test": ["0"]}))
    _recorded(path, "e")
    writing = SpillRecord(path, is_written=True)
    _ask(writing, {"k": "a"})
    _ask(writing, {"l": "a"})
    (proofs,) = json.loads(path.read_text()).values()
    assert len(proofs) == 2
    asked.clear()
    proofs_in.cache_clear()
    _ask(SpillRecord(path), {"k": "e"})
    assert asked == ["e"]


def test_tests_that_have_proofs_are_there() -> None:
    for test in proofs_in(RECORDED):
        file, _, name = test.partition("::")
        function = re.escape(name.partition("[")[0])
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE), test

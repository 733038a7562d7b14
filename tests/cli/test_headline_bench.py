"""`bench/headline.py`: its dry run, the same code on processors, reports all that is asked of it."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.folders import ROOT

BENCH = ROOT / "bench" / "headline.py"
HAS_TORCH = importlib.util.find_spec("torch") is not None
PARTS = ["speed-tf32-2", "curve-blu", "curve-blu-again", "gradients"] + ["curve-torch"] * HAS_TORCH


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH), *words], capture_output=True, text=True, timeout=400, check=False, cwd=ROOT
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("headline")
    flags = ["--dry-run", "--ranks", "2", "--precisions", "tf32", "--steps", "3", "--rounds", "1"]
    done = run(*flags, "--only", ",".join(PARTS), "--folder", str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def parts(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "headline.json").read_text())["parts"]


@pytest.mark.slow
def test_steps_are_timed_and_runs_repeat_bit_by_bit(parts: dict[str, Any]) -> None:
    speed = parts["speed-tf32-2"]
    assert speed["sides"].keys() == ({"blu", "torch"} if HAS_TORCH else {"blu"})
    for side in speed["sides"].values():
        assert side["steps"] == len(side["milliseconds of all"]) == 4
        assert side["tokens per second"] == pytest.approx(1e3 * 2 * 2 * 2 * 16 / side["milliseconds"])
    curves = [parts[name] for name in ("curve-blu", "curve-blu-again")]
    assert len(curves[0]["losses"]) == 3 and curves[0]["losses"] == curves[1]["losses"]
    assert len(curves[0]["digest"]) == 64 and curves[0]["digest"] == curves[1]["digest"]
    assert all(curve["bytes"] > 0 for curve in curves)


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is what Blu is compared with")
def test_both_systems_learn_the_same_from_the_same_weights(parts: dict[str, Any]) -> None:
    assert parts["curve-blu"]["losses"] == pytest.approx(parts["curve-torch"]["losses"], rel=1e-5)
    assert parts["curve-blu"]["norms"] == pytest.approx(parts["curve-torch"]["norms"], rel=1e-4)
    found = parts["gradients"]
    assert found["gradients"] == len(found["tensors"]) == 28
    assert max(found["largest"].values()) < 1e-5


@pytest.mark.slow
def test_the_report_says_how_it_was_made(folder: Path, parts: dict[str, Any]) -> None:
    for part in parts.values():
        about = part["controls"]
        assert about["versions"]["blu"] and about["data"]["sha256"] and about["arithmetic"]
        assert about["setup"]["seed"] == 0 and about["setup"]["config"]["n_layer"] == 2
        assert not any("TOKEN" in name for name in about["flags"])
        assert ("left out" in str(about["torch"])) == (not HAS_TORCH)
    text = (folder / "headline.md").read_text()
    assert "two runs of Blu have the same bits: True" in text and "| tf32 | 2 |" in text
    if importlib.util.find_spec("matplotlib") is not None:
        assert all((folder / name).stat().st_size > 5000 for name in ("losses.png", "speed.png"))


@pytest.mark.slow
def test_a_part_that_fails_is_said_and_the_page_is_written_all_the_same(tmp_path: Path) -> None:
    done = run("--dry-run", "--ranks", "1", "--only", "curve-blu", "--folder", str(tmp_path), "--data", "nowhere/*.bin")
    assert done.returncode == 1
    assert "- curve-blu: exit code" in (tmp_path / "headline.md").read_text()


def test_parts_that_there_are(tmp_path: Path) -> None:
    words = ["--dry-run", "--ranks", "4", "--folder", str(tmp_path), "--data", "x.bin"]
    listed = run(*words, "--list").stdout.split()
    assert listed[:3] == ["speed-tf32-4", "speed-tf32-2", "speed-tf32-1"]
    assert {"speed-bf16-1", "speed-f32-4", "curve-blu-again", "gradients", "reduce"} <= {*listed}
    assert "speed-f32-1" not in listed
    refused = run(*words, "--only", "speed-f32-1")
    assert refused.returncode == 1 and "--only speed-f32-1: there are speed-tf32-4," in refused.stderr


def test_the_page_is_that_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    report = ROOT / "bench" / "results" / "headline" / "headline.json"
    found = json.loads(report.read_text()) if report.exists() else {}
    page = importlib.import_module("bench.training.report").page
    assert (ROOT / "docs" / "headline.md").read_text() == page(found), "write it: bench/headline.py"


def test_what_is_asked_is_held_against_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one figure of each that is enough, and of each that is not; and of the most ranks that there are."""
    monkeypatch.syspath_prepend(str(ROOT))
    goals = importlib.import_module("bench.training.goals").goals
    speed = lambda ranks, **rates: {  # noqa: E731
        "ranks": ranks,
        "sides": {side: {"tokens per second": rate} for side, rate in rates.items()},
    }
    parts = {
        "speed-tf32-8": speed(8, blu=7.7 * 17, torch=77),
        "speed-tf32-2": speed(2, blu=1, torch=100),
        "speed-tf32-1": speed(1, blu=17),
        "speed-bf16-8": speed(8, blu=134, torch=100),
        "curve-blu": {"bytes": 70, "losses": [3.0, 2.5], "digest": "a"},
        "curve-blu-again": {"bytes": 70, "losses": [3.0, 2.5], "digest": "a"},
        "curve-torch": {"bytes": 100, "losses": [3.0, 2.25], "digest": "b"},
        "curve-torch-again": {"bytes": 100, "losses": [3.0, 2.375], "digest": "c"},
        "gradients": {"failed": "exit code 1"},
    }
    assert [(found, enough) for _, _, found, enough in goals(parts)] == [
        ("1.700x", True), ("1.340x", False), ("96.2%", True), ("0.700x", True), ("0.25", False), ("yes", True)
    ]  # fmt: skip
    assert [*goals({"speed-tf32-8": {"failed": "no end"}, "curve-torch": parts["curve-torch"]})] == []
    about = {"setup": {"precision": "tf32", "seed": 5}, "arithmetic": "sums in f32", "commit": "abc"}
    parts["curve-blu"] |= {"controls": about, "clocks": {"before": [{"clocks.sm": "1980 MHz"}], "after": []}}
    curves = {name: {"first step, seconds": 1.0, **item} for name, item in parts.items() if name.startswith("curve-")}
    page = importlib.import_module("bench.training.report").page({"parts": curves})
    for line in ("| peak memory by PyTorch's | 0.7x | 0.700x | yes |", "| GPU 0, before | clocks.sm 1980 MHz |",
                 "| setup | seed 5 |", "| tf32 | sums in f32 |"):  # fmt: skip
        assert line in page


def test_flags_are_what_changes_a_run_and_no_secret_or_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    flags_of = importlib.import_module("bench.training.controls").flags_of
    kept = {"BLU_CUDA_GRAPH": "0", "NCCL_NVLS_ENABLE": "0", "NVIDIA_TF32_OVERRIDE": "1"}
    left = {"BLU_RANK_TOKEN": "a", "BLU_CACHE_DIR": "b", "CUDA_HOME": "c", "NVIDIA_REQUIRE_CUDA": "d", "HOME": "e"}
    assert flags_of(kept | left) == kept

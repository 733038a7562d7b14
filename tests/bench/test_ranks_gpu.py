"""`bench/ranks_gpu.py`, the one command for all figures of several GPUs: what of it can be done without one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.folders import ROOT

BENCH = ROOT / "bench" / "ranks_gpu.py"
FLAGS = {"well": "", "ill": " --fails", "late": " --sleeps"}
RANK = """
import json, os, sys, time
report = sys.argv[-1]
if os.environ["RANK"] == "0":
    open(report + ".part", "w").write(json.dumps({"size": os.environ["WORLD_SIZE"]}))
    os.rename(report + ".part", report)
while "--fails" in sys.argv and os.environ["RANK"] == "1":
    if os.path.exists(report):
        raise SystemExit("no")
    time.sleep(0.01)
if len(sys.argv) > 3:
    time.sleep(60)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH), *words], capture_output=True, text=True, timeout=200, check=False, cwd=ROOT
    )


@pytest.mark.slow
def test_a_run_of_which_a_rank_was_killed_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    done = run("--ranks", "2", "--device", "cpu", "--only", "resumes", "--folder", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)["resumes"]
    assert found["same bytes"] and found["exit code"] == 137
    assert found["seconds until all had ended"] < 30
    assert "| resumes: same bytes | true |" in (tmp_path / "ranks.md").read_text()


def test_a_part_that_fails_is_in_the_table_and_the_next_one_is_tried(tmp_path: Path) -> None:
    """Results of an earlier time are in the way of both."""
    for name in ("repeats", "resumes"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    done = run("--device", "cpu", "--folder", str(tmp_path))
    assert done.returncode == 1
    assert (tmp_path / "ranks.md").read_text().count("failed") == 2


def test_parts_that_a_device_cannot_do_are_refused() -> None:
    done = run("--device", "cpu", "--only", "scaling")
    assert done.returncode == 1
    assert "--only scaling: on this device there are repeats, resumes" in done.stderr


def test_what_the_command_does_is_listed_for_gpus() -> None:
    assert run("--list").stdout.split() == [
        "scaling", "narrow", "optimizer", "bandwidth", "attention", "model", "tensor", "repeats", "resumes"
    ]  # fmt: skip


def test_what_ranks_report_is_found_and_one_that_fails_ends_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCH.parent)
    ranks_gpu = importlib.import_module("ranks_gpu")
    program = tmp_path / "rank.py"
    program.write_text(RANK)
    (tmp_path / "logs").mkdir()
    parts = {name: ranks_gpu.Part(f"{program}{flag}", figures=("size",)) for name, flag in FLAGS.items()}
    monkeypatch.setattr(ranks_gpu, "PARTS", parts)
    assert ranks_gpu.measure("well", 2, tmp_path) == {"size": "2"}
    begin = time.monotonic()
    ill = ranks_gpu.measure("ill", 2, tmp_path)
    assert ill["failed"].startswith("exit code 1; see ")
    assert ill["size"] == "2", "what was found before is lost"
    assert ranks_gpu.measure("late", 2, tmp_path, seconds=3)["failed"].startswith("more than 3 seconds; see ")
    assert time.monotonic() - begin < 40
    assert "rank 1 of 2 ended with exit code 1" in (tmp_path / "logs" / "ill.log").read_text()


def test_reports_that_are_there_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures recorded on two GPUs, under the names of their parts."""
    monkeypatch.syspath_prepend(str(ROOT))
    plots = importlib.import_module("bench.ranks.plots")
    results = ROOT / "bench" / "results"
    context = json.loads((results / "context-gpu.json").read_text())
    reports = {
        "scaling": json.loads((results / "train-ranks-gpu-bf16.json").read_text()) | {"tokens": 1024},
        "bandwidth": json.loads((results / "collectives-gpu.json").read_text()),
        **dict.fromkeys(("attention", "model", "tensor"), context),
    }
    for name, report in reports.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
    drawn = sorted(path.name for path in plots.draw(tmp_path))
    assert drawn == [
        "attention-bytes.png",
        "attention-milliseconds.png",
        "bandwidth.png",
        "model.png",
        "scaling.png",
        "tensor.png",
    ]
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in drawn)

"""`blu bench`: what is measured, that errors are seen, and what is written."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from blu.compiler.bench.attention import attention
from blu.compiler.bench.clocks import HostClock
from blu.compiler.bench.measure import Bench, Measurement
from blu.compiler.bench.products import product
from blu.compiler.bench.suites import SUITES
from blu.compiler.bench.workload import RandomArray, Workload
from blu.compiler.cli.bench import main
from blu.compiler.target import resolve_target_name
from blu.frontend.functional import functional

SUM = Workload("sum", (RandomArray((5, 7)),), lambda x: functional.sum(x), lambda torch, x: torch.sum(x), 0, 140)


@pytest.fixture(autouse=True)
def as_many_threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _measured(workload: Workload, *peers: str) -> Measurement:
    bench = Bench(torch, resolve_target_name("cpu"), HostClock(), peers, 1, 0)
    return bench.measure(workload, 1.0)


@pytest.mark.parametrize(
    "workload",
    [
        SUM,
        product("f32", 9, 5, 7, "tn"),
        product("bf16", 9, 5, 7, "nt"),
        attention("f32", 1, 2, 5, 4, True).with_gradients(2.5, 0, 1, 2),
    ],
    ids=lambda workload: workload.name,
)
def test_a_workload_is_right_and_has_times_of_both(workload: Workload):
    found = _measured(workload, "eager")
    assert found.problem == ""
    assert found.is_repeatable and found.failed == {}
    assert found.times["blu"].median > 0 and found.times["eager"].median > 0
    assert found.ratio("eager") == pytest.approx(found.times["eager"].median / found.times["blu"].median)
    assert found.errors["blu"] < 4e-3


def test_a_result_that_is_wrong_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    wrong = replace(SUM, blu=lambda x: functional.sum(x) * 1.001)
    monkeypatch.setitem(SUITES, "rows", lambda on_gpu, seed: [wrong])
    assert main(["rows", "--rounds", "1", "--peers", "eager"]) == 1
    assert "(wrong: an error of 1.0e-03" in capsys.readouterr().out


def test_a_side_that_fails_is_said_and_the_others_go_on():
    def fails(x: Any) -> Any:
        return functional.reshape(x, (3, 3))

    with_failure = _measured(replace(SUM, blu=fails), "eager")
    assert "room for 9" in with_failure.failed["blu"] and with_failure.problem == with_failure.failed["blu"]
    assert with_failure.ratio("eager") is None and "eager" in with_failure.times


def test_what_was_found_is_printed_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["rows", "scans", "--only", "sum of rows|cumsum 10x", "--rounds", "1", "--peers", "eager"]
    assert main([*words, "--save", str(tmp_path)]) == 0
    target = resolve_target_name("cpu")
    report = json.loads((tmp_path / f"bench-{target}.json").read_text())
    assert report["command"].startswith("blu bench rows scans --only ") and report["machine"]["target"] == target
    (entry,) = report["suites"]["rows"]
    assert entry["name"] == "sum of rows 1024x768" and entry["errors"]["blu"] < 1e-5
    assert report["summary"]["rows"]["eager"]["smallest"] == entry["ratios"]["eager"]
    table = (tmp_path / f"bench-{target}.md").read_text()
    assert "| sum of rows 1024x768 |" in table and table in capsys.readouterr().out
    assert {path.name for path in tmp_path.glob("*.png")} == {f"bench-{target}-{s}.png" for s in ("rows", "scans")}


def test_random_shapes_are_those_of_the_seed():
    names = [[item.name for item in SUITES["products"](False, seed)] for seed in (3, 3, 4)]
    assert names[0] == names[1] != names[2]


@pytest.mark.parametrize("on_gpu", [False, True])
def test_names_of_workloads_are_all_different(on_gpu: bool):
    names = [(suite, item.name) for suite, make in SUITES.items() for item in make(on_gpu, 14)]
    assert len(names) == len(set(names)) > 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["row"], "there is no suite 'row'"),
        (["--peers", "eagr"], "there is no peer 'eagr'"),
        (["--rounds", "0"], "--rounds 0: each is measured at least once"),
        (["--only", "("], "--only '(' is no regular expression"),
        (["--only", "nothing at all"], "no workload is called"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(words: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert main(words) == 2
    assert message in capsys.readouterr().err


def test_names_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["attention", "--list", "--target", "sm_90a"]) == 0
    assert "attention: bf16 64x12x1024x64 causal, gradients" in capsys.readouterr().out.splitlines()

"""bench/models/models_gpu.py, on a processor with tiny models: it cannot be tried where it is made for."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from tests.support.folders import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """The script as a module, whose programs go to a folder of the test's own."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "bench" / "models"), str(ROOT), *sys.path])
    module = import_module("models_gpu")
    monkeypatch.setattr(module, "FOLDER", tmp_path / "programs")
    yield module


@pytest.mark.parametrize("name", ["diffusion"])
def test_steps_and_gradients_are_measured(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    """Also where torch.compile fails; what is known before is saved before."""

    def make(*arguments: Any, compiled: bool) -> Any:
        if not compiled:
            return eager(*arguments, compiled=False)
        before = json.loads(report.read_text())["models"][name]["step"]
        assert before["alone, milliseconds"]["blu"] > 0 and before["losses"]["eager"]
        raise RuntimeError("no compiler")

    eager = bench.TorchSide
    monkeypatch.setattr(bench, "TorchSide", make)
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_FX_GRAPH_CACHE"):
        monkeypatch.setenv(variable, "")
    own = ["--only", name, "--size", "small", "--gradients", "f32"]
    report = tmp_path / "report.json"
    assert bench.main(["--pack", "--target", "cpu", *own]) == 0
    flags = ["--peers", "eager", "compile", "--rounds", "1", "--save", str(report), "--cache", str(tmp_path / "kept")]
    measured = bench.main(["--device", "cpu", *flags, *own])
    found = json.loads(report.read_text())["models"][name]
    assert measured == 0 and found["gradients"]["f32"]["holds"]
    step = found["step"]
    assert step["failed"] == {"compile": "RuntimeError: no compiler"} and "compile" not in step["milliseconds"]
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path / "kept" / "inductor")
    assert step["milliseconds"]["blu"] > 0 and step["milliseconds"]["eager"] > 0
    assert step["losses"]["blu"] == pytest.approx(step["losses"]["eager"], rel=5e-3)
    assert step["losses"]["blu"][2] < step["losses"]["blu"][0]


def test_each_model_has_the_names_of_its_twin(bench: Any):
    """What is drawn for PyTorch's parameters is what Blu's program takes."""
    for model in bench.MODELS.values():
        built = model.module.build(model.size("small"))
        twin = set(model.twin("small").state_dict())
        assert {name for name, _ in built.named_parameters()} == twin, model.name

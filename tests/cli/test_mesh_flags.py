"""`blu-compile --mesh` and `--gpus`: one rank's program, compiled where there is no other rank and no GPU."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from blu.compiler.cli import compile as command

SIZES = {"n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 32, "n_positions": 16}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **SIZES}))
    return str(tmp_path)


def kinds(text: str) -> set[str]:
    return set(re.findall(r"blu\.(all_reduce|all_gather|reduce_scatter)", text))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--gpus 2", {"all_reduce"}),
        ("--mesh dp=2 --shard optimizer", {"all_reduce", "all_gather", "reduce_scatter"}),
        ("--mesh tp=2", {"all_reduce"}),
    ],
)
def test_the_ir_shows_what_one_rank_exchanges(
    flags: str, expected: set[str], model: str, capsys: pytest.CaptureFixture
) -> None:
    words = [model, *flags.split(), "--compile-to", "blu-shard", "-o", "-", "--target", "sm_90a"]
    assert command.main(words) == 0
    assert kinds(capsys.readouterr().out) >= expected


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--mesh tp=3", "2 heads cannot be shared out among 3 ranks"),
        ("--mesh dp=2 --gpus 2", "contradict each other"),
        ("--mesh dp", "a mesh is written as dp=2,tp=4"),
        ("--gpus 2 --run", "ranks of a mesh do not write text"),
        ("--gpus 2 --shard all", "'all' cannot be sharded"),
        ("--shard optimizer", "--shard without --mesh"),
        ("--mesh cp=3", "sequences of 16 tokens"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    flags: str, message: str, model: str, capsys: pytest.CaptureFixture
) -> None:
    assert command.main([model, *flags.split()]) == 2
    assert message in capsys.readouterr().err


def test_a_mesh_is_of_language_models(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "f.py").write_text("def f(x): return x\n")
    assert command.main([f"{tmp_path}/f.py::f", "--gpus", "2"]) == 2
    assert "blu.jit(f, mesh=" in capsys.readouterr().err

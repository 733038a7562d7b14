"""Training by several ranks: `blu train --nproc` learns what one process learns, and ends and goes on as one does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from blu.compiler.training.engine import Engine
from blu.compiler.training.parallel import shardings_of
from blu.compiler.training.programs import TrainingRequest
from blu.compiler.training.recipe import Recipe
from blu.errors import ArgumentError
from blu.frontend.io.gpt2 import complete_config
from blu.plan.mesh import Mesh
from tests.support.programs.rank_programs import run_ranks

CONFIG = complete_config(
    {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 16, "vocab_size": 33, "n_positions": 8}
)
MODEL = "gpt2-demo-config --layers 1 --heads 2 --width 16 --positions 16 --length 16".split()
OFTEN = "--validate-every 3 --validate-batches 2 --checkpoint-every 3 --log-every 1".split()


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("texts") / "text.txt"
    path.write_text(" ".join(f"{number * number % 977}" for number in range(6000)))
    return path


def command(texts: Path, out: Path, *flags: str) -> list[str]:
    return [sys.executable, "-m", "blu", "train", *MODEL, "--data", str(texts), "--out", str(out), *OFTEN, *flags]


def trained(texts: Path, out: Path, *flags: str) -> dict:
    done = subprocess.run(
        [*command(texts, out, *flags), "--json"], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_two_ranks_learn_what_one_learns_and_go_on_as_one(texts: Path, tmp_path: Path) -> None:
    """The same losses with a batch of 4 as with 2 on each of two ranks; a checkpoint of two goes on as one rank."""
    one = trained(texts, tmp_path / "one", "--steps", "6", "--batch-size", "4")
    two = trained(texts, tmp_path / "two", "--steps", "3", "--decay-steps", "6", "--batch-size", "2", "--nproc", "2")
    assert two["losses"] == pytest.approx(one["losses"][:3], rel=1e-5)
    assert two["validation_losses"][0] == pytest.approx(one["validation_losses"][0], rel=1e-5)
    rest = trained(texts, tmp_path / "two", "--steps", "6", "--decay-steps", "6", "--batch-size", "4", "--resume")
    assert rest["losses"] == pytest.approx(one["losses"][3:], rel=1e-5)


def test_micro_batches_are_added_up_over_ranks_once(texts: Path, tmp_path: Path) -> None:
    one = trained(texts, tmp_path / "one", "--steps", "3", "--batch-size", "4", "--accumulate", "2")
    flags = ("--steps", "3", "--batch-size", "2", "--accumulate", "2", "--nproc", "2")
    assert trained(texts, tmp_path / "two", *flags)["losses"] == pytest.approx(one["losses"], rel=1e-5)


def test_all_ranks_end_with_a_checkpoint_when_they_are_asked_to(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = command(texts, out, "--steps", "100000", "--batch-size", "2", "--nproc", "2")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("step 3/"):
                break
        process.send_signal(signal.SIGTERM)
        said, start = process.communicate(timeout=60)[0], time.monotonic()
    finally:
        process.kill()
    assert time.monotonic() - start < 60
    assert "stopped by SIGTERM" in said, said
    assert [path.name for path in out.iterdir() if path.name.startswith("checkpoint") or "step" in path.name], said


def test_ranks_whose_parameters_differ_say_which(tmp_path: Path) -> None:
    for item in run_ranks(Path(__file__).parent / "comparing_ranks.py", 2):
        assert "the parameters" in item["said"], item
        assert "b " in item["said"] and "a " not in item["said"].partition("first")[2], item


def test_a_batch_that_cannot_be_shared_out_names_those_that_can() -> None:
    with pytest.raises(ArgumentError, match="batch of 6 sequences cannot be shared out among 4 ranks") as caught:
        Engine.of(CONFIG, Recipe(batch_size=6, length=8), mesh=Mesh(dp=4))
    assert "take 4 or 8" in str(caught.value)


@pytest.mark.parametrize(("entry", "elements"), [("micro", 4), ("update", 10_000)])
def test_gradients_travel_with_the_update_and_not_with_micro_batches(entry: str, elements: int) -> None:
    request = TrainingRequest.of(entry, CONFIG, "x86-64-v3", batch=4, length=8, mesh="dp=2")
    collectives = request.trace().compile().program.plan.collectives
    reduced = [item.count for item in collectives if item.kind == "all_reduce"]
    assert len(reduced) <= 2
    assert sum(reduced) <= elements
    assert (sum(reduced) > 1000) == (entry == "update")


def test_one_rank_shares_out_nothing() -> None:
    assert shardings_of("step", CONFIG, Mesh()) == {}

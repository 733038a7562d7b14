"""Training by several ranks: `blu train --nproc` learns what one process learns, and ends and goes on as one does."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from blu.compiler.cli import train
from blu.compiler.training.engine import Engine
from blu.compiler.training.parallel import RunLayout
from blu.compiler.training.programs import TrainingRequest
from blu.compiler.training.recipe import Recipe
from blu.errors import ArgumentError
from blu.frontend.io.gpt2 import complete_config, expected_shapes
from blu.plan.mesh import Mesh
from tests.support.programs.rank_programs import run_ranks
from tests.support.ranks.starting import mpiexec, run_command

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
    """What a run reports. One of a single rank is in this process, which has what it imports."""
    words = [*command(texts, out, *flags), "--json"]
    if "--nproc" not in flags:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            assert train.main(words[words.index("train") + 1 :]) == 0
        return json.loads(said.getvalue().splitlines()[-1])
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def one(texts: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What one process learns in six steps."""
    return trained(texts, tmp_path_factory.mktemp("one") / "run", "--steps", "6", "--batch-size", "4")


def test_two_ranks_learn_what_one_learns_and_go_on_as_one(one: dict, texts: Path, tmp_path: Path) -> None:
    """The same losses with a batch of 4 as with 2 on each of two ranks; a checkpoint of two goes on as one rank."""
    two = trained(texts, tmp_path / "two", "--steps", "3", "--decay-steps", "6", "--batch-size", "2", "--nproc", "2")
    assert two["losses"] == pytest.approx(one["losses"][:3], rel=1e-5)
    assert two["validation_losses"][0] == pytest.approx(one["validation_losses"][0], rel=1e-5)
    rest = trained(texts, tmp_path / "two", "--steps", "6", "--decay-steps", "6", "--batch-size", "4", "--resume")
    assert rest["losses"] == pytest.approx(one["losses"][3:], rel=1e-5)


def over_two_hosts(texts: Path, out: Path, **variables: str) -> tuple[list[float], list[int]]:
    """Losses of three steps on two names of this machine, and the bytes that each rank moved over TCP."""
    words = command(texts, out, "--steps", "3", "--decay-steps", "6", "--batch-size", "2", "--json")
    words[words.index("blu")] = "tests.support.ranks.counting"
    hosts = ["-launcher", "fork", "-hosts", "localhost,127.0.0.1", "-ppn", "1", "-n", "2"]
    done = run_command([mpiexec(), *hosts, *words], {"BLU_NUM_THREADS": "1", **variables})
    assert (done.code, done.orphans) == (0, []), done.err
    counts = [int(number) for number in re.findall(r'"bytes over TCP": (\d+)', done.err)]
    return json.loads(done.out.splitlines()[-1])["losses"], counts


def test_ranks_of_two_hosts_learn_what_one_learns_over_tcp(one: dict, texts: Path, tmp_path: Path) -> None:
    """As those of two machines do; where MPI may use the memory that they share, next to nothing goes over TCP."""
    gradients = 3 * next(Path(one["out"]).glob("step-*6/model.safetensors")).stat().st_size
    far = {"MPIR_CVAR_NOLOCAL": "1", "UCX_TLS": "tcp,self", "FI_PROVIDER": "tcp"}  # MPICH has either library below
    losses, moved = over_two_hosts(texts, tmp_path / "two", **far)
    assert losses == pytest.approx(one["losses"][:3], rel=1e-5)
    assert len(moved) == 2
    assert min(moved) > gradients, (moved, gradients)
    _, near = over_two_hosts(texts, tmp_path / "near")
    assert len(near) == 2
    assert max(near) < gradients / 3, (near, gradients)


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
        said = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert "stopped by SIGTERM" in said, said
    assert [path.name for path in out.iterdir() if path.name.startswith("checkpoint") or "step" in path.name], said


def test_ranks_whose_parameters_differ_say_which(tmp_path: Path) -> None:
    for item in run_ranks(Path(__file__).parent / "comparing_ranks.py", 2):
        assert "of the parameters, b differs: rank 1 has the bits" in item["said"], item
        assert "rank 0 has" in item["said"], item


def test_ranks_compare_their_parameters_as_often_as_they_are_asked_to(texts: Path, tmp_path: Path) -> None:
    """One rank has other bits from the first step on: they are told after the second, though nothing is saved then."""
    found = run_ranks(Path(__file__).parent / "drifting_ranks.py", 2, str(texts), str(tmp_path / "run"))
    for item in found:
        assert "of the parameters, h.0.mlp.c_fc.bias differs: rank 1 has the bits" in item["said"], item
        assert item["step"] == 2


def test_a_batch_that_cannot_be_shared_out_names_those_that_can() -> None:
    with pytest.raises(ArgumentError, match="batch of 6 sequences cannot be shared out among 4 ranks") as caught:
        Engine.of(CONFIG, Recipe(batch_size=6, length=8), mesh=Mesh(dp=4))
    assert "take a batch of 4 or 8" in str(caught.value)


@pytest.mark.parametrize(("entry", "elements"), [("micro", 4), ("update", 10_000)])
def test_gradients_travel_with_the_update_and_not_with_micro_batches(entry: str, elements: int) -> None:
    request = TrainingRequest.of(entry, CONFIG, "x86-64-v3", batch=4, length=8, mesh="dp=2")
    collectives = request.trace().compile().program.plan.collectives
    reduced = [item.count for item in collectives if item.kind == "all_reduce"]
    assert len(reduced) <= 2
    assert sum(reduced) <= elements
    assert (sum(reduced) > 1000) == (entry == "update")


def test_one_rank_shares_out_nothing() -> None:
    assert RunLayout(CONFIG).shardings_of("step") == {}


def test_ranks_that_do_norms_on_parts_of_sequences_learn_what_one_learns(texts: Path, tmp_path: Path) -> None:
    even = ("--vocab-size", "1024", "--steps", "3", "--batch-size", "4")
    one = trained(texts, tmp_path / "one", *even)
    parts = ("--nproc", "2", "--mesh", "tp=2", "--sequence-parallel", "True")
    two = trained(texts, tmp_path / "two", *even, *parts)
    assert two["losses"] == pytest.approx(one["losses"], rel=1e-5)


@pytest.mark.parametrize(("mesh", "text"), [("tp=2", "*, tp"), ("tp=2,cp=2", "*, tp/4"), ("dp=2", "")])
def test_sequences_are_split_between_products_only_among_ranks_of_tp(mesh: str, text: str) -> None:
    layout = RunLayout(CONFIG, Mesh.of_text(mesh), sequence_parallel=True)
    assert layout.between_of("micro").get("tokens", "") == text
    assert not layout.between_of("update")


@pytest.mark.parametrize(
    ("mesh", "length", "message"),
    [
        (
            "tp=2",
            7,
            "sequences of 7 tokens cannot be shared out among 2 ranks (tp); 1, 7 ranks can; take a length of 6 or 8",
        ),
        (
            "tp=2,cp=2",
            12,
            "sequences of 12 tokens cannot be shared out among 2 ranks (tp); 1, 3 ranks can; take a length of 8",
        ),
    ],
)
def test_positions_that_cannot_be_split_between_products_are_told(mesh: str, length: int, message: str) -> None:
    config = {**CONFIG, "vocab_size": 32}
    layout = RunLayout(config, Mesh.of_text(mesh), sequence_parallel=True)
    with pytest.raises(ArgumentError) as caught:
        layout.check(4, length)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("mesh", "sharded", "message"),
    [
        ("tp=3", "", ["2 heads cannot be shared out among 3 ranks", "1, 2 ranks can", "an MLP of width 64"]),
        ("dp=3", "", ["a batch of 4 sequences", "1, 2, 4 ranks can; take a batch of 3 or 6"]),
        ("cp=3", "", ["sequences of 8 tokens", "1, 2, 4 ranks can; take a length of 6 or 12"]),
        ("tp=2", "", ["vocabulary of 33", "--vocab-size) of 32 or 34"]),
        ("tp=2", "optimizer", ["only among ranks of the axis dp"]),
        ("pp=2", "", ["no axis 'pp'"]),
        ("dp=2", "all", ["'all' cannot be sharded: optimizer or parameters"]),
    ],
)
def test_what_cannot_be_shared_out_is_told_before_anything_is_compiled(
    mesh: str, sharded: str, message: list[str]
) -> None:
    with pytest.raises(ArgumentError) as caught:
        Engine.of(CONFIG, Recipe(batch_size=4, length=8), mesh=Mesh.of_text(mesh), sharded=sharded)
    assert all(text in str(caught.value) for text in message), str(caught.value)


@pytest.mark.parametrize("sharded", ["optimizer", "parameters"])
def test_ranks_hold_the_part_of_the_memory_that_they_share(sharded: str) -> None:
    """As planned: half of the moments on each of two ranks, and half of the parameters with them."""
    request = TrainingRequest.of("step", CONFIG, "x86-64-v3", batch=4, length=8, mesh="dp=2", sharded=sharded)
    lowered = request.trace().lower(stop="blu-shard")
    [main] = lowered.module.body.operations
    sizes = dict.fromkeys(("model", "state"), 0)
    for argument, attributes in zip(main.arguments, main.attributes["arg_attrs"], strict=True):
        kind = str(attributes["blu.name"]).strip('"').partition(".")[0]
        sizes[kind] = sizes.get(kind, 0) + 4 * math.prod(argument.type.shape)
    whole = sum(4 * math.prod(shape) for shape in expected_shapes(CONFIG).values())
    assert sizes["state"] == pytest.approx(whole, rel=0.05)
    assert sizes["model"] == (whole if sharded == "optimizer" else pytest.approx(whole / 2, rel=0.05))


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_that_share_the_optimizer_need_no_more_memory_besides(ranks: int) -> None:
    """As planned for a GPU, with activations that take most of it: all that they share is saved but for a bucket."""
    config = {**CONFIG, "n_layer": 2, "n_embd": 128, "vocab_size": 128, "n_positions": 128}
    sizes = [4 * math.prod(shape) for shape in expected_shapes(config).values()]
    alone = planned_bytes(config, batch=16, mesh="")
    shared = planned_bytes(config, batch=16 * ranks, mesh=f"dp={ranks}", sharded="optimizer")
    saved = 2 * sum(sizes) * (ranks - 1) / ranks
    assert shared[0] == pytest.approx(alone[0] - saved, rel=1e-3)
    assert sum(shared) <= sum(alone) - saved + max(sizes)


def planned_bytes(config: dict, **fields: object) -> tuple[int, int]:
    """The bytes of arguments, and of everything else, of a step in bf16 with sequences of 128."""
    request = TrainingRequest.of("step", config, "sm_90a", length=128, dtype="bf16", **fields)
    module = request.trace().lower(stop="blu-plan-memory").module
    [main] = [item for item in module.body.operations if item.operation.attributes["sym_name"].value == "main"]
    arguments = sum(4 * math.prod(argument.type.shape) for argument in main.arguments)
    return arguments, module.operation.attributes["blu.arena_bytes"].value


def test_a_mesh_of_another_number_of_ranks_is_refused(texts: Path, tmp_path: Path) -> None:
    words = [*command(texts, tmp_path, "--mesh", "dp=2,tp=2", "--nproc", "2")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--mesh dp=2,tp=2 is of 4 ranks, and 2 run" in done.stderr


def test_ranks_that_share_the_optimizer_go_on_from_a_checkpoint_bit_by_bit(texts: Path, tmp_path: Path) -> None:
    flags = ("--batch-size", "2", "--nproc", "2", "--shard", "optimizer", "--decay-steps", "6", "--steps")
    trained(texts, tmp_path / "one", *flags, "6")
    trained(texts, tmp_path / "two", *flags, "3")
    trained(texts, tmp_path / "two", *flags, "6", "--resume")
    ends = [tmp_path / name / "step-00000006" for name in ("one", "two")]
    for name in ("rank-00000.safetensors", "rank-00001.safetensors"):
        assert (ends[0] / name).read_bytes() == (ends[1] / name).read_bytes()
    words = command(texts, tmp_path / "two", *flags, "9", "--resume", "--width", "32")
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("does not fit this run") == done.stderr.count("n_embd was 16, is 32") == 1, "said by ranks"


@pytest.mark.slow
def test_a_checkpoint_of_four_ranks_goes_on_with_two_and_with_one(texts: Path, tmp_path: Path) -> None:
    even = ("--vocab-size", "1024", "--decay-steps", "6", "--steps")
    four = ("--batch-size", "2", "--nproc", "4", "--mesh", "dp=2,tp=2", "--shard", "parameters")
    first = trained(texts, tmp_path / "run", *four, *even, "3")
    for name in ("two", "one"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
    two = ("--batch-size", "4", "--nproc", "2", "--mesh", "tp=2")
    rest = trained(texts, tmp_path / "two", *two, *even, "6", "--resume")
    alone = trained(texts, tmp_path / "one", "--batch-size", "4", *even, "6", "--resume")
    whole = trained(texts, tmp_path / "whole", "--batch-size", "4", *even, "6")
    assert first["losses"] == pytest.approx(whole["losses"][:3], rel=1e-5)
    assert rest["losses"] == pytest.approx(whole["losses"][3:], rel=1e-5)
    assert alone["losses"] == pytest.approx(whole["losses"][3:], rel=1e-5)

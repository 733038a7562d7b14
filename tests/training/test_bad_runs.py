"""Bad input to `blu train`, and what goes wrong while it runs: an error before the first step, or nothing is lost.

Rows 34 and 50 are also in test_kills.py; what checkpoints make of damage is in tests/frontend/io/test_checkpoint.py.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from blu.compiler.requests import CONFIG_KEYS
from blu.compiler.training import Cadence, Recipe, Trainer, training_config
from blu.compiler.training.engine import Engine
from blu.compiler.training.events import Saved
from blu.errors import ArgumentError, CheckpointError, WeightsError
from blu.frontend.io.checkpoints import checkpoints
from blu.frontend.io.checkpoints import write as checkpoint_write
from blu.frontend.io.checkpoints.checkpoint import load, save
from blu.frontend.io.checkpoints.checkpoints import Checkpoints
from blu.frontend.io.data.training_data import open_training_data
from blu.frontend.io.gpt2 import PRESETS, random_state_dict
from tests.support.training.training_runs import BATCH, TEXT, TINY, Trial, same_arrays

DATA = ["--data", "tokens.bin"]
CONSTANT = ["--schedule", "constant", "--warmup", "0", *DATA]


def saved(trial: Trial, *steps: int, out: str = "run") -> list[Path]:
    """A run with checkpoints of these steps, one directory each."""
    for step in steps:
        assert trial.train("--steps", str(step), "--resume", "--out", out, *CONSTANT).code == 0
    return [Path(out, f"step-{step:08}") for step in steps]


def resume(trial: Trial, steps: int, *words: str, out: str = "run") -> tuple[int, str]:
    """Go on with a run; exit code and all that it says."""
    ran = trial.train("--resume", "--out", out, "--steps", str(steps), *words, flags=[])
    assert "Traceback" not in ran.errors
    return ran.code, ran.output + ran.errors


def test_row_33_a_full_disk_costs_a_checkpoint_and_not_the_run(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    fill, asked = checkpoint_write._fill, []

    def fail_first(directory: Path, *arguments: object) -> None:
        asked.append(directory)
        if len(asked) == 1:
            (directory / "model.safetensors").write_bytes(b"half")
            raise OSError(28, "No space left on device")
        fill(directory, *arguments)

    monkeypatch.setattr(checkpoint_write, "_fill", fail_first)
    ran = trial.train("--steps", "6", *CONSTANT, "--checkpoint-every", "2", "--out", "run")
    assert ran.code == 0 and ran.output.count("No space left") == 1
    assert sorted(path.name for path in Path("run").glob("*step*")) == ["step-00000004", "step-00000006"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
def test_row_34_a_torn_checkpoint_is_passed_over_for_the_one_before(trial: Trial, name: str) -> None:
    [_, torn] = saved(trial, 2, 4)
    torn.joinpath(name).write_bytes(torn.joinpath(name).read_bytes()[:-10])
    code, said = resume(trial, 5)
    assert code == 0 and "goes on after step 2" in said and f"{name}" in said
    [whole] = saved(trial, 5, out="whole")
    assert same_arrays(Path("run/step-00000005"), whole)


def test_row_35_the_last_save_is_durable_when_the_run_ends(trial: Trial) -> None:
    ran = trial.train("--steps", "9", *CONSTANT, "--checkpoint-every", "1", "--out", "run")
    assert ran.code == 0 and Path("run/latest").read_text() == "step-00000009\n"
    assert [path.name for path in sorted(Path("run").glob("step-*"))] == [f"step-0000000{step}" for step in (7, 8, 9)]
    for step in (7, 8):  # saved in the background while later steps changed the weights
        assert trial.train("--steps", str(step), *CONSTANT, "--out", f"alone-{step}").code == 0
        assert same_arrays(Path(f"run/step-{step:08}"), Path(f"alone-{step}/step-{step:08}"))


@pytest.mark.filterwarnings("default")
def test_row_36_files_of_another_step_are_noticed(trial: Trial) -> None:
    first, second = saved(trial, 2, 4)
    shutil.copy(first / "optimizer.safetensors", second)
    assert "goes on after step 2" in resume(trial, 5)[1]
    shutil.rmtree("run")
    [only] = saved(trial, 2)
    only.joinpath("optimizer.safetensors").unlink()
    code, said = resume(trial, 5)
    assert code == 1 and "no sound checkpoint" in said and "optimizer.safetensors" in said


def test_row_37_all_that_does_not_fit_is_listed_at_once(trial: Trial) -> None:
    saved(trial, 2)
    np.fromfile("tokens.bin", "<u2")[::-1].tofile("other.bin")
    data = ["--data", "other.bin", "--seed", "1"]
    code, said = resume(trial, 4, *data, "--dtype", "f16")
    assert code == 1
    for part in ("optimizer: missing: scale.good_steps", "data: seed: 0, now 1", "data: fingerprint"):
        assert part in said
    code, said = resume(trial, 4, *data, "--width", "32", "--heads", "4")
    assert code == 1 and "shape of" not in said, "fifty shapes, all for one reason"
    for part in ("config: n_embd was 16, is 32", "config: n_head was 2, is 4", "data: seed: 0, now 1"):
        assert part in said
    assert resume(trial, 4)[0] == 0


def test_row_37_other_settings_are_said_and_taken(trial: Trial) -> None:
    saved(trial, 2)
    code, said = resume(trial, 4, "--learning-rate", "1e-3", "--batch-size", "2")
    assert code == 0 and "goes on with steps 4 (was 2), learning_rate 0.001 (was 0.0006)" in said


def test_row_38_a_checkpoint_of_a_newer_blu_is_refused(trial: Trial) -> None:
    [path] = saved(trial, 2)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | {"format": 99, "blu": "7.5.0"}))
    code, said = resume(trial, 4)
    assert code == 1 and "written by Blu 7.5.0 in format 99" in said


def test_a_device_or_a_pipe_is_no_data(trial: Trial) -> None:
    os.mkfifo("pipe.txt")
    for words in (["--data", "/dev/zero"], ["--data", "pipe.txt"], ["--data", "text.txt", "--val-data", "/dev/zero"]):
        assert "not a regular file" in trial.refused("--steps", "2", *words)


@pytest.mark.parametrize("rate", ["1e30", "nan parameters"])
def test_a_run_that_only_skips_steps_is_an_error(trial: Trial, rate: str) -> None:
    [path] = saved(trial, 2)
    words = ["--on-nonfinite", "skip", "--clip", "0", "--data", "tokens.bin", "--checkpoint-every", "0", *BATCH]
    if rate == "1e30":
        ran = trial.train("--resume", "--out", "run", "--steps", "8", "--learning-rate", rate, *words, flags=[])
        assert "steps were not finite, up to step 8" in ran.errors and "step-00000002 was saved before" in ran.errors
    else:
        model = {name: np.full_like(array, np.nan) for name, array in load("run").model.items()}
        checkpoint_write.save_pretrained("nan", json.loads((path / "config.json").read_text()), model)
        ran = trial.train("--init-from", "nan", "--out", "other", "--steps", "3", *words, flags=[])
        assert "the last 3 of 3 steps were not finite, up to step 3; the parameter h.0.attn" in ran.errors
        assert not list(Path("other").glob("step-*"))
    assert ran.code == 1 and [item.name for item in Path("run").glob("step-*")] == ["step-00000002"]


def test_a_checkpoint_is_told_of_when_it_is_on_the_disk(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be saved is told of as that."""
    write, written = checkpoints.write, []

    def slow(directory: Path, taken: Any, form: Any) -> Path:
        time.sleep(0.2)
        if taken.step == 2:
            raise CheckpointError("step 2 cannot be saved: no room")
        written.append(taken.step)
        return write(directory, taken, form)

    told = []

    def tell(event: Any) -> None:
        told.append((type(event).__name__, getattr(event, "step", getattr(event, "text", ""))))
        assert not isinstance(event, Saved) or event.step in written, "told of before it was written"

    monkeypatch.setattr(checkpoints, "write", slow)
    data = open_training_data(["tokens.bin"], vocab_size=257)
    config = training_config("gpt2-demo-config", {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32})
    recipe = Recipe(batch_size=2, length=16, steps=4)
    trainer = Trainer(Engine.of(config, recipe), config, recipe, data, Cadence(checkpoint_every=1), Checkpoints("run"))
    trainer.observers = [tell]
    trainer.engine.set_parameters(random_state_dict(config, 0))
    trainer.run()
    saves = [item for item in told if item[0] in ("Saved", "Note")]
    assert saves == [("Saved", 1), ("Note", "step 2 cannot be saved: no room"), ("Saved", 3), ("Saved", 4)]


class Bomb:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, ("touch exploded",)


@pytest.mark.parametrize(
    "content", [pickle.dumps(Bomb()), b"\xff" * 8 + b"{}", b'\x20\0\0\0\0\0\0\0{"a":1,"a":1}' + b" " * 20, b""]
)
def test_row_39_a_hostile_checkpoint_runs_no_code(trial: Trial, content: bytes) -> None:
    [path] = saved(trial, 2)
    (path / "model.safetensors").write_bytes(content)
    (path / "manifest.json").unlink()
    checkpoint_write.write_manifest(path, 2)  # whoever makes the file can also sign it
    code, said = resume(trial, 4)
    assert code == 1 and "model.safetensors" in said and not Path("exploded").exists()


def test_row_46_a_loss_that_is_not_finite_stops_the_run(trial: Trial) -> None:
    saved(trial, 2)
    code, said = resume(trial, 50, "--learning-rate", "1e30", "--clip", "0", "--checkpoint-every", "0")
    assert code == 1 and "at step " in said and "--on-nonfinite skip" in said and "--resume" in said
    assert "step-00000002 was saved before" in said
    assert resume(trial, 4, "--learning-rate", "1e-3", "--clip", "1")[0] == 0


def test_row_46_the_first_bad_op_is_named_on_request(trial: Trial) -> None:
    [path] = saved(trial, 2)
    model = dict(load("run").model)
    model["h.0.mlp.c_fc.weight"] = model["h.0.mlp.c_fc.weight"] * np.float32(1e38) * np.float32(30)
    config = json.loads((path / "config.json").read_text())
    checkpoint_write.save_pretrained(Path("large"), config, model)
    words = ["--init-from", "large", "--find-nonfinite", "--steps", "4", *CONSTANT, *BATCH]
    ran = trial.train(*words, flags=[])
    assert ran.code == 1 and "at step 1" in ran.errors
    assert "first infinite: blu.matmul at " in ran.errors and "(h.0.mlp.c_fc)" in ran.errors, ran.errors


def test_row_46_steps_that_are_not_finite_are_skipped_by_policy(trial: Trial) -> None:
    [path] = saved(trial, 2)
    model = dict(load("run").model)
    broken = np.array(model["wte.weight"])
    broken[ord("9")] = np.inf  # only texts with a 9 are affected
    shutil.copytree(path, "broken")
    config = json.loads((path / "config.json").read_text()) | {"tie_word_embeddings": False}
    arrays = model | {"wte.weight": broken, "lm_head.weight": model["wte.weight"]}
    checkpoint_write.save_pretrained("broken", config, arrays)
    words = ["--init-from", "broken", "--on-nonfinite", "skip", "--steps", "40", "--json", *CONSTANT, *BATCH]
    ran = trial.train(*words, "--out", "skipping", flags=[])
    result = ran.result
    assert ran.code == 0 and 40 > result["skipped"] == sum(loss is None for loss in result["losses"]) > 0
    assert "skipped" in ran.errors
    ends = load("skipping").model
    others = np.delete(ends["wte.weight"], ord("9"), axis=0)
    assert np.isfinite(others).all()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"\1\2\3", "do not make whole uint16 tokens"),
        (np.array([20240520, 1, 99, *[0] * 253], "<i4").tobytes() + b"\1\0", "the header says 99 tokens"),
        (np.arange(300, dtype="<u2").tobytes(), "token 257 at position 257 is outside of the vocabulary of 257"),
        (np.zeros(20, "<u2").tobytes(), "20 tokens make 1 windows of 16"),
    ],
)
def test_row_47_data_that_cannot_be_trained_on(trial: Trial, content: bytes, words: str) -> None:
    Path("bad.bin").write_bytes(content)
    assert words in trial.refused("--data", "bad.bin", "--steps", "2")
    assert not Path("runs").exists()


def test_row_47_data_that_is_not_there(trial: Trial) -> None:
    assert "no file matches 'no/*.bin'" in trial.refused("--data", "no/*.bin")
    assert "--data" in trial.refused(code=2)
    Path("empty").mkdir()
    assert "no texts and no shards" in trial.refused("--data", "empty")
    Path("short.txt").write_text("few")
    assert "short.txt: 4 tokens make 0 windows" in trial.refused("--data", "short.txt")
    assert "all files of tokens.bin are for validation" in trial.refused(*DATA, "--val-data", "tokens.bin")


def test_row_49_a_scheduler_s_signal_is_a_stop_with_a_checkpoint(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    step = Trainer._one_step

    def signalled(self: Trainer) -> None:
        step(self)
        if self.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Trainer, "_one_step", signalled)
    assert trial.train("--steps", "50", *CONSTANT, "--out", "run").code == 143
    assert load("run").step == 3


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--heads", "3"], "n_embd 16 is not a multiple of n_head 3"),
        (["--width", "0"], "n_embd is 0"),
        (["--positions", "-4"], "n_positions is -4"),
    ],
)
def test_configs_that_do_not_divide(trial: Trial, flags: list[str], words: str) -> None:
    assert words in trial.refused(*flags, *DATA)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--learning-rate", "-1e-3"], "learning_rate is -0.001, expected a number above 0"),
        (["--learning-rate", "0"], "learning_rate is 0"),
        (["--learning-rate", "nan"], "learning_rate is nan"),
        (["--final-learning-rate", "1"], "final_learning_rate 1 is above learning_rate 0.0006"),
        (["--weight-decay", "-0.1"], "weight_decay is -0.1"),
        (["--beta1", "1"], "beta1 is 1"),
        (["--steps", "-5"], "steps is -5"),
        (["--batch-size", "0"], "batch_size is 0"),
        (["--schedule", "cosinus"], "schedule is 'cosinus', expected one of cosine"),
        (["--dtype", "int8"], "dtype is 'int8'"),
        (["--on-nonfinite", "panic"], "on_nonfinite is 'panic'"),
        (["--length", "64"], "length 64 is more than the model's 32 positions"),
        (["--total-batch-size", "100"], "not a multiple of a batch's 32 tokens"),
        (["--validate-every", "-1"], "validate_every is -1"),
        (["--keep-last", "0"], "keep_last is 0"),
        (["--tokenizer", "bytes", "--vocab-size", "100"], "vocabulary"),
    ],
)
def test_numbers_that_make_no_sense(trial: Trial, flags: list[str], words: str) -> None:
    code = 1 if "--vocab-size" in flags else 2
    assert words in trial.refused(*flags, "--data", "text.txt" if code == 1 else "tokens.bin", code=code)


def test_all_wrong_numbers_are_listed_at_once() -> None:
    with pytest.raises(ArgumentError) as caught:
        Recipe(batch_size=0, learning_rate=-1.0, beta2=2.0, dtype="f8")
    assert all(name in str(caught.value) for name in ("batch_size", "learning_rate", "beta2", "dtype"))
    with pytest.raises(ArgumentError, match="sample_every is -1"):
        Cadence(sample_every=-1)


@pytest.mark.parametrize(
    ("name", "guess"),
    [("gpt2-demo-confg", "gpt2-demo-config"), ("gpt-xl", "gpt2-xl"), ("d1o2", "d12"), ("d0", ""), ("d97", "")],
)
def test_unknown_presets_name_the_nearest(trial: Trial, name: str, guess: str) -> None:
    said = trial.refused(name, *DATA, flags=[])
    assert f"there is no preset {name!r}" in said and (f"did you mean '{guess}'" in said or not guess)
    with pytest.raises(WeightsError):
        training_config(name)


def test_a_tokenizer_larger_than_the_vocabulary(trial: Trial) -> None:
    said = trial.refused("--data", "text.txt", "--init-from", "nowhere/at/all", flags=[])
    assert "nowhere/at/all" in said
    Path("tok").mkdir()
    vocabulary = {chr(0x4E00 + number): number for number in range(300)}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    (Path("tok") / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    said = trial.refused("--data", "text.txt", "--tokenizer", "tok", code=2)
    assert "the tokenizer has 300 tokens, the model a vocabulary of 257" in said and "--vocab-size 300" in said


def test_a_run_is_not_overwritten(trial: Trial) -> None:
    saved(trial, 2)
    assert "run has checkpoints of another run" in trial.refused(*DATA, "--out", "run", code=2)
    assert "no run to resume" in trial.refused("--resume", flags=[], code=2)


def test_data_that_turns_bad_in_the_middle_loses_no_step(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blu.frontend.io.data.token_shards.CHECKED_TOKENS", 10)
    monkeypatch.setattr("blu.frontend.io.data.token_shards.CHECKED_START", 10)
    tokens = np.frombuffer(TEXT.encode(), np.uint8).astype("<u2")
    tokens[32 * 5 + 3] = 999
    tokens.tofile("late.bin")
    ran = trial.train("--steps", "50", "--no-shuffle", "--data", "late.bin", "--out", "run")
    assert ran.code == 1 and "token 999 at position 163" in ran.errors and load("run").step == 5


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--lerning-rate", "1"], "did you mean '--learning-rate'"),
        (["--steps", "3", "--epochs", "1"], "--steps and --epochs contradict each other"),
        (["--device", "tpu"], "there is no target 'tpu'"),
        (["--dropout", "0.1"], "--dropout 0.1 is not possible: the model has no dropout"),
        (["--steps", "many"], "invalid int value: 'many'"),
    ],
)
def test_slips_on_the_command_line(trial: Trial, flags: list[str], words: str) -> None:
    assert words in trial.refused(*DATA, *flags, code=2)


def test_a_run_that_is_not_there_is_not_resumed(trial: Trial) -> None:
    said = trial.refused("--resume", "--out", "nosuch", flags=[], code=2)
    assert "there is no run to resume in nosuch" in said and "--out" in said
    assert not Path("nosuch").exists()


def test_a_directory_without_tokenizer_is_said_with_flags_of_training(trial: Trial) -> None:
    Path("empty").mkdir()
    said = trial.refused("--data", "text.txt", "--tokenizer", "empty", code=2)
    assert "empty: no tokenizer here" in said and "--tokenizer bytes" in said and "--prompt-tokens" not in said


def test_a_small_vocabulary_names_the_text_and_its_byte(trial: Trial) -> None:
    said = trial.refused("--data", "text.txt", "--vocab-size", "100", flags=[*TINY, "--val-split", "0"])
    assert "text.txt: byte 1" in said and "outside of the vocabulary of 100" in said and "--vocab-size 257" in said
    assert ".bin" not in said


def test_another_width_on_resuming_is_one_line(trial: Trial) -> None:
    config = {**PRESETS["gpt2"], "n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 257}
    state = random_state_dict(config, 0)
    saved = {"config": {key: config[key] for key in CONFIG_KEYS}, "recipe": {}, "data": {}}
    save("run", 1, state, {}, saved, config=config)
    said = trial.refused("--data", "text.txt", "--resume", "--out", "run", "--width", "32")
    assert "config: n_embd was 16, is 32" in said and "shape" not in said and len(said.splitlines()) < 10

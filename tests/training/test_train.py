"""`blu train`: it learns what PyTorch learns, goes on exactly where it stopped, and says what it does."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from blu.errors import ArgumentError
from blu.frontend.io import load_file, load_tokenizer
from blu.frontend.schedules import cosine_schedule
from tests.support.training.training_runs import MODEL, TINY, Trial, same_arrays

DATA = ["--data", "tokens.bin"]
STEPS, MICRO, BATCH, LENGTH = 10, 2, 2, 16
RATE = 1e-2


@pytest.fixture
def peer(tmp_path: Path) -> GPT2LMHeadModel:
    """transformers' model in float64, whose float32 weights are in peer/."""
    torch.manual_seed(0)
    sizes = {"n_layer": 1, "n_head": 2, "n_embd": 16, "n_positions": 32, "vocab_size": 257}
    model = GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    model.save_pretrained(tmp_path / "peer")
    return model.to(torch.float64)


def windows(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens and targets of a micro-batch, taken in order."""
    tokens = np.fromfile("tokens.bin", "<u2").astype(np.int64)
    begin = number * BATCH * LENGTH
    rows = [tokens[at : at + LENGTH + 1] for at in range(begin, begin + BATCH * LENGTH, LENGTH)]
    found = torch.tensor(np.stack(rows))
    return found[:, :-1], found[:, 1:]


def loss_of(peer: GPT2LMHeadModel, number: int) -> torch.Tensor:
    tokens, targets = windows(number)
    return torch.nn.functional.cross_entropy(peer(tokens).logits.flatten(0, 1), targets.flatten())


def torch_losses(peer: GPT2LMHeadModel) -> list[float]:
    """The mean losses of steps of two micro-batches, with AdamW, clipping, warmup and cosine."""
    decayed = [item for item in peer.parameters() if item.ndim >= 2]
    other = [item for item in peer.parameters() if item.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=1e-8)
    losses = []
    for step in range(STEPS):
        for group in adamw.param_groups:
            group["lr"] = cosine_schedule(step, RATE, RATE / 10, 3, STEPS)
        adamw.zero_grad()
        loss = sum(loss_of(peer, step * MICRO + micro) for micro in range(MICRO)) / MICRO
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        adamw.step()
        losses.append(float(loss.detach()))
    return losses


def rows_of(run: str) -> list[dict[str, str]]:
    """The rows of a run's metrics.csv."""
    with Path(run, "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_losses_and_gradients_are_torchs(trial: Trial, peer: GPT2LMHeadModel) -> None:
    words = ["--init-from", "peer", "--steps", str(STEPS), "--total-batch-size", str(MICRO * BATCH * LENGTH)]
    words += ["--no-shuffle", "--learning-rate", str(RATE), "--warmup", "3", "--json", "--dump-grads", "g.safetensors"]
    ran = trial.train(*words, "--batch-size", "2", "--length", "16", *DATA, flags=[])
    assert ran.code == 0, ran.errors
    (sum(loss_of(peer, micro) for micro in range(MICRO)) / MICRO).backward()
    expected = {name: item.grad.numpy() for name, item in peer.named_parameters()}
    found = load_file(trial.folder / "g.safetensors")
    assert set(found) == set(expected)
    for name, gradient in expected.items():
        assert found[name].dtype == np.float32
        assert np.linalg.norm(found[name] - gradient) < 2e-6 * np.linalg.norm(gradient), name
    np.testing.assert_allclose(ran.result["losses"], torch_losses(peer), rtol=0, atol=1e-4)


def test_a_run_in_two_parts_is_the_same_run(trial: Trial) -> None:
    common = ["--warmup", "2", "--decay-steps", "40", *DATA]
    assert trial.train("--steps", "40", *common, "--out", "whole", "--checkpoint-every", "15").code == 0
    assert trial.train("--steps", "17", *common, "--out", "parts").code == 0
    ran = trial.train("--resume", "--out", "parts", "--steps", "40", flags=[])
    assert ran.code == 0 and "goes on after step 17" in ran.output
    assert same_arrays(Path("whole/step-00000040"), Path("parts/step-00000040"))
    losses = [[row["loss"] for row in rows_of(run)] for run in ("whole", "parts")]
    assert losses[0] == losses[1] and len(losses[0]) == 40


def test_text_becomes_bytes_and_is_validated_and_sampled(trial: Trial) -> None:
    words = ["--data", "text.txt", "--steps", "6", "--validate-every", "3", "--sample-every", "6"]
    ran = trial.train(*words, "--sample-prompt", "99 bottles", "--sample-tokens", "5", "--out", "run")
    assert ran.code == 0, ran.errors
    assert "step 3 | validation loss 5." in ran.output and "step 6 | sample: 99 bottles" in ran.output
    events = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    assert [event["step"] for event in events if event["event"] == "validation"] == [3, 6]
    assert math.isfinite(events[0]["utilization"]) and events[0]["memory"] > 1 << 20
    rows = rows_of("run")
    assert [row["step"] for row in rows if row["validation_loss"]] == ["3", "6"]


def test_transformers_loads_a_checkpoint(trial: Trial) -> None:
    assert trial.train("--steps", "2", *DATA, "--out", "run").code == 0
    model = GPT2LMHeadModel.from_pretrained("run/step-00000002").double()
    words = ["--init-from", "run/step-00000002", "--steps", "1", "--no-shuffle", "--json", *DATA]
    ran = trial.train(*words, "--batch-size", "2", "--length", "16", flags=[])
    assert ran.result["losses"][0] == pytest.approx(float(loss_of(model, 0).detach()), abs=1e-5)


def test_the_loss_curve_is_drawn(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    assert trial.train("--steps", "3", *DATA, "--out", "run", "--plot").code == 0
    assert Path("run/loss.png").read_bytes()[:4] == b"\x89PNG"


def test_without_matplotlib_plotting_is_refused_at_once(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'blu[plot]'" in trial.refused("--steps", "3", *DATA, "--plot")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_with_a_checkpoint(trial: Trial, number: signal.Signals, code: int) -> None:
    common = ["--warmup", "0", "--decay-steps", "1000", *DATA]
    handler = signal.getsignal(number)

    def interrupt() -> None:
        while not Path("run/metrics.csv").is_file() or len(Path("run/metrics.csv").read_text()) < 1000:
            time.sleep(0.005)
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    ran = trial.train("--steps", "1000000", *common, "--out", "run", "--json")
    thread.join()
    assert ran.code == code and signal.getsignal(number) == handler
    assert f"stopped by {number.name}" in ran.errors and "--resume --out run" in ran.errors
    last = ran.result["step"]
    assert ran.result["ended_by"] == number.name and 1 < last < 1000000
    assert trial.train("--steps", str(last), *common, "--out", "whole").code == 0
    assert same_arrays(Path(f"run/step-{last:08}"), Path(f"whole/step-{last:08}"))


def test_time_ends_a_run_too(trial: Trial) -> None:
    ran = trial.train("--steps", "1000000", "--max-minutes", "0.001", "--json", *DATA)
    assert ran.code == 0 and ran.result["ended_by"] == "time"


def test_runs_are_numbered_and_the_last_one_is_resumed(trial: Trial) -> None:
    for number in (1, 2):
        assert trial.train("--steps", "2", *DATA).code == 0
        assert Path(f"runs/gpt2-demo-config-{number}/latest").is_file()
    assert trial.train("--resume", "--steps", "4", flags=[]).code == 0
    assert Path("runs/gpt2-demo-config-2/step-00000004").is_dir()
    assert not Path("runs/gpt2-demo-config-1/step-00000004").exists()


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_narrow_dtypes_learn_and_resume(trial: Trial, dtype: str) -> None:
    common = ["--dtype", dtype, "--warmup", "0", "--decay-steps", "30", *DATA]
    assert trial.train("--steps", "30", *common, "--out", "whole", "--json").result["losses"][-1] < 5.3
    assert trial.train("--steps", "11", *common, "--out", "parts").code == 0
    assert trial.train("--resume", "--out", "parts", "--steps", "30", flags=[]).code == 0
    assert same_arrays(Path("whole/step-00000030"), Path("parts/step-00000030"))


def test_a_run_with_cached_programs_starts_within_a_second_and_without_mlir(trial: Trial) -> None:
    code = (
        "import sys, resource; from blu.compiler.cli.main import main; code = main(['train', *sys.argv[1:]]); "
        "used = resource.getrusage(resource.RUSAGE_SELF); "
        "print(code, used.ru_utime + used.ru_stime, any('mlir' in name for name in sys.modules))"
    )
    words = ["--steps", "1", "--validate-every", "1", "--val-split", "0.1", *DATA]
    for name in ("cold", "warm"):
        command = [sys.executable, "-c", code, *TINY, *words, "--out", name]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    exit_code, seconds, has_mlir = ran.stdout.split()[-3:]
    assert exit_code == "0" and has_mlir == "False", ran.stdout + ran.stderr
    assert float(seconds) < 1.0


def test_the_tokenizer_travels_with_the_checkpoint(trial: Trial) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = {text: number for number, text in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=alphabet, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    Path("tokenizer").mkdir()
    tokenizer.save("tokenizer/tokenizer.json")
    words = ["--data", "text.txt", "--tokenizer", "tokenizer", "--steps", "2", "--val-split", "0"]
    assert trial.train(*words, "--out", "run").code == 0
    loaded = AutoTokenizer.from_pretrained("run/step-00000002")
    assert loaded.decode(loaded.encode("99 bottles")) == "99 bottles"


def test_bytes_travel_as_a_tokenizer_too(trial: Trial) -> None:
    words = ["--data", "text.txt", "--steps", "2", "--val-split", "0", "--out", "run"]
    assert trial.train(*words).code == 0
    text = "99 bottles, \u00e9 \x00\n  \U0001f37a"
    for tokenizer in (AutoTokenizer.from_pretrained("run/step-00000002"), load_tokenizer("run/step-00000002")):
        assert tokenizer.encode(text) == list(text.encode()) and tokenizer.decode(list(text.encode())) == text
    assert load_tokenizer("run/step-00000002").end_of_text == 256
    assert json.loads(Path("run/step-00000002/config.json").read_text())["eos_token_id"] == 256


def test_model_names_are_llm_cs() -> None:
    from blu.compiler.training import training_config

    for name, layers, width, heads in [
        ("d12", 12, 768, 12),
        ("d24", 24, 1024, 16),
        ("d48", 48, 1600, 25),
        ("d4", 4, 256, 4),
    ]:
        config = training_config(name)
        assert (config["n_layer"], config["n_embd"], config["n_head"], config["vocab_size"]) == (
            layers,
            width,
            heads,
            50257,
        )
    assert training_config("gpt2-xl")["n_layer"] == 48
    assert MODEL[0] == "gpt2-demo-config"


def test_the_demo_models_weights_take_less_than_four_megabytes() -> None:
    from blu.compiler.training import training_config
    from blu.frontend.io import expected_shapes

    assert 4 * sum(math.prod(shape) for shape in expected_shapes(training_config("gpt2-demo-config")).values()) < 4e6


def test_an_engine_alone_takes_steps() -> None:
    from blu import train
    from blu.frontend.io import random_state_dict

    sizes = {"n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 32, "vocab_size": 257}
    config = train.training_config("gpt2-demo-config", sizes)
    engine = train.Engine.of(config, train.Recipe(batch_size=2, length=16))
    batch = tuple(np.arange(32, dtype=np.int32).reshape(2, 16) + shift for shift in range(2))
    with pytest.raises(ArgumentError, match="no parameters yet"):
        engine.step([batch], 1e-2)
    engine.set_parameters(random_state_dict(config, 0))
    before, place = engine.parameters["wte.weight"].copy(), engine.parameters["wte.weight"]
    losses = [engine.step([batch], 1e-2)[0] for _ in range(5)]
    assert losses[4] < losses[0] and losses == sorted(losses, reverse=True)
    assert engine.parameters["wte.weight"] is place and (place != before).any()
    assert engine.evaluate(batch) < losses[4] and engine.peak_bytes > 3 * sum(
        x.nbytes for x in engine.parameters.values()
    )

"""Tests of GPT-2 compiled and run, against transformers on weights that it has written itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from blu.compiler.cache import Cache
from blu.compiler.cli.compile import main as blu_compile
from blu.compiler.cli.run import main as blu_run
from blu.compiler.generation.generate import Gpt2Runner, float32_state
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.generation.sampling import Sampling
from blu.compiler.requests import compile_request
from blu.compiler.target import host_target_name
from blu.frontend.io import gpt2_state_dict, load_config
from blu.runtime.program import Program

ODD = {"n_layer": 3, "n_head": 5, "n_embd": 80, "vocab_size": 1009, "n_positions": 128}
LENGTH, COUNT = 33, 64
PROMPT = np.random.default_rng(7).integers(0, 1009, LENGTH).tolist()
GREEDY = Sampling(greedy=True)


def write_checkpoint(directory: Path, **config: Any) -> Any:
    """A model of transformers with random weights, saved; weights large enough that activation functions show."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**config, bos_token_id=0, eos_token_id=None)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    model.save_pretrained(directory)
    return model


@torch.no_grad()
def reference_logits(model: Any, tokens: list[int]) -> np.ndarray:
    return model(torch.tensor([tokens])).logits[0].numpy()


@torch.no_grad()
def reference_tokens(model: Any, prompt: list[int], count: int) -> list[int]:
    found = model.generate(
        torch.tensor([prompt]),
        attention_mask=torch.ones(1, len(prompt)),
        max_new_tokens=count,
        do_sample=False,
        pad_token_id=0,
    )
    return found[0, len(prompt) :].tolist()


def make_runner(directory: Path, cache: Cache) -> Gpt2Runner:
    def load(request: Gpt2Request) -> Program:
        return Program.load(compile_request(request, cache))

    state = float32_state(gpt2_state_dict(directory))
    return Gpt2Runner(load_config(directory), state, host_target_name(), load)


@pytest.fixture(scope="module")
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def own_cache(cache_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Programs are compiled once for all tests of this file, and kept out of the user's cache."""
    monkeypatch.setenv("BLU_CACHE_DIR", str(cache_directory))
    return Cache(cache_directory)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    directory = tmp_path_factory.mktemp("odd")
    return directory, write_checkpoint(directory, **ODD)


VARIANTS = {
    "as GPT-2": {},
    "as nanoGPT, with a head of its own": {"activation_function": "gelu", "tie_word_embeddings": False, "n_inner": 72},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_logits_and_greedy_tokens_are_those_of_transformers(name: str, tmp_path: Path, own_cache: Cache) -> None:
    model = write_checkpoint(tmp_path, **{**ODD, **VARIANTS[name]})
    runner = make_runner(tmp_path, own_cache)
    np.testing.assert_allclose(runner.logits(PROMPT), reference_logits(model, PROMPT), rtol=0, atol=1e-4)
    assert list(runner.generate(PROMPT, COUNT, GREEDY).tokens) == reference_tokens(model, PROMPT, COUNT)


def test_activation_functions_are_told_apart(checkpoint: tuple[Path, Any], tmp_path: Path, own_cache: Cache) -> None:
    """The tolerance above is far below what a mix-up of tanh and erf would change."""
    directory, model = checkpoint
    config = json.loads((directory / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "activation_function": "gelu"}))
    (tmp_path / "model.safetensors").symlink_to(directory / "model.safetensors")
    found = make_runner(tmp_path, own_cache).logits(PROMPT)
    assert np.abs(found - reference_logits(model, PROMPT)).max() > 1e-3


def test_results_do_not_depend_on_padding_or_threads(checkpoint: tuple[Path, Any], own_cache: Cache) -> None:
    from blu.runtime.host import set_threads

    runner = make_runner(checkpoint[0], own_cache)
    expected = runner.logits(PROMPT)
    try:
        for threads in (1, 3):
            set_threads(threads)
            np.testing.assert_array_equal(runner.logits(PROMPT), expected)
    finally:
        set_threads(2)
    np.testing.assert_allclose(runner.logits(PROMPT[:20]), expected[:20], rtol=0, atol=1e-5)


def test_sampled_text_depends_on_the_seed_alone(checkpoint: tuple[Path, Any], own_cache: Cache) -> None:
    runner = make_runner(checkpoint[0], own_cache)
    first, again = (runner.generate(PROMPT, 12, Sampling(seed=5, top_k=50)).tokens for _ in range(2))
    assert first == again
    assert first != runner.generate(PROMPT, 12, Sampling(seed=6, top_k=50)).tokens


def words_of(prompt: list[int]) -> list[str]:
    return ["--prompt-tokens", ",".join(map(str, prompt))]


def test_the_command_gives_tokens_and_logits(
    checkpoint: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, model = checkpoint
    words = [
        "--run",
        *words_of(PROMPT),
        "--greedy",
        "--json",
        f"--max-tokens={COUNT}",
        f"--logits={tmp_path}/logits.npy",
    ]
    assert blu_compile([str(directory), *words]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["tokens"] == reference_tokens(model, PROMPT, COUNT)
    assert summary["prompt_tokens"] == PROMPT
    assert summary["peak_memory_bytes"] > 1 << 20
    assert summary["tokens_per_second"] > 0
    logits = np.load(tmp_path / "logits.npy")
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, reference_logits(model, PROMPT), rtol=0, atol=1e-4)


def write_tokenizer(directory: Path) -> None:
    """A tokenizer.json of the 256 bytes, as GPT-2 spells them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(directory / "tokenizer.json"))


def test_text_is_streamed_after_the_prompt(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from blu.frontend.io import load_tokenizer

    model = write_checkpoint(tmp_path, **{**ODD, "vocab_size": 300, "n_layer": 1})
    write_tokenizer(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    words = [str(tmp_path), "--run", "--prompt", "Hëllo", "--greedy", "--max-tokens=40"]
    assert blu_compile(words) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Hëllo")
    assert said.out.endswith("\n")
    assert "40 generated at" in said.err
    assert blu_compile([*words, "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert said.out == f"Hëllo{summary['text']}\n"
    assert summary["tokens"] == reference_tokens(model, tokenizer.encode("Hëllo"), 40)
    beyond = [token for token in summary["tokens"] if token >= 256]
    assert beyond, "some of the model's tokens are unknown to the tokenizer"
    assert all(f"<{token}>" in summary["text"] for token in beyond)


def test_a_model_without_tokenizer_writes_token_ids(
    checkpoint: tuple[Path, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = [str(checkpoint[0]), "--run", "--greedy", "--max-tokens=3", "-q"]
    assert blu_compile([*words, "--prompt-tokens=1,2"]) == 0
    said = capsys.readouterr()
    assert len(said.out.split()) == 3
    assert said.err == ""
    assert blu_compile([*words, "--prompt=text"]) == 1
    assert "comes without a tokenizer" in capsys.readouterr().err


def test_random_weights_read_and_write_bytes(checkpoint: tuple[Path, Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(checkpoint[0]), "--weights=random:3", "--run", "--prompt=Hé", "--max-tokens=9", "--json", "-q"]
    assert blu_compile(words) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["prompt_tokens"] == list("Hé".encode())
    beyond = [token for token in summary["tokens"] if token > 256]
    assert all(f"<{token}>" in summary["text"] for token in beyond)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--prompt-tokens=5000"], "token 5000 of the prompt is not in the model's vocabulary of 1009"),
        ([*words_of([1] * 129)], "the prompt has 129 tokens, the model 128 positions"),
        (["--prompt-tokens=1", "--weights=absent-model-of-nobody"], "cannot get the weights"),
    ],
)
def test_prompts_and_weights_that_do_not_fit_are_errors(
    checkpoint: tuple[Path, Any],
    words: list[str],
    part: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert blu_compile([str(checkpoint[0]), "--run", *words]) == 1
    assert part in capsys.readouterr().err


def test_weights_of_another_shape_are_listed(
    checkpoint: tuple[Path, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_checkpoint(tmp_path, **{**ODD, "n_embd": 60, "n_layer": 2})
    words = ["--run", "--prompt-tokens=1", f"--weights={tmp_path}"]
    assert blu_compile([str(checkpoint[0]), *words]) == 1
    said = capsys.readouterr().err
    assert "missing: h.2.ln_1.weight" in said
    assert "shape of wte.weight: (1009, 60), expected (1009, 80)" in said


def test_a_warm_start_imports_no_mlir(checkpoint: tuple[Path, Any]) -> None:
    words = [str(checkpoint[0]), "--run", "--prompt-tokens=3,4", "--greedy", "--max-tokens=4", "--json"]
    code = (
        "import sys; from blu.compiler.cli.compile import main; code = main(sys.argv[1:]);"
        "sys.stderr.write(' '.join(name for name in ('torch_mlir', 'llvmlite', 'torch') if name in sys.modules));"
        "sys.exit(code)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code, "-q", *words], capture_output=True, text=True, timeout=200)
        for _ in range(2)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    assert runs[1].stderr == ""
    cold, warm = (json.loads(run.stdout) for run in runs)
    assert cold["tokens"] == warm["tokens"]


def test_dumps_of_a_run_are_apart_for_each_program(checkpoint: tuple[Path, Any], tmp_path: Path) -> None:
    words = ["--run", "--prompt-tokens=1,2", "--max-tokens=2", f"--dump-ir={tmp_path}/ir", "--greedy", "-q"]
    assert blu_compile([str(checkpoint[0]), *words]) == 0
    for name in ("prefill-16", "decode-1"):
        assert (tmp_path / "ir" / name / "manifest.json").exists()


def test_an_artifact_of_the_forward_pass_runs_from_any_dump(checkpoint: tuple[Path, Any], tmp_path: Path) -> None:
    directory, model = checkpoint
    program = str(tmp_path / "forward.blu")
    sizes = ["--batch-size=2", "--seq-len=9"]
    assert blu_compile([str(directory), *sizes, "-o", program, "-q", f"--dump-ir={tmp_path}/ir"]) == 0
    tokens = np.random.default_rng(3).integers(0, 1009, (2, 9)).astype(np.int32)
    np.save(tmp_path / "tokens.npy", tokens)
    words = [f"--input=tokens={tmp_path}/tokens.npy", f"--weights={directory}", f"--output-dir={tmp_path}/out"]
    assert blu_run([program, *words]) == 0
    found = np.load(tmp_path / "out" / "result_0.npy")
    for row in range(2):
        np.testing.assert_allclose(found[row], reference_logits(model, tokens[row].tolist()), rtol=0, atol=1e-4)
    dumps = sorted((tmp_path / "ir").glob("*.mlir"))
    for dump in (dumps[1], dumps[len(dumps) // 2], dumps[-2]):
        assert blu_compile([str(directory), f"--compile-from={dump}", "--no-isolate", "-o", program, "-q"]) == 0
        assert blu_run([program, *words]) == 0
        np.testing.assert_array_equal(np.load(tmp_path / "out" / "result_0.npy"), found, err_msg=dump.name)
    assert blu_run([program, words[0], "--weights=random:1"]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("activation", ["gelu_new", "gelu"])
def test_gpt2_124m(activation: str, tmp_path: Path, own_cache: Cache) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    # With the other function, the widths of the model are enough: layers repeat the same kernels.
    layers = 12 if activation == "gelu_new" else 2
    config = GPT2Config(activation_function=activation, n_layer=layers, bos_token_id=0, eos_token_id=None)
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(tmp_path)
    prompt = np.random.default_rng(0).integers(0, 50257, 32).tolist()
    runner = make_runner(tmp_path, own_cache)
    np.testing.assert_allclose(runner.logits(prompt), reference_logits(model, prompt), rtol=0, atol=1e-4)
    if activation == "gelu_new":
        tokens = list(runner.generate(prompt, COUNT, GREEDY).tokens)
        # What transformers would write: each token is the likeliest after all before it, which takes one forward pass.
        logits = reference_logits(model, [*prompt, *tokens[:-1]])
        assert tokens == logits[len(prompt) - 1 :].argmax(-1).tolist() and len(tokens) == COUNT

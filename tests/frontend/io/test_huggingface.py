"""Model directories against `transformers`, which writes the checkpoints here with random weights."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

from blu.compiler.cli.compile import main as blu_compile
from blu.errors import WeightsError
from blu.frontend import io
from blu.frontend.io import safetensors as format_module
from blu.frontend.io.checkpoints import checkpoint
from blu.frontend.io.checkpoints.latest import CheckpointWarning

SMALL = {"n_layer": 2, "n_head": 3, "n_embd": 24, "vocab_size": 101, "n_positions": 16}


def make_model(**options):
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(**(SMALL | options)))
    with torch.no_grad():  # fresh biases are zero, which would hide a mix-up
        for parameter in model.parameters():
            parameter.add_(0.01 * torch.randn_like(parameter))
    return model.eval()


def load_model(directory: Path):
    from transformers import GPT2LMHeadModel

    model, report = GPT2LMHeadModel.from_pretrained(directory, output_loading_info=True)
    assert not any(report.values()), report
    return model.eval()


def assert_same(state, model):
    expected = {name.removeprefix("transformer."): value for name, value in model.named_parameters()}
    assert set(state) == set(expected)
    for name, array in state.items():
        np.testing.assert_array_equal(array, expected[name].detach().numpy(), err_msg=name)


def edit_config(directory: Path, **changes) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


CHECKPOINT_CONFIG = {**io.PRESETS["gpt2"], "n_layer": 1, "n_head": 1, "n_embd": 4, "n_positions": 8, "vocab_size": 9}


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture
def directory(model, tmp_path):
    model.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_single_file(directory, model):
    config = io.load_config(directory)
    assert {key: config[key] for key in SMALL} == SMALL
    assert io.gelu_form(config) == "tanh"
    state = io.gpt2_state_dict(directory)
    assert_same(state, model)
    assert state["h.1.attn.c_attn.weight"].shape == (24, 72)
    assert list(state) and "lm_head.weight" not in state
    assert not state["wte.weight"].flags.writeable


def test_shards(tmp_path, model):
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    assert not (tmp_path / "model.safetensors").exists()
    assert_same(io.gpt2_state_dict(tmp_path), model)


@pytest.mark.parametrize(
    "options",
    [
        {"activation_function": "gelu"},
        {"activation_function": "gelu_pytorch_tanh"},
        {"n_inner": 40},
        {"tie_word_embeddings": False},
        {"layer_norm_epsilon": 1e-6},
    ],
)
def test_variants(tmp_path, options):
    model = make_model(**options)
    model.save_pretrained(tmp_path / "theirs")
    config = io.load_config(tmp_path / "theirs")
    assert io.gelu_form(config) == ("erf" if options.get("activation_function") == "gelu" else "tanh")
    state = io.gpt2_state_dict(tmp_path / "theirs")
    assert_same(state, model)
    io.save_pretrained(tmp_path / "ours", config, state)
    tokens = torch.arange(10)[None]
    with torch.no_grad():
        torch.testing.assert_close(load_model(tmp_path / "ours")(tokens).logits, model(tokens).logits, rtol=0, atol=0)


def test_bfloat16(tmp_path, model):
    make_model().to(torch.bfloat16).save_pretrained(tmp_path / "theirs")
    state = io.gpt2_state_dict(tmp_path / "theirs")
    assert {array.dtype for array in state.values()} == {np.dtype(ml_dtypes.bfloat16)}
    expected = model.transformer.wte.weight.detach().to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(state["wte.weight"].astype(np.float32), expected)
    io.save_pretrained(tmp_path / "ours", io.load_config(tmp_path / "theirs"), state)
    assert load_model(tmp_path / "ours").dtype == torch.bfloat16


def test_saved_with_padded_vocabulary_loads_in_transformers(directory, tmp_path, model):
    state = dict(io.gpt2_state_dict(directory))
    state["wte.weight"] = np.pad(state["wte.weight"], ((0, 27), (0, 0)))
    state["lm_head.weight"] = state["wte.weight"]
    (directory / "tokenizer.json").write_text("{}")
    io.save_pretrained(tmp_path / "ours", io.load_config(directory), state, tokenizer_from=directory)
    loaded = load_model(tmp_path / "ours")
    assert loaded.transformer.wte.weight.shape == (101, 24)
    assert loaded.lm_head.weight is loaded.transformer.wte.weight
    assert_same(io.gpt2_state_dict(tmp_path / "ours"), model)
    assert sorted(path.name for path in (tmp_path / "ours").iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]


def test_original_layout_with_buffers_and_head(directory, model):
    """openai-community/gpt2 has no prefix and carries its causal masks; others repeat the tied head."""
    state = io.gpt2_state_dict(directory)
    state |= {f"h.{layer}.attn.bias": np.ones((1, 1, 16, 16), np.float32) for layer in range(2)}
    state |= {"h.0.attn.masked_bias": np.float32(-1e4), "lm_head.weight": state["wte.weight"]}
    io.save_file(state, directory / "model.safetensors")
    assert_same(io.gpt2_state_dict(directory), model)


def test_head_that_differs_from_the_tied_embedding(directory):
    state = io.gpt2_state_dict(directory)
    io.save_file(state | {"lm_head.weight": state["wte.weight"] + 1}, directory / "model.safetensors")
    with pytest.raises(WeightsError, match=r"lm_head\.weight differs from wte\.weight(.|\n)*tie_word_embeddings"):
        io.gpt2_state_dict(directory)


def test_name_with_and_without_prefix(directory):
    state = io.gpt2_state_dict(directory)
    io.save_file(state | {"transformer.wte.weight": state["wte.weight"]}, directory / "model.safetensors")
    with pytest.raises(WeightsError, match=r"'wte\.weight' occurs with and without"):
        io.gpt2_state_dict(directory)


def test_all_differences_at_once(directory):
    state = io.gpt2_state_dict(directory)
    del state["h.0.ln_1.weight"], state["h.1.ln_1.weight"], state["ln_f.bias"]
    state["wpe.weight"] = state["wpe.weight"][:8]
    state["h.2.extra\x1b[2J"] = np.zeros(1, np.float32)
    io.save_file(state, directory / "model.safetensors")
    with pytest.raises(WeightsError) as caught:
        io.gpt2_state_dict(directory)
    message = str(caught.value)
    for line in (
        "missing: h.{0,1}.ln_1.weight",
        "missing: ln_f.bias",
        "unexpected: 'h.2.extra\\x1b[2J'",
        "shape of wpe.weight: (8, 24), expected (16, 24)",
    ):
        assert line in message


def test_check_state_dict_reports_when_not_strict():
    differences = io.check_state_dict({"a": (2,), "b": (3,)}, {"a": np.zeros(4), "c": np.zeros(1)}, strict=False)
    assert differences == io.Differences(("b",), ("c",), (("a", (2,), (4,)),))
    assert not io.check_state_dict({"a": (2,)}, {"a": np.zeros(2)})


def test_integer_weights_are_refused(directory):
    state = io.gpt2_state_dict(directory)
    state["h.0.mlp.c_fc.weight"] = state["h.0.mlp.c_fc.weight"].astype(np.int8)
    io.save_file(state, directory / "model.safetensors")
    with pytest.raises(WeightsError, match=r"h\.0\.mlp\.c_fc\.weight \(int8\)"):
        io.gpt2_state_dict(directory)


def test_all_config_problems_at_once(directory):
    edit_config(directory, model_type="llama", n_layer=0, n_head=5, n_positions="16", activation_function="relu")
    edit_config(directory, layer_norm_epsilon=-1, scale_attn_by_inverse_layer_idx=True, vocab_size=10**12)
    with pytest.raises(WeightsError) as caught:
        io.load_config(directory)
    for words in (
        "model_type is 'llama'",
        "n_layer is 0",
        "n_embd 24 is not a multiple of n_head 5",
        "n_positions is '16'",
        "activation_function is 'relu'",
        "layer_norm_epsilon is -1",
        "scale_attn_by_inverse_layer_idx is True",
        "vocab_size is 1000000000000",
        str(directory / "config.json"),
    ):
        assert words in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1, "a": 2}', "[" * 200_000, "\0"])
def test_damaged_config(directory, text):
    (directory / "config.json").write_text(text)
    with pytest.raises(WeightsError, match=r"config\.json"):
        io.load_config(directory)


def test_missing_config(tmp_path):
    with pytest.raises(WeightsError, match=r"no config\.json here"):
        io.load_config(tmp_path)


@pytest.mark.parametrize("suffix", ["bin", "pt", "pth", "ckpt", "pkl"])
def test_pickles_are_never_opened(directory, suffix):
    (directory / "model.safetensors").unlink()
    pickle = directory / f"pytorch_model.{suffix}"
    os.mkfifo(pickle)  # opening it would hang
    for load in (lambda: io.gpt2_state_dict(directory), lambda: io.load_weights(directory), lambda: io.resolve(pickle)):
        with pytest.raises(WeightsError, match=r"runs? code(.|\n)*safe_serialization=True"):
            load()
    pickle.unlink()
    pickle.write_bytes(b"\x80\x04.")
    with pytest.raises(WeightsError, match="runs code"):
        io.load_weights(pickle)


def test_no_weights(directory):
    (directory / "model.safetensors").unlink()
    with pytest.raises(WeightsError, match=r"neither model\.safetensors(.|\n)*random:SEED"):
        io.gpt2_state_dict(directory)
    with pytest.raises(WeightsError, match="no such directory"):
        io.load_weights(directory / "nowhere")


@pytest.fixture
def sharded(model, tmp_path):
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    return tmp_path


def edit_index(directory: Path, **changes) -> None:
    path = directory / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    path.write_text(json.dumps(index | {"weight_map": index["weight_map"] | changes}))


@pytest.mark.parametrize(
    "shard", ["../evil.safetensors", "/etc/evil.safetensors", "a\\b.safetensors", "x.bin", 3, "a\0.safetensors"]
)
def test_traversal_in_the_index(sharded, shard):
    edit_index(sharded, **{"transformer.wte.weight": shard})
    with pytest.raises(WeightsError, match=r"tensor 'transformer\.wte\.weight'(.|\n)*is no name of a"):
        io.gpt2_state_dict(sharded)


def test_shards_that_do_not_belong_together(sharded):
    first, second, *_ = sorted(sharded.glob("*.safetensors"))
    shutil.copy(first, second)
    with pytest.raises(WeightsError, match=r"is not in 'model-00002(.|\n)* is not in the index there"):
        io.gpt2_state_dict(sharded)
    first.unlink()
    with pytest.raises(WeightsError, match="shards missing: 'model-00001"):
        io.gpt2_state_dict(sharded)


def test_index_without_map(sharded):
    (sharded / "model.safetensors.index.json").write_text('{"weight_map": []}')
    with pytest.raises(WeightsError, match="weight_map is missing"):
        io.gpt2_state_dict(sharded)


def test_failed_save_changes_nothing(directory, model, monkeypatch):
    def fail(state, temporary, metadata):
        Path(temporary).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    before = (directory / "config.json").read_bytes()
    names = sorted(path.name for path in directory.iterdir())
    config = io.load_config(directory) | {"n_layer": 1}
    state = io.random_state_dict(config, 0)
    with monkeypatch.context() as patch:
        patch.setattr(format_module, "write_file", fail)
        with pytest.raises(WeightsError, match="No space left"):
            io.save_pretrained(directory, config, state)
    assert (directory / "config.json").read_bytes() == before
    assert sorted(path.name for path in directory.iterdir()) == names
    assert_same(io.gpt2_state_dict(directory), model)


def test_state_that_does_not_fit_is_not_saved(directory, tmp_path):
    state = io.gpt2_state_dict(directory)
    del state["ln_f.bias"]
    with pytest.raises(WeightsError, match=r"missing: ln_f\.bias"):
        io.save_pretrained(tmp_path / "ours", io.load_config(directory), state)
    assert not (tmp_path / "ours").exists()


@pytest.fixture
def run_directory(tmp_path):
    """A run with checkpoints after steps 1 and 2, and no config.json of its own."""
    for step in (1, 2):
        state = io.random_state_dict(CHECKPOINT_CONFIG, seed=step)
        checkpoint.save(tmp_path / "run", step, state, config=CHECKPOINT_CONFIG)
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["", "latest", "step-00000002"])
def test_a_run_is_its_latest_checkpoint(run_directory, name):
    found = io.resolve(run_directory / name)
    assert found == run_directory / "step-00000002"
    expected = io.random_state_dict(CHECKPOINT_CONFIG, seed=2)["wte.weight"]
    np.testing.assert_array_equal(io.gpt2_state_dict(found)["wte.weight"], expected)


def test_a_run_generates_with_its_latest_checkpoint(run_directory, monkeypatch, capsys):
    monkeypatch.setenv("BLU_CACHE_DIR", str(run_directory / "cache"))
    said = []
    for name in ("", "latest", "step-00000002"):
        words = ["--run", "--prompt-tokens=1", "--max-tokens=3", "--ignore-eos", "-q"]
        assert blu_compile([str(run_directory / name), *words]) == 0
        said.append(capsys.readouterr().out)
    assert len(said[0]) > 1 and said == [said[0]] * 3


def test_a_run_is_its_latest_checkpoint_that_is_whole(run_directory):
    (run_directory / "step-00000002" / "model.safetensors").unlink()
    with pytest.warns(CheckpointWarning, match="step-00000001 is used instead of the latest"):
        assert io.resolve(run_directory) == run_directory / "step-00000001"
    shutil.rmtree(run_directory / "step-00000001")
    with pytest.raises(WeightsError, match="no sound checkpoint"):
        io.resolve(run_directory / "latest")


def test_a_model_that_has_been_trained_further_is_itself(run_directory):
    shutil.copy(run_directory / "step-00000001" / "config.json", run_directory)
    assert io.resolve(run_directory) == run_directory


def test_random_weights():
    config = io.PRESETS["gpt2"] | {"n_layer": 2, "vocab_size": 5000}
    state = io.random_state_dict(config, 7)
    assert {name: array.shape for name, array in state.items()} == io.expected_shapes(config)
    assert {array.dtype for array in state.values()} == {np.dtype(np.float32)}
    again, other = io.random_state_dict(config, 7), io.random_state_dict(config, 8)
    assert all(np.array_equal(state[name], again[name]) for name in state)
    assert not np.array_equal(state["wte.weight"], other["wte.weight"])
    assert not np.array_equal(state["h.0.mlp.c_fc.weight"], state["h.1.mlp.c_fc.weight"])
    for name, deviation in {"wte.weight": 0.02, "h.0.mlp.c_fc.weight": 0.02, "h.1.mlp.c_proj.weight": 0.01}.items():
        assert abs(state[name].std() / deviation - 1) < 0.01
        assert abs(state[name].mean()) < 1e-4
    assert (state["h.0.ln_2.weight"] == 1).all() and (state["h.0.ln_2.bias"] == 0).all()
    assert (state["h.1.attn.c_attn.bias"] == 0).all()
    with pytest.raises(WeightsError, match="the seed -1"):
        io.random_state_dict(config, -1)


@pytest.mark.parametrize(
    ("name", "millions"), [("gpt2", 124), ("gpt2-medium", 355), ("gpt2-large", 774), ("gpt2-xl", 1558)]
)
def test_presets(name, millions):
    assert round(sum(np.prod(shape) for shape in io.expected_shapes(io.PRESETS[name]).values()) / 1e6) == millions


def test_random_weights_load_in_transformers(tmp_path):
    io.save_pretrained(
        tmp_path, io.PRESETS["gpt2"] | SMALL, state := io.random_state_dict(io.PRESETS["gpt2"] | SMALL, 0)
    )
    assert_same(state, load_model(tmp_path))


def test_cast():
    state = {"w": np.array([1.0, 1 / 3], np.float32), "steps": np.array([3])}
    converted = io.cast(state, "bf16")
    assert converted["w"].dtype == ml_dtypes.bfloat16
    assert converted["steps"] is state["steps"]
    assert io.cast(state, np.float32)["w"] is state["w"]
    assert io.cast(converted, "f64")["w"].tolist() == [1.0, 0.333984375]
    assert np.isinf(io.cast({"w": np.array([np.inf])}, "f16")["w"][0])
    with pytest.raises(WeightsError, match="'w': values beyond the largest float16"):
        io.cast({"w": np.array([1e5], np.float32)}, "f16")
    with pytest.raises(WeightsError, match="beyond the largest float8_e4m3fn, 448"):
        io.cast({"w": np.array([500.0])}, "f8e4m3")
    with pytest.raises(WeightsError, match="cannot be cast to int32"):
        io.cast(state, np.int32)

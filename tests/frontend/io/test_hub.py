"""From a name to a local directory: directories, the hub's cache, and no network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from huggingface_hub import constants

from blu.errors import WeightsError
from blu.frontend import io
from blu.frontend.io import hub

CONFIG = io.PRESETS["gpt2"] | {"n_layer": 2, "n_head": 3, "n_embd": 24, "vocab_size": 101, "n_positions": 16}


@pytest.fixture
def directory(tmp_path):
    io.save_pretrained(tmp_path / "model", CONFIG, io.random_state_dict(CONFIG, 0))
    return tmp_path / "model"


def test_resolve_takes_directories_as_they_are(directory, monkeypatch):
    assert io.resolve(directory) == directory
    monkeypatch.chdir(directory.parent)
    assert io.resolve("model") == Path("model")
    with pytest.raises(WeightsError, match=r"not a directory(.|\n)*give the directory that holds it"):
        io.resolve(directory / "model.safetensors")


@pytest.mark.parametrize(
    "name", ["/no/such/dir", "./nowhere", "a/b/c", "x/../y", "~nobody-here/x", "a b", "ünï", "a\0b", "a" * 5000]
)
def test_resolve_refuses_what_is_no_hub_id(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hub, "snapshot", lambda *names: pytest.fail(f"asked the hub for {names}"))
    with pytest.raises(WeightsError, match="no such directory, and not a Hugging Face id"):
        io.resolve(name)


def test_resolve_refuses_the_empty_name():
    with pytest.raises(WeightsError, match="the name of the model is empty"):
        io.resolve("")


RESOLVES = """
import huggingface_hub
huggingface_hub.snapshot_download = lambda *names, **options: 1 / 0  # it would try for a minute
from blu.frontend import io
io.resolve("gpt2")
"""


@pytest.mark.parametrize("settings", [{"HF_HUB_OFFLINE": "1"}, {"HF_ENDPOINT": "http://127.0.0.1:9"}])
def test_resolve_without_network_fails_fast(tmp_path, settings):
    environment = os.environ | {"HF_HUB_CACHE": str(tmp_path / "cache"), "HF_HUB_OFFLINE": "0"} | settings
    ran = subprocess.run(
        [sys.executable, "-c", RESOLVES], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert "ZeroDivisionError" not in ran.stderr
    message = ran.stderr[ran.stderr.rindex("WeightsError") :]
    for words in (
        "cannot get the weights of 'gpt2'",
        "the directory gpt2: does not exist",
        f"the cache {tmp_path / 'cache'}: no complete snapshot of openai-community/gpt2",
        "HF_HUB_OFFLINE is set"
        if "HF_HUB_OFFLINE" in settings
        else "http://127.0.0.1:9/openai-community/gpt2: cannot be",
        "`blu-compile DIR`",
        "`--weights random:SEED`",
        "HF_HUB_CACHE",
    ):
        assert words in message


def test_silent_network_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(hub, "REACH_SECONDS", 0.1)
    monkeypatch.setattr(hub, "_reach", lambda endpoint: time.sleep(2))
    with pytest.raises(WeightsError, match="no answer within"):
        io.resolve("gpt2")


def test_failing_download_is_one_message(monkeypatch, tmp_path):
    def refuse(repository, **options):
        assert repository == "openai-community/gpt2-xl"
        assert "*.bin" not in options["allow_patterns"]
        raise RuntimeError("401 Client Error\nlong tale")

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(hub, "_obstacle", lambda: None)
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(WeightsError, match="RuntimeError: 401 Client Error\n  give"):
        io.resolve("gpt2-xl")


def test_cache_is_used_without_network(directory, tmp_path, monkeypatch):
    folder = tmp_path / "cache" / "models--openai-community--gpt2"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123")
    shutil.copytree(directory, folder / "snapshots" / "abc123")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert io.resolve("gpt2") == folder / "snapshots" / "abc123"
    assert io.gpt2_state_dict(io.resolve("gpt2"))["wte.weight"].shape == (101, 24)
    (folder / "refs" / "main").write_text("../../../model")
    with pytest.raises(WeightsError, match="no complete snapshot"):
        io.resolve("gpt2")


LOADED = """
import sys, blu.frontend.io
print([name for name in ("torch_mlir", "mlir", "tokenizers", "torch", "httpx2", "requests") if name in sys.modules])
"""


def test_imports_neither_mlir_nor_the_hub_client():
    ran = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"

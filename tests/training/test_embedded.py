"""The model that comes with Blu: it runs without a network, `transformers` reads it, and it has learned something."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import GPT2LMHeadModel

from blu.frontend.io.huggingface import EMBEDDED, EMBEDDED_DIRECTORY
from blu.frontend.io.tokenizer import load_tokenizer

LARGEST = 4 << 20
# In the style of what it was trained on, but no part of it.
TEXT = """
class Counter:
    def __init__(self, name, count=0):
        self.name = name
        self.count = count

    def update(self, value):
        if value is None:
            raise ValueError("value must not be None")
        self.count += value
        return self.count
"""


@pytest.mark.parametrize("name", EMBEDDED)
def test_an_embedded_model_is_small(name: str) -> None:
    files = list((EMBEDDED_DIRECTORY / name).iterdir())
    assert {file.name for file in files} == {"config.json", "model.safetensors", "tokenizer.json"}
    assert sum(file.stat().st_size for file in files) <= LARGEST


def run(*words: str, folder: Path) -> str:
    command = [sys.executable, "-m", "blu.compiler.cli.main", "compile", "gpt2-demo", "--run", *words]
    environment = {"PATH": "", "HF_HUB_OFFLINE": "1", "BLU_CACHE_DIR": str(folder)}
    finished = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=200)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_demo_writes_python_without_a_network(tmp_path: Path) -> None:
    text = run("--prompt", "def ", "--max-tokens", "64", "--temperature", "0.5", "--seed", "4", folder=tmp_path)
    assert text.startswith("def ") and ("(self" in text or "return " in text), text


def test_the_demo_writes_what_transformers_writes(tmp_path: Path) -> None:
    directory = EMBEDDED_DIRECTORY / "gpt2-demo"
    tokenizer = load_tokenizer(directory)
    tokens = tokenizer.encode("class ")
    peer = GPT2LMHeadModel.from_pretrained(directory)
    found = peer.generate(torch.tensor([tokens]), do_sample=False, max_new_tokens=40, pad_token_id=0)[0].tolist()
    assert run("--prompt", "class ", "--greedy", "--max-tokens", "40", folder=tmp_path).rstrip("\n") == (
        tokenizer.decode(found).rstrip("\n")
    )


def test_the_demo_has_learned() -> None:
    """Nats a token on new code, where a model that knows nothing has log(1024) = 6.9."""
    directory = EMBEDDED_DIRECTORY / "gpt2-demo"
    tokens = torch.tensor([load_tokenizer(directory).encode(TEXT)])
    with torch.no_grad():
        loss = GPT2LMHeadModel.from_pretrained(directory)(tokens, labels=tokens).loss
    assert float(loss) < 3

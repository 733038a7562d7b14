"""What is trained in the headline benchmark, and how: BluTrain's configuration, and one that a laptop runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from blu.compiler.training.recipe import Recipe
from blu.frontend.io.gpt2 import DEFAULTS, complete_config

GPT2_124M = {**DEFAULTS, "vocab_size": 50304, "bos_token_id": None, "eos_token_id": None}
TINY = {**GPT2_124M, "vocab_size": 96, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 2}
SUCCESSORS = 16


@dataclass(frozen=True)
class Setup:
    """One part of the benchmark: `batch` sequences of `length` tokens a rank in each of `accumulate` micro-batches.

    The schedule is BluTrain's: a peak of 6e-4 after 715 steps, of 19,073. `target` is what Blu compiles for.
    """

    precision: str = "tf32"
    batch: int = 16
    accumulate: int = 4
    length: int = 1024
    config: dict[str, Any] = field(default_factory=lambda: dict(GPT2_124M))
    device: str = "cuda"
    target: str = "cuda"
    data: str = ""
    seed: int = 0
    steps: int = 320
    rounds: int = 8
    steps_of_round: int = 5
    bucket_megabytes: int = 25
    compiled_peer: bool = True
    with_peer: bool = True
    side: str = ""

    def recipe(self, ranks: int) -> Recipe:
        """Blu's recipe, of which PyTorch takes the same numbers."""
        return Recipe(
            batch_size=self.batch * ranks,
            length=self.length,
            accumulate=self.accumulate,
            dtype=self.precision,
            seed=self.seed,
            warmup=715,
            steps=19073,
            decay_steps=19073,
        )

    def full_config(self) -> dict[str, Any]:
        """The whole config.json."""
        return dict(complete_config(self.config))

    def changed(self, **values: Any) -> Setup:
        """The same with other values."""
        return replace(self, **values)

    def write(self, path: Path) -> None:
        """As JSON."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> Setup:
        """What `write` wrote."""
        return cls(**json.loads(path.read_text()))


def tiny(setup: Setup) -> Setup:
    """The same on processors, with a model that is small."""
    sizes = {"batch": 2, "accumulate": 2, "length": 16, "config": dict(TINY)}
    return setup.changed(**sizes, device="cpu", target="cpu", compiled_peer=False)


def write_tokens(path: Path, count: int, vocabulary: int, seed: int) -> None:
    """Write uint16 tokens with something to learn in them: each word has 16 that may follow, some more often."""
    rng = np.random.default_rng(seed)
    following = rng.integers(vocabulary, size=(vocabulary, SUCCESSORS), dtype=np.uint16)
    chains = 256
    found = np.empty((chains, -(-count // chains)), np.uint16)
    words = rng.integers(vocabulary, size=chains)
    for position in range(found.shape[1]):
        choice = np.minimum(rng.geometric(0.3, size=chains), SUCCESSORS) - 1
        words = following[words, choice]
        found[:, position] = words
    found.reshape(-1)[:count].tofile(path)

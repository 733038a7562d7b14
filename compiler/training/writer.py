"""Samples of what a model writes while it learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from blu.compiler.generation.generate import Gpt2Runner
from blu.compiler.generation.sampling import Sampling
from blu.dataclass import dataclass
from blu.frontend.io.tokenizer import Tokenizer

TOP_K = 50
TEMPERATURE = 0.8


@dataclass
class Writer:
    """Writes with the parameters it is given. Without a tokenizer, prompts are empty and samples are numbers."""

    runner: Gpt2Runner
    tokenizer: Tokenizer | None
    config: Mapping[str, Any]
    seed: int = 0

    def prepare(self, prompt: str) -> None:
        """Load the programs that writing after this prompt takes."""
        self.runner.prepare(self._tokens(prompt))

    def write(self, state: Mapping[str, np.ndarray], prompt: str, max_tokens: int, step: int) -> str:
        """The prompt and what follows it; the same for the same parameters, seed and step."""
        self.runner.state = state
        sampling = Sampling(temperature=TEMPERATURE, top_k=min(TOP_K, self.config["vocab_size"]), seed=self.seed + step)
        tokens = self._tokens(prompt)
        found = self.runner.generate(tokens, max_tokens, sampling).tokens
        return self._text([*(tokens if prompt else []), *found])

    def _tokens(self, prompt: str) -> list[int]:
        if prompt and self.tokenizer is not None:
            return self.tokenizer.encode(prompt)
        end = None if self.tokenizer is None else self.tokenizer.end_of_text
        return [end if end is not None and end < self.config["vocab_size"] else 0]

    def _text(self, tokens: list[int]) -> str:
        if self.tokenizer is None:
            return " ".join(map(str, tokens))
        known = [token for token in tokens if token < self.tokenizer.vocab_size]
        return self.tokenizer.decode(known)

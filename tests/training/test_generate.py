"""Tests of the generation loop: its programs are run by the ops' references, so that only the loop is tested."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from blu.compiler.generation.generate import Generation, Gpt2Runner, check_prompt
from blu.compiler.generation.gpt2_programs import Gpt2Request, bucket
from blu.compiler.generation.sampling import Sampling
from blu.errors import ArgumentError
from blu.frontend.io import random_state_dict
from blu.frontend.io.gpt2 import complete_config
from blu.plan.tensors import TensorSpec
from tests.support.programs.interpret import interpret

CONFIG = complete_config(
    {"model_type": "gpt2", "n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 61, "n_positions": 24}
)
GREEDY = Sampling(greedy=True)


class Interpreted:
    """What the loop needs of a Program, by interpretation."""

    def __init__(self, request: Gpt2Request):
        traced = request.trace().traced
        names = [name for name in traced.signature.tree.names]
        types = traced.signature.leaves
        self.module = traced.module
        self.inputs = [
            TensorSpec(name, type_.shape, type_.dtype.name) for name, type_ in zip(names, types, strict=True)
        ]

    def run(self, inputs: Sequence[np.ndarray], *, overwrite: bool = False) -> list[np.ndarray]:
        return interpret(self.module, inputs)

    def keep(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        return list(arrays)


@pytest.fixture(scope="module")
def runner() -> Gpt2Runner:
    state = {name: array * 8 for name, array in random_state_dict(CONFIG, 3).items()}
    return Gpt2Runner(CONFIG, state, "x86-64-v3", Interpreted)  # type: ignore[arg-type]


def transformers_tokens(state: dict[str, np.ndarray], prompt: list[int], count: int) -> list[int]:
    from transformers import GPT2Config, GPT2LMHeadModel

    keys = ("n_layer", "n_head", "n_embd", "vocab_size", "n_positions")
    model = GPT2LMHeadModel(GPT2Config(**{key: CONFIG[key] for key in keys})).eval()
    model.transformer.load_state_dict({name: torch.tensor(array) for name, array in state.items()})
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(model(torch.tensor([tokens])).logits[0, -1].argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("length", [1, 15, 16, 17])
def test_greedy_tokens_are_those_of_transformers(runner: Gpt2Runner, length: int) -> None:
    prompt = np.random.default_rng(length).integers(0, 61, length).tolist()
    found = runner.generate(prompt, 6, GREEDY)
    assert list(found.tokens) == transformers_tokens(dict(runner.state), prompt, 6)
    assert (found.ended_by, found.prompt) == ("max_tokens", tuple(prompt))


def test_logits_are_those_of_every_position(runner: Gpt2Runner) -> None:
    prompt = [5, 9, 60, 0, 3]
    found = runner.logits(prompt)
    assert found.shape == (5, 61)
    assert found.dtype == np.float32
    np.testing.assert_allclose(runner.logits(prompt[:3]), found[:3], atol=1e-5)


def test_tokens_are_streamed_as_they_come(runner: Gpt2Runner) -> None:
    seen: list[int] = []
    found = runner.generate([1, 2], 5, Sampling(seed=4), on_token=seen.append)
    assert seen == list(found.tokens)
    assert found.tokens == runner.generate([1, 2], 5, Sampling(seed=4)).tokens


def test_the_end_of_the_text_ends_it(runner: Gpt2Runner) -> None:
    tokens = runner.generate([1, 2], 8, Sampling(seed=4)).tokens
    found = runner.generate([1, 2], 8, Sampling(seed=4), end_of_text=[tokens[3]])
    assert found.ended_by == "end_of_text"
    assert found.tokens == tokens[: tokens.index(tokens[3]) + 1]


def test_the_models_last_position_ends_it(runner: Gpt2Runner) -> None:
    found = runner.generate(list(range(20)), 100, GREEDY)
    assert found.ended_by == "n_positions"
    assert len(found.tokens) == 5, "20 + 4 positions, and what follows the last"
    assert len(runner.generate(list(range(24)), 100, GREEDY).tokens) == 1


def test_no_tokens_are_no_work(runner: Gpt2Runner) -> None:
    found = runner.generate([1], 0, GREEDY)
    assert (found.tokens, found.tokens_per_second, found.prefill_tokens_per_second) == ((), 0.0, 0.0)


def test_an_interruption_keeps_what_there_is(runner: Gpt2Runner) -> None:
    def interrupt(token: int) -> None:
        if len(seen) == 2:
            raise KeyboardInterrupt
        seen.append(token)

    seen: list[int] = []
    found = runner.generate([1, 2], 50, GREEDY, on_token=interrupt)
    assert found.ended_by == "interrupted"
    assert list(found.tokens[:2]) == seen


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "the prompt has no tokens"),
        (list(range(25)), "the prompt has 25 tokens, the model 24 positions"),
        ([3, 61], "token 61 of the prompt is not in the model's vocabulary of 61"),
        ([-1], "token -1 of the prompt is not in the model's vocabulary of 61"),
    ],
)
def test_prompts_that_the_model_cannot_take_are_refused(prompt: list[int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        check_prompt(prompt, CONFIG)


def test_weights_that_are_no_numbers_are_noticed(runner: Gpt2Runner) -> None:
    state = {**runner.state, "ln_f.weight": np.full(8, np.nan, np.float32)}
    with pytest.raises(ArgumentError, match="logits are not finite"):
        Gpt2Runner(CONFIG, state, "x86-64-v3", Interpreted).generate([1], 2, GREEDY)  # type: ignore[arg-type]


def test_buckets_are_powers_of_two_up_to_the_models_positions() -> None:
    assert [bucket(length, 48) for length in (1, 16, 17, 33, 48)] == [16, 16, 32, 48, 48]
    assert bucket(5, 10) == 10


def test_rates_count_the_first_token_to_the_prompt() -> None:
    found = Generation((1, 2, 3, 4), (5, 6, 7), 0.5, 0.25, "max_tokens")
    assert (found.prefill_tokens_per_second, found.tokens_per_second) == (8.0, 8.0)


def test_requests_have_keys_of_their_own() -> None:
    def request(**changes: Any) -> Gpt2Request:
        config = {**CONFIG, **changes}
        return Gpt2Request.of("prefill", config, "x86-64-v3", length=16)

    assert request().key() == request(vocab_size=61, bos_token_id=3).key()
    keys = {request().key(), request(vocab_size=62).key(), request(activation_function="gelu").key()}
    keys |= {Gpt2Request.of("prefill", CONFIG, "x86-64-v4", length=16).key()}
    keys |= {Gpt2Request.of("forward", CONFIG, "x86-64-v3", length=16).key()}
    assert len(keys) == 5

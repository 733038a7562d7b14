"""Tests of choosing tokens: against transformers' own rules, and the same for the same seed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from blu.compiler.generation.sampling import Sampler, Sampling, candidates
from blu.errors import ArgumentError

LOGITS = np.random.default_rng(5).standard_normal(1009).astype(np.float32) * 3


def kept_by_transformers(top_k: int, top_p: float, temperature: float) -> set[int]:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper
    scores = TemperatureLogitsWarper(temperature)(None, torch.tensor(LOGITS)[None])
    if top_k:
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1:
        scores = TopPLogitsWarper(top_p)(None, scores)
    return set(torch.isfinite(scores[0]).nonzero()[:, 0].tolist())


@pytest.mark.parametrize(
    ("top_k", "top_p", "temperature"),
    [(0, 1.0, 1.0), (50, 1.0, 0.7), (0, 0.9, 1.0), (40, 0.5, 1.5), (1, 0.1, 1.0), (5000, 0.99, 2.0)],
)
def test_the_same_tokens_may_be_chosen_as_with_transformers(top_k: int, top_p: float, temperature: float) -> None:
    tokens, probabilities = candidates(LOGITS, Sampling(top_k=top_k, top_p=top_p, temperature=temperature))
    assert set(tokens.tolist()) == kept_by_transformers(top_k, top_p, temperature)
    expected = np.exp(LOGITS[tokens].astype(np.float64) / temperature)
    np.testing.assert_allclose(probabilities / probabilities.sum(), expected / expected.sum(), rtol=1e-12)


def test_frequencies_follow_the_probabilities() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    sampler = Sampler(Sampling(seed=3))
    counts = np.bincount([sampler.choose(logits) for _ in range(20_000)], minlength=4)
    np.testing.assert_allclose(counts / 20_000, [0.5, 0.3, 0.15, 0.05], atol=0.012)


def test_a_seed_decides_all_tokens() -> None:
    def draw(seed: int) -> list[int]:
        sampler = Sampler(Sampling(seed=seed, top_k=100))
        return [sampler.choose(LOGITS) for _ in range(50)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


def test_greedy_takes_the_first_of_the_likeliest() -> None:
    assert Sampler(Sampling(greedy=True)).choose(np.array([0.0, 2.0, 2.0, 1.0], np.float32)) == 1


def test_top_k_keeps_ties() -> None:
    tokens, _ = candidates(np.array([1.0, 3.0, 2.0, 2.0], np.float32), Sampling(top_k=2))
    assert tokens.tolist() == [1, 2, 3]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(ArgumentError, match="not finite"):
        Sampler(Sampling()).choose(np.array([0.0, bad, 1.0], np.float32))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature=0.0 must be above 0"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"top_k": -1}, "top_k=-1"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"top_p": 1.5}, "top_p=1.5"),
        ({"seed": -2}, "seed=-2"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Sampling(**settings)

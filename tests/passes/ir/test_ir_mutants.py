"""A few mutants of IR texts; `python -m tests.support.ir_mutants` tries any number."""

from __future__ import annotations

import pytest

from tests.support.ir_mutants import Answer, Mutator, texts, try_mutants


@pytest.fixture(scope="module")
def corpus():
    return list(texts(["attend"], ["x86-64-v3"]))


def test_mutants_are_accepted_or_refused_at_their_line(corpus) -> None:
    tally = try_mutants(corpus, 0, lambda number: number >= 12)
    assert not tally.wrong, tally.wrong[0]
    assert tally.verdicts["refused"] > 5 and sum(tally.verdicts.values()) == 24


def test_mutants_are_the_same_for_a_seed(corpus) -> None:
    first, second = (Mutator(7, corpus) for _ in range(2))
    assert [first.mutant() for _ in range(20)] == [second.mutant() for _ in range(20)]


@pytest.mark.parametrize(
    ("code", "said", "verdict"),
    [
        (0, "", "accepted"),
        (1, "x.mlir:3:4: error: no\n", "refused"),
        (1, "blu-opt: error: no\n", "no place"),
        (1, "x.mlir:3: error: no\n", "no place"),
        (1, "x.mlir:3:4: error: no\nTraceback (most recent call last):\n", "a traceback"),
        (99, "x.mlir:3:4: error: no\n", "no place"),
        (-11, "", "crash"),
    ],
)
def test_answers_are_judged(code: int, said: str, verdict: str) -> None:
    assert Answer(code, said).verdict == verdict

"""Exponentials that a product of logits makes: losses and gradients by value, where logits are anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.pipelines import cpu
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.graph.decompose import Decompose
from blu.passes.graph.exponentials_in_products import ExponentialsInProducts

CLASSES, ROWS, IGNORED = 128, 16, -100
NAME = "blu-exponentials-in-products"
Arrays = tuple[np.ndarray, ...]


def losses(x: Any, w: Any, targets: Any) -> Any:
    with blu.autocast("bf16"):
        logits = x @ w.transpose(1, 0)
    return blu.cross_entropy(logits, targets, reduction="none")


def gradients(x: Any, w: Any, targets: Any, g: Any) -> Any:
    """Losses, and the gradients of their sum weighted by `g`, with respect to x and w."""

    def weighted(factors: Any) -> Any:
        found = losses(*factors, targets)
        return blu.sum(found * g), found

    (_, found), made = blu.value_and_grad(weighted, has_aux=True)((x, w))
    return found, *made


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[np.ndarray]]:
    """Has the processor's pipeline begin gradients of losses in products, some rows at a time if so asked."""
    monkeypatch.setenv("BLU_CACHE_LIMIT", "0")  # the cache knows Blu by its source, not by what a test plants
    plain = cpu.PIPELINE

    def run(*arguments: np.ndarray, largest_bytes: int = 1 << 30) -> list[np.ndarray]:
        pipeline = plain.inserting(ExponentialsInProducts(1), before=Decompose)
        monkeypatch.setattr(cpu, "PIPELINE", pipeline.inserting(ChunkRows(largest_bytes), before=Decompose))
        traced = blu.jit(gradients).trace(*arguments)
        assert traced.lower(stop=NAME).text.count("blu.settle_rows") == 1
        return [np.asarray(item) for item in traced.compile()(*arguments)]

    return run


def exact(logits: np.ndarray, targets: np.ndarray, g: np.ndarray) -> Arrays:
    """In f64: losses, and the gradient of the logits."""
    logits, kept = logits.astype(np.float64), targets != IGNORED
    shifted = logits - logits.max(axis=1, keepdims=True)
    is_target = np.arange(logits.shape[1]) == np.where(kept, targets, 0)[:, None]
    weights = np.exp(shifted)
    total = weights.sum(axis=1)
    loss = np.log(total) - shifted[is_target]
    weights[is_target] = -np.where(is_target, 0, weights).sum(axis=1)
    return np.where(kept, loss, 0), weights * (np.where(kept, g, 0) / total)[:, None]


def rows() -> Arrays:
    """Logits of any kind, as bf16 has them, targets, and what losses count."""
    rng = np.random.default_rng(0)
    logits, targets = 3 * rng.standard_normal((ROWS, CLASSES)), np.arange(ROWS) * 7
    logits[1] = 2
    for row, distance in ((2, 150), (3, 59), (4, 61), (5, -18), (6, -60), (7, 20000)):
        logits[row] *= 0
        logits[row, targets[row]] = -distance
    targets[8:10] = IGNORED
    logits[9, 0] = -150  # what is taken for a target that is ignored
    logits[10] += 30000
    return logits.astype(ml_dtypes.bfloat16).astype(np.float32), targets, rng.random(ROWS) - 0.3


def factors(logits: np.ndarray) -> Arrays:
    """x and w whose product they are: each row has a number of its own."""
    return np.eye(len(logits), dtype=np.float32), logits.T.copy()


@pytest.mark.parametrize("largest_bytes", [1 << 30, 1])
def test_losses_and_gradients_of_any_logits(begun: Callable[..., Any], largest_bytes: int) -> None:
    """Each is rounded twice; at the target of one who is sure, what is left of 1 has the precision of f32."""
    logits, targets, g = rows()
    g = g.astype(np.float32)
    (x, w), (loss, slope) = factors(logits), exact(logits, targets, g)
    found, of_x, of_w = begun(x, w, targets.astype(np.int32), g, largest_bytes=largest_bytes)
    assert np.all(np.abs(found - loss) <= 2e-6 * np.abs(loss) + 1e-6)
    near = 2.0**-7 * np.abs(slope) + 4e-7 * np.abs(g)[:, None] * (slope != 0)
    assert np.all(np.abs(of_w.T - slope) <= near)
    of_row = slope @ w.astype(np.float64)
    assert np.all(np.abs(of_x - of_row) <= near @ np.abs(w.astype(np.float64)) + 2.0**-8 * np.abs(of_row) + 1e-30)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 3e38])
def test_what_is_no_number_gives_what_it_gave(begun: Callable[..., Any], special: float) -> None:
    """It is the first row's target, and another class of the second one's."""
    w = np.zeros((64, 8), np.float32)
    w[:, 0] = np.linspace(-2, 2, 64)
    w[3, 0] = special
    arguments = np.ones((2, 8), np.float32), w, np.array([3, 4], np.int32), np.ones(2, np.float32)
    plain = [np.asarray(item) for item in blu.jit(gradients)(*arguments)]
    for one, other in zip(begun(*arguments), plain, strict=True):
        np.testing.assert_allclose(one, other, rtol=2.0**-6, atol=1e-6)


def test_a_target_that_there_is_not_is_reported(begun: Callable[..., Any]) -> None:
    logits, targets, g = rows()
    targets[4] = CLASSES
    with pytest.raises(IndexError, match=f"cross_entropy: .*{CLASSES}"):
        begun(*factors(logits), targets.astype(np.int32), g.astype(np.float32))


def left_alone(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the pass leaves a program of x, w, targets and weights as it is."""
    monkeypatch.setattr(cpu, "PIPELINE", cpu.PIPELINE.inserting(ExponentialsInProducts(1), before=Decompose))
    arguments = blu.spec((4, 8)), blu.spec((CLASSES, 8)), blu.spec((4,), "i32"), blu.spec((4,))
    return "blu.settle_rows" not in blu.jit(function).trace(*arguments).lower(stop=NAME).text


def with_logits(x: Any, w: Any, targets: Any, g: Any) -> Any:
    """Somebody else reads the logits."""

    def weighted(factors: Any) -> Any:
        with blu.autocast("bf16"):
            logits = factors[0] @ factors[1].transpose(1, 0)
        return blu.sum(blu.cross_entropy(logits, targets, reduction="none") * g), logits

    return blu.value_and_grad(weighted, has_aux=True)((x, w))


@pytest.mark.parametrize("function", [lambda x, w, targets, g: losses(x, w, targets), with_logits])
def test_others_are_left_alone(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss alone, and logits that somebody else reads; the gradient above is not."""
    assert left_alone(function, monkeypatch)
    assert not left_alone(gradients, monkeypatch)

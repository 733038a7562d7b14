"""Losses by name against torch.nn.functional: values, gradients, reductions, shapes, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import blu
from blu.errors import BluError, OutOfRangeError, ShapeError
from blu.frontend.functional.losses.losses import REDUCTIONS

RNG = np.random.default_rng(3)
X, TARGET = RNG.normal(size=(4, 5)) * 2, RNG.normal(size=(4, 5))
X[0, 0], TARGET[0, :2] = 0.0, (1.0, X[0, 1])  # a logit of 0; a distance of 1, where branches meet, and one of 0
PROBABILITIES = RNG.uniform(0.1, 0.9, size=(4, 5))
SIDES = np.where(RNG.uniform(size=(4, 5)) < 0.5, -1, 1)
SCALE = 1.5  # of what the gradients are taken
CLASSES, WEIGHT = np.array([4, -100, 0, 2]), RNG.uniform(0.5, 2, size=5)

CASES: list[tuple[str, tuple[np.ndarray, ...], dict[str, Any]]] = [
    *((name, (X, TARGET), {}) for name in "mse_loss l1_loss huber_loss smooth_l1_loss".split()),
    ("huber_loss", (X, TARGET[0]), {}),
    ("huber_loss", (X, TARGET), {"delta": 0.3}),
    *(("smooth_l1_loss", (X, TARGET), {"beta": beta}) for beta in (0.0, 0.3)),
    ("binary_cross_entropy_with_logits", (X * 50, PROBABILITIES), {}),
    ("binary_cross_entropy_with_logits", (X, PROBABILITIES), {"pos_weight": WEIGHT, "weight": WEIGHT[::-1].copy()}),
    ("nll_loss", (X, CLASSES), {}),
    ("nll_loss", (X, CLASSES % 5), {"weight": WEIGHT, "ignore_index": 2}),
    ("nll_loss", (X[0], np.array(3)), {}),
    *(
        ("cross_entropy", (X, targets), options)
        for targets in (CLASSES, PROBABILITIES)
        for options in (
            {},
            {"weight": WEIGHT},
            {"label_smoothing": 0.3},
            {"label_smoothing": 1.0, "weight": WEIGHT},
        )
    ),
    ("cross_entropy", (X, CLASSES % 5), {"label_smoothing": 0.2, "weight": WEIGHT, "ignore_index": 2}),
    ("cross_entropy", (X, np.full(4, -100)), {"label_smoothing": 0.2, "weight": WEIGHT}),
    ("cross_entropy", (X[0], np.array(3)), {"label_smoothing": 0.2, "weight": WEIGHT}),
    ("cross_entropy", (X[0], PROBABILITIES[0]), {"label_smoothing": 0.2, "weight": WEIGHT}),
    ("kl_div", (X, PROBABILITIES), {}),
    ("kl_div", (X, TARGET), {"log_target": True}),
    *(("hinge_embedding_loss", (X, SIDES), options) for options in ({}, {"margin": 0.4})),
]


def both(name: str, arrays: tuple[np.ndarray, ...], several: list[dict[str, Any]]) -> list[tuple[Any, Any]]:
    """Pairs of what Blu and what torch gives: values with each of the options, gradients (to floats) of their sum."""
    floats = [place for place, array in enumerate(arrays) if array.dtype == np.float64]

    def ours(*tensors: Any) -> list[Any]:
        return [getattr(blu, name)(*tensors, **options) for options in several]

    @blu.jit
    def run(*tensors: Any) -> list[Any]:
        total = blu.grad(lambda *tensors: sum((value * SCALE).sum() for value in ours(*tensors)), floats)
        return [*ours(*tensors), *total(*tensors)]

    arguments = [torch.tensor(array, requires_grad=array.dtype == np.float64) for array in arrays]
    given = [
        {key: torch.tensor(one) if isinstance(one, np.ndarray) else one for key, one in options.items()}
        for options in several
    ]
    values = [getattr(functional, name)(*arguments, **options) for options in given]
    torch.stack([(value * SCALE).sum() for value in values]).sum().backward()
    expected = [*(value.detach() for value in values), *(arguments[place].grad for place in floats)]
    return list(zip(run(*arrays), expected, strict=True))


@pytest.mark.parametrize(("name", "arrays", "options"), CASES)
@pytest.mark.filterwarnings("ignore")  # torch warns of targets that are broadcast, and of kl_div's mean
def test_values_and_gradients_are_torchs(name: str, arrays: tuple[np.ndarray, ...], options: dict[str, Any]) -> None:
    for ours, theirs in both(name, arrays, [options | {"reduction": reduction} for reduction in REDUCTIONS]):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("targets", [CLASSES, PROBABILITIES])
def test_cross_entropy_of_narrow_floats_is_of_wide_ones(dtype: str, targets: np.ndarray) -> None:
    def losses(x: Any, weight: Any) -> Any:
        return blu.cross_entropy(x, targets, weight=weight, label_smoothing=0.3, reduction="none")

    found = np.asarray(blu.jit(lambda x, weight: losses(blu.astype(x, dtype), weight))(X, WEIGHT))
    wide = np.asarray(blu.jit(lambda x, weight: losses(blu.astype(blu.astype(x, dtype), "f64"), weight))(X, WEIGHT))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wide, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shapes", [((4, 5), (4, 5)), ((4, 5), (1, 5)), ((2, 1, 3), (4, 3))])
def test_cosine_similarity_is_torchs(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    arrays = tuple(RNG.normal(size=shape) for shape in shapes)
    for ours, theirs in both("cosine_similarity", arrays, [{}]):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-10, atol=1e-12)


def test_cosine_similarity_to_zeros_is_zero_and_its_gradient_finite() -> None:
    zeros, others = np.zeros((2, 3)), np.ones((2, 3))
    np.testing.assert_array_equal(np.asarray(blu.cosine_similarity(zeros, others)), np.zeros(2))
    gradient = blu.jit(lambda x, y: blu.grad(lambda x: blu.cosine_similarity(x, y).sum())(x))(zeros, others)
    assert np.isfinite(np.asarray(gradient)).all()


def test_kl_div_of_a_probability_of_zero_is_torchs() -> None:
    x, target = np.array([-1.0, -2.0]), np.array([0.0, 1.0])
    theirs = functional.kl_div(torch.tensor(x), torch.tensor(target), reduction="none")
    np.testing.assert_allclose(np.asarray(blu.kl_div(x, target, reduction="none")), theirs)


def test_nll_loss_of_log_softmax_is_cross_entropy() -> None:
    x, classes = RNG.normal(size=(2, 3, 5)), RNG.integers(0, 5, (2, 3))
    found = blu.nll_loss(blu.log_softmax(x), classes)
    np.testing.assert_allclose(np.asarray(found), np.asarray(blu.cross_entropy(x, classes)), rtol=1e-12)


@pytest.mark.parametrize("name", sorted({name for name, *_ in CASES}))
def test_an_unknown_reduction_is_named_with_those_known(name: str) -> None:
    target = CLASSES if name in ("nll_loss", "cross_entropy") else TARGET
    with pytest.raises(BluError, match=rf"{name}: reduction must be one of mean, sum, none, got 'median'"):
        getattr(blu, name)(X, target, reduction="median")


@pytest.mark.parametrize("name", sorted({name for name, *_ in CASES} | {"cosine_similarity"}))
def test_shapes_that_differ(name: str) -> None:
    target = np.zeros(3, np.int64) if name in ("nll_loss", "cross_entropy") else TARGET[:3]
    with pytest.raises(ShapeError, match=r"\[4, 5\].*\[3|\[3, 5\] and \[4, 5\]"):
        getattr(blu, name)(X, target)


@pytest.mark.parametrize("target", [-1, 5])
def test_targets_without_a_class(target: int) -> None:
    with pytest.raises(OutOfRangeError):
        blu.nll_loss(X[0], np.array(target))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: blu.huber_loss(x, x, delta=0), "delta above 0, got 0"),
        (lambda x: blu.smooth_l1_loss(x, x, beta=-1), "beta of at least 0, got -1"),
        (lambda x: blu.nll_loss(x, np.zeros(4, np.int64), WEIGHT[:4]), r"weight must be \[V\]"),
        (lambda x: blu.cross_entropy(x, CLASSES, weight=WEIGHT[:4]), r"weight must be \[V\]"),
        (lambda x: blu.cross_entropy(x, CLASSES, label_smoothing=1.5), r"in \[0, 1\], got 1.5"),
        (lambda x: blu.cross_entropy(x, PROBABILITIES[:3]), "probabilities must have the logits' shape"),
        (lambda x: blu.cross_entropy(x, PROBABILITIES, ignore_index=2), "ignore_index=2 is no class"),
        (lambda x: blu.cross_entropy(x, CLASSES[:3]), "Targets that are probabilities are floats"),
        (lambda x: blu.binary_cross_entropy_with_logits(x, x[0]), "must have one shape"),
    ],
)
def test_wrong_parameters(call: Callable[..., Any], message: str) -> None:
    with pytest.raises(BluError, match=message):
        blu.jit(call)(X)


def test_kl_div_over_the_batch_is_torchs() -> None:
    for x, target in ((X, PROBABILITIES), (X[0], PROBABILITIES[0])):
        theirs = functional.kl_div(torch.tensor(x), torch.tensor(target), reduction="batchmean")
        np.testing.assert_allclose(blu.kl_div(x, target, reduction="batchmean"), theirs, rtol=1e-12)

"""Activations and losses as modules beside torch's of the same names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu import nn
from blu.errors import BluError
from blu.frontend.nn import activations, losses, padding

VALUES = np.random.default_rng(0).normal(size=(3, 4)) * 4
ACTIVATIONS: list[tuple[str, tuple[Any, ...]]] = [
    *((name, ()) for name in "Identity ReLU ReLU6 SELU SiLU Mish Tanh Sigmoid LogSigmoid Hardsigmoid".split()),
    *((name, ()) for name in "Hardswish Softsign Tanhshrink LeakyReLU ELU CELU Softplus Softshrink".split()),
    *((name, ()) for name in "Hardshrink Hardtanh GLU Flatten".split()),
    *(("GELU", (form,)) for form in ("none", "tanh")),
    *((name, (1,)) for name in ("Softmax", "LogSoftmax", "Softmin", "Flatten")),
    *(("Unflatten", (1, (2, -1))), ("Unflatten", (-2, (3, 1, 1)))),
    *((name, (0.7,)) for name in ("LeakyReLU", "ELU", "CELU", "Softshrink", "Hardshrink")),
    *(("Softplus", (2.0, 3.0)), ("Hardtanh", (-3.0, 2.0)), ("Threshold", (0.5, -1.5)), ("Flatten", (0, 1))),
]
TARGET, SIGNS, CLASSES = np.tanh(VALUES[::-1]), np.sign(VALUES + 1), np.array([2, 0, 3])
PROBABILITIES, WEIGHT = 1 / (1 + np.exp(-VALUES)), np.array([0.5, 2.0, 1.0, 0.1])
LOSSES: list[tuple[str, dict[str, Any], tuple[Any, ...]]] = [
    *((name, {}, (VALUES, TARGET)) for name in ("MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss")),
    *((name, {}, (VALUES, SIGNS)) for name in ("SoftMarginLoss", "HingeEmbeddingLoss")),
    *((name, {"weight": WEIGHT, "reduction": "sum"}, (VALUES, CLASSES)) for name in ("CrossEntropyLoss", "NLLLoss")),
    ("HuberLoss", {"delta": 0.5, "reduction": "none"}, (VALUES, TARGET)),
    ("SmoothL1Loss", {"beta": 0.5}, (VALUES, TARGET)),
    ("CrossEntropyLoss", {"label_smoothing": 0.1, "ignore_index": 3}, (VALUES, CLASSES)),
    ("BCELoss", {"weight": WEIGHT}, (PROBABILITIES, TARGET**2)),
    ("BCEWithLogitsLoss", {"pos_weight": WEIGHT}, (VALUES, TARGET**2)),
    ("KLDivLoss", {"log_target": True, "reduction": "sum"}, (VALUES, TARGET)),
    ("MarginRankingLoss", {"margin": 0.3}, (VALUES, TARGET, SIGNS)),
    ("CosineEmbeddingLoss", {"margin": 0.1}, (VALUES, TARGET, np.array([1.0, -1.0, -1.0]))),
    ("TripletMarginLoss", {"p": 3.0, "swap": True}, (VALUES, TARGET, VALUES[::-1].copy())),
    ("TripletMarginLoss", {"margin": 4.0}, (VALUES, TARGET, VALUES[::-1].copy())),
    ("PoissonNLLLoss", {"full": True}, (TARGET, np.round(TARGET**2 * 9))),
    ("PoissonNLLLoss", {"log_input": False}, (TARGET**2, np.round(TARGET**2 * 9))),
    ("GaussianNLLLoss", {"full": True, "eps": 0.01}, (VALUES, TARGET, TARGET**2)),
]


IMAGE = np.random.default_rng(1).normal(size=(1, 4, 3, 5))
IMAGES: list[tuple[str, dict[str, Any]]] = [
    ("Upsample", {"scale_factor": 2, "mode": "bilinear"}),
    ("Upsample", {"size": (2, 7), "mode": "bicubic"}),
    ("PixelShuffle", {"factor": 2}),
    ("PixelUnshuffle", {"factor": 1}),
]
PAIRS: list[tuple[str, tuple[Any, ...]]] = [("CosineSimilarity", ()), ("CosineSimilarity", (0, 0.5))]
PADS: list[tuple[str, tuple[Any, ...]]] = [
    *((f"{kind}Pad{rank}d", (1,)) for kind in ("Zero", "Reflection", "Replication", "Circular") for rank in (1, 2, 3)),
    *(("ZeroPad2d", ((1, 2, 0, -1),)), ("ReflectionPad1d", ((3, 0),)), ("CircularPad2d", ((0, 2, 1, 3),))),
    *((f"ConstantPad{rank}d", (rank, -1.5)) for rank in (1, 2, 3)),
]


def public_of(module: Any) -> set[str]:
    return {name for name in nn.__all__ if getattr(getattr(nn, name), "__module__", None) == module.__name__}


def test_all_are_compared() -> None:
    assert {name for name, _ in [*ACTIVATIONS, *IMAGES, *PAIRS]} == public_of(activations)
    assert {name for name, _ in PADS} == public_of(padding)
    assert {name for name, *_ in LOSSES} | {"CTCLoss"} == public_of(losses)


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS)
def test_activations_are_torchs(name: str, options: tuple[Any, ...]) -> None:
    found = getattr(nn, name)(*options)(VALUES)
    wanted = getattr(torch.nn, name)(*options)(torch.tensor(VALUES))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-10, atol=1e-8)  # softplus leaves exp(-20) out


@pytest.mark.parametrize(("name", "options"), IMAGES)
def test_images_are_torchs(name: str, options: dict[str, Any]) -> None:
    found = getattr(nn, name)(**options)(IMAGE)
    names = {"factor": "upscale_factor" if name == "PixelShuffle" else "downscale_factor"}
    wanted = getattr(torch.nn, name)(**{names.get(key, key): value for key, value in options.items()})
    np.testing.assert_allclose(np.asarray(found), wanted(torch.tensor(IMAGE)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), PAIRS)
def test_pairs_are_torchs(name: str, options: tuple[Any, ...]) -> None:
    found = getattr(nn, name)(*options)(VALUES, TARGET)
    wanted = getattr(torch.nn, name)(*options)(torch.tensor(VALUES), torch.tensor(TARGET))
    np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-10)


def test_padded_data_are_torchs() -> None:
    x = np.random.default_rng(2).normal(size=(2, 1, 3, 4, 5))
    data = {1: x[0, 0], 2: x[0], 3: x}
    found = blu.jit(lambda data: [getattr(nn, name)(*options)(data[int(name[-2])]) for name, options in PADS])(data)
    for ours, (name, options) in zip(found, PADS, strict=True):
        wanted = getattr(torch.nn, name)(*options)(torch.tensor(data[int(name[-2])]))
        np.testing.assert_array_equal(np.asarray(ours), wanted, err_msg=f"{name}{options}")


@pytest.mark.parametrize(("name", "options", "arguments"), LOSSES)
def test_losses_and_gradients_are_torchs(name: str, options: dict[str, Any], arguments: tuple[Any, ...]) -> None:
    module = getattr(nn, name)(**options)

    @blu.jit
    def run(x: Any, *others: Any) -> Any:
        return module(x, *others), blu.grad(lambda x: blu.sum(module(x, *others)))(x)

    ours, gradient = run(*arguments)
    given = {key: torch.tensor(value) if isinstance(value, np.ndarray) else value for key, value in options.items()}
    x, *others = (torch.tensor(value) for value in arguments)
    theirs = getattr(torch.nn, name)(**given)(x.requires_grad_(), *others)
    theirs.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(np.asarray(ours), theirs.detach(), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(gradient), x.grad, rtol=1e-8, atol=1e-12)


def test_the_edges_of_losses() -> None:
    sides = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1.0, 1.0])

    @blu.jit
    def run(x: Any, target: Any) -> Any:
        loss = blu.binary_cross_entropy(x, target, reduction="none")
        return loss, blu.grad(lambda x: blu.binary_cross_entropy(x, target, reduction="sum"))(x)

    losses, gradient = run(*sides)
    np.testing.assert_array_equal(np.asarray(losses), [0.0, 100.0, 100.0, 0.0])
    assert np.isfinite(np.asarray(gradient)).all()
    same = np.ones((2, 3))
    slope = blu.jit(blu.grad(lambda x: blu.triplet_margin_loss(x, x, x, eps=0.0)))(same)
    assert np.isfinite(np.asarray(slope)).all()


def test_a_weight_of_classes_is_no_parameter() -> None:
    loss = nn.CrossEntropyLoss(weight=WEIGHT)
    assert [name for name, _ in loss.named_buffers()] == ["weight"]
    assert "training" not in repr(nn.Sequential(nn.ReLU(), loss))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.GELU("erff"), "approximate must be"),
        (lambda: nn.MSELoss("average"), "reduction must be one of"),
        (lambda: nn.Flatten(1, 2)(VALUES), "no such dimensions"),
        (lambda: nn.Unflatten(1, (3, -1))(VALUES), r"dimension 1 of \[3, 4\] is not of sizes \[3, -1\]"),
        (lambda: nn.ZeroPad2d((1, 2)), "ZeroPad2d: padding is a number or 4, got 2 numbers"),
        (lambda: nn.ZeroPad3d(1)(VALUES), r"ZeroPad3d: x must have 3 dimensions or more, got \[3, 4\]"),
        (lambda: nn.Hardshrink(-1)(VALUES), "at least 0"),
        (lambda: blu.triplet_margin_loss(VALUES, VALUES, VALUES, p=0), "p above 0"),
        (lambda: blu.gaussian_nll_loss(VALUES, VALUES, VALUES, eps=0), "eps above 0"),
        (lambda: blu.binary_cross_entropy(VALUES, VALUES[:1]), "one shape"),
        (lambda: blu.cosine_embedding_loss(1.0, VALUES, 1.0), r"must be \[..., C\]"),
        (lambda: blu.triplet_margin_loss(1.0, VALUES, VALUES), r"must be \[..., C\]"),
    ],
)
def test_wrong_options(make: Any, message: str) -> None:
    with pytest.raises(BluError, match=message):
        make()

"""Each optimizer against PyTorch's, or its formula in NumPy, over some steps in float64; clipping, and averages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import ArgumentError
from blu.frontend import optim
from blu.frontend.optim.muon import orthogonal

STEPS = 4
SHAPES = {"weight": (5, 7), "tall": (9, 3), "bias": (7,), "filters": (4, 3, 2), "scale": (1, 1)}
Arrays = dict[str, np.ndarray]
PEERS: dict[str, tuple[optim.optimizer.Optimizer, Callable[..., Any]]] = {
    "sgd": (optim.SGD(weight_decay=0.1), lambda p: torch.optim.SGD(p, weight_decay=0.1)),
    "nesterov": (
        optim.SGD(0.9, 0.1, True),
        lambda p: torch.optim.SGD(p, momentum=0.9, weight_decay=0.1, nesterov=True),
    ),
    "adam": (optim.Adam(), torch.optim.Adam),
    "adam with decay": (
        optim.Adam(0.8, 0.95, 1e-6, 0.1),
        lambda p: torch.optim.Adam(p, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
    "adamw": (
        optim.AdamW(0.8, 0.95, 1e-6, 0.1, lambda name, shape: True),
        lambda p: torch.optim.AdamW(p, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
    "rmsprop": (optim.RMSprop(), torch.optim.RMSprop),
    "rmsprop with all": (
        optim.RMSprop(0.9, 1e-6, 0.1, 0.8, True),
        lambda p: torch.optim.RMSprop(p, alpha=0.9, eps=1e-6, weight_decay=0.1, momentum=0.8, centered=True),
    ),
    "adagrad": (optim.Adagrad(), torch.optim.Adagrad),
    "adagrad with all": (
        optim.Adagrad(0.1, 0.2, 0.5, 1e-6),
        lambda p: torch.optim.Adagrad(p, lr_decay=0.1, weight_decay=0.2, initial_accumulator_value=0.5, eps=1e-6),
    ),
    "adadelta": (optim.Adadelta(), torch.optim.Adadelta),
    "adadelta with decay": (
        optim.Adadelta(0.8, 1e-4, 0.1),
        lambda p: torch.optim.Adadelta(p, rho=0.8, eps=1e-4, weight_decay=0.1),
    ),
    "adamax": (optim.Adamax(), torch.optim.Adamax),
    "adamax with decay": (
        optim.Adamax(0.8, 0.95, 1e-6, 0.1),
        lambda p: torch.optim.Adamax(p, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
    "nadam": (optim.NAdam(), torch.optim.NAdam),
    "nadam with decay": (
        optim.NAdam(0.8, 0.95, 1e-6, 0.1, momentum_decay=0.02),
        lambda p: torch.optim.NAdam(p, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, momentum_decay=0.02),
    ),
    "radam": (optim.RAdam(), torch.optim.RAdam),
    "radam that is corrected": (
        optim.RAdam(0.8, 0.7, 1e-6, 0.1),
        lambda p: torch.optim.RAdam(p, betas=(0.8, 0.7), eps=1e-6, weight_decay=0.1),
    ),
    "adafactor": (optim.Adafactor(), torch.optim.Adafactor),
    "adafactor with decay": (
        optim.Adafactor(0.7, 1e-2, 1.5, 0.1),
        lambda p: torch.optim.Adafactor(p, beta2_decay=-0.7, eps=(None, 1e-2), d=1.5, weight_decay=0.1),
    ),
}


def arrays(seed: int, scale: float = 1.0, dtype: type = np.float64) -> Arrays:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(scale * rng.standard_normal(shape), dtype) for name, shape in SHAPES.items()}


def trained(optimizer: Any, parameters: Arrays, gradients: list[Arrays], rate: float) -> tuple[Arrays, Any]:
    step = blu.jit(optimizer.update)
    state: Any = optimizer.init(parameters)
    for item in gradients:
        parameters, state = step(parameters, item, state, np.float32(rate))
    return {name: np.asarray(array) for name, array in parameters.items()}, state


@pytest.fixture
def wide_scalars() -> Iterator[None]:
    """torch keeps scalars of its states, such as NAdam's product, in its default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("wide_scalars")
@pytest.mark.parametrize("name", PEERS)
def test_steps_are_torchs(name: str) -> None:
    ours, make = PEERS[name]
    start, gradients = arrays(0), [arrays(seed, 10.0**-seed) for seed in range(1, STEPS + 1)]
    tensors = {key: torch.tensor(array, requires_grad=True) for key, array in start.items()}
    peer, rate = make(list(tensors.values())), 0.25  # which f32 has without rounding
    for group in peer.param_groups:
        group["lr"] = rate
    for item in gradients:
        for key, tensor in tensors.items():
            tensor.grad = torch.tensor(item[key])
        peer.step()
    found, state = trained(ours, start, gradients, rate)
    assert int(state["step"]) == STEPS
    for key, tensor in tensors.items():
        np.testing.assert_allclose(found[key], tensor.detach().numpy(), rtol=1e-10, atol=1e-12, err_msg=key)


def test_lion_moves_by_signs() -> None:
    start, gradients = arrays(0), [arrays(seed) for seed in range(1, STEPS + 1)]
    found, _ = trained(optim.Lion(0.8, 0.9, 0.5), start, gradients, 0.25)
    for name, p in start.items():
        m, decay = np.zeros_like(p), 0.5 if p.ndim >= 2 else 0.0
        for item in gradients:
            p = p * (1 - 0.25 * decay) - 0.25 * np.sign(0.8 * m + 0.2 * item[name])
            m = 0.9 * m + 0.1 * item[name]
        np.testing.assert_allclose(found[name], p, rtol=1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
def test_muon_moves_matrices_by_orthogonal_steps_and_leaves_the_rest_to_another(nesterov: bool) -> None:
    start, gradients = arrays(0), [arrays(seed) for seed in range(1, STEPS + 1)]
    muon = optim.Muon(0.9, 0.1, nesterov, takes=lambda name, shape: name != "scale", others=optim.Lion())
    found, state = trained(muon, start, gradients, 0.25)
    rest = {name: start[name] for name in ("bias", "filters", "scale")}
    others, _ = trained(optim.Lion(), rest, [{name: item[name] for name in rest} for item in gradients], 0.25)
    for name, expected in others.items():
        np.testing.assert_array_equal(found[name], expected)
    assert set(state["momentum"]) == {"weight", "tall"}
    for name in state["momentum"]:
        p, v = start[name], np.zeros_like(start[name])
        for item in gradients:
            v = 0.9 * v + 0.1 * item[name]
            direction = 0.1 * item[name] + 0.9 * v if nesterov else v
            p = p * (1 - 0.25 * 0.1) - 0.25 * max(1, p.shape[0] / p.shape[1]) ** 0.5 * _orthogonal(direction)
        np.testing.assert_allclose(found[name], p, rtol=1e-9, err_msg=name)


def _orthogonal(matrix: np.ndarray) -> np.ndarray:
    """By the singular values, which each step maps by the same polynomial."""
    u, s, vt = np.linalg.svd(matrix / (np.linalg.norm(matrix) + 1e-7), full_matrices=False)
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    return u * s @ vt


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (33, 31), (31, 33)])
def test_orthogonal_steps_have_singular_values_near_one(shape: tuple[int, int]) -> None:
    matrix = np.random.default_rng(0).standard_normal(shape)
    found = np.asarray(blu.jit(lambda x: orthogonal(x, 5))(matrix))
    values = np.linalg.svd(found, compute_uv=False)
    start = np.linalg.svd(matrix, compute_uv=False) / np.linalg.norm(matrix)
    assert found.shape == shape and values.max() < 1.25 and values[start > 0.01].min() > 0.6


NARROW = (
    *(optim.SGD(0.9), optim.Adam(), optim.RMSprop(), optim.Lion(), optim.Muon(), optim.Adafactor()),
    *(optim.Adagrad(), optim.Adadelta(epsilon=1e-2), optim.Adamax(), optim.NAdam(), optim.RAdam()),
)


@pytest.mark.parametrize("optimizer", NARROW)
def test_narrow_parameters_have_wide_moments_and_skipped_steps_change_nothing(optimizer: Any) -> None:
    start = {name: array.astype(np.float16) for name, array in arrays(0).items()}
    state = optimizer.init(start)
    update = blu.jit(optimizer.update)
    gradients = {name: array.astype(np.float16) for name, array in arrays(1).items()}
    kept, kept_state = update(start, gradients, state, np.float32(0.1), np.False_)
    moved, after = update(start, gradients, state, np.float32(0.1), np.True_)
    assert int(kept_state["step"]) == 0 and int(after["step"]) == 1
    for name, array in start.items():
        assert moved[name].dtype == np.float16 and not np.array_equal(moved[name], array)
        np.testing.assert_array_equal(kept[name], array)
    floats = [leaf for leaf in _leaves(after) if leaf.ndim]
    assert floats and {str(leaf.dtype) for leaf in floats} == {"float32"}


def _leaves(tree: Any) -> list[np.ndarray]:
    return [leaf for item in tree.values() for leaf in _leaves(item)] if isinstance(tree, dict) else [np.asarray(tree)]


def test_gradients_are_clipped_by_value() -> None:
    gradients = {"a": np.array([-3.0, -0.5, 0.0, 2.0, np.inf, np.nan], np.float32)}
    found = blu.jit(lambda g: optim.clip_by_value(g, 1.0))(gradients)
    np.testing.assert_array_equal(found["a"], np.array([-1.0, -0.5, 0.0, 1.0, 1.0, np.nan], np.float32))
    with pytest.raises(ArgumentError, match="must be positive, got 0"):
        optim.clip_by_value(gradients, 0)


def test_averages_of_weights_count_the_newest_most() -> None:
    average, steps = optim.EMA(0.9), [arrays(seed, dtype=np.float32) for seed in range(3)]
    state: Any = average.init(steps[0])
    for count, parameters in enumerate(steps, 1):
        state = blu.jit(average.update)(parameters, state)
        weights = [0.9 ** (count - 1 - index) for index in range(count)]
        found = blu.jit(average.weights)(parameters, state)
        for name in SHAPES:
            expected = np.average([step[name] for step in steps[:count]], axis=0, weights=weights)
            np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.Adam(beta1=1.0), r"beta1 must be in \[0, 1\), got 1.0"),
        (lambda: optim.RMSprop(alpha=-1), r"alpha must be in \[0, 1\), got -1"),
        (lambda: optim.Lion(weight_decay=-0.1), "weight_decay must be not negative"),
        (lambda: optim.Adagrad(initial=-1), "initial must be not negative"),
        (lambda: optim.Adadelta(rho=1), r"rho must be in \[0, 1\)"),
        (lambda: optim.NAdam(momentum_decay=-1), "momentum_decay must be not negative"),
        (lambda: optim.Muon(momentum=2), r"momentum must be in \[0, 1\)"),
        (lambda: optim.Adafactor(clip=-1), "clip must be not negative"),
        (lambda: optim.EMA(1), r"decay must be in \[0, 1\)"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_norms_of_arrays_of_numpy() -> None:
    gradients = {"a": np.full(3, 2.0, np.float32), "b": [np.float32(2.0)]}
    assert float(optim.global_norm(gradients)) == 4.0
    clipped, norm = optim.clip_by_global_norm(gradients, 2.0)
    assert float(norm) == 4.0
    np.testing.assert_allclose(np.asarray(clipped["a"]), 1.0, rtol=1e-6)
    with pytest.raises(ArgumentError, match="the norm of no gradients"):
        optim.global_norm([])


@pytest.mark.parametrize("rule", [optim.Adam(), optim.SGD(0.9), optim.Muon()])
def test_a_state_of_another_optimizer_is_told(rule: optim.optimizer.Optimizer) -> None:
    weights = {"w": np.ones((2, 2))}
    for state in ({}, None, {"step": np.int32(0), "v": {}}):
        with pytest.raises(ArgumentError, match=f"{type(rule).__name__}: the state has no ") as raised:
            rule.update(weights, weights, state, 0.1)
        assert "optimizer.init(parameters)" in str(raised.value)

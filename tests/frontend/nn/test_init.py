"""What parameters start with: torch's bounds and deviations, and what the names promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from blu import nn
from blu.errors import ArgumentError, ShapeError

SHAPES = [(40, 30), (8, 6, 5), (6, 4, 3, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_bounds_and_deviations_are_torchs(shape: tuple[int, ...], transposed: bool) -> None:
    torch.manual_seed(0)
    turned = (shape[1], shape[0], *shape[2:]) if transposed else shape
    weight = torch.empty(shape).expand(1000, *shape).clone()
    for name, fan in (("kaiming_uniform", "inputs"), ("kaiming_normal", "outputs")):
        peer = getattr(torch.nn.init, f"{name}_")
        mode = {"inputs": "fan_in", "outputs": "fan_out"}[fan]
        spread = torch.stack([peer(each, mode=mode, nonlinearity="relu") for each in weight[:200]]).std().item()
        found = getattr(nn.init, name)(turned, fan=fan, transposed=transposed)
        assert np.std(found.sample(0, "w")) == pytest.approx(spread, rel=0.1)
    for name in ("xavier_uniform", "xavier_normal"):
        peer = getattr(torch.nn.init, f"{name}_")
        spread = torch.stack([peer(each, gain=2.0) for each in weight[:200]]).std().item()
        found = getattr(nn.init, name)(turned, gain=2.0, transposed=transposed)
        assert found.shape == turned
        assert np.std(found.sample(0, "w")) == pytest.approx(spread, rel=0.1)


@pytest.mark.parametrize("name", ["linear", "sigmoid", "tanh", "relu", "selu", "leaky_relu"])
def test_gains_are_torchs(name: str) -> None:
    assert nn.init.gain_of(name) == pytest.approx(torch.nn.init.calculate_gain(name))
    assert nn.init.gain_of("leaky_relu", 0.3) == pytest.approx(torch.nn.init.calculate_gain("leaky_relu", 0.3))


@pytest.mark.parametrize("shape", [(5, 9, 3), (9, 5, 4, 3), (6, 4, 1, 2, 3), (8, 2, 3), (0, 2, 3), (4, 0, 3)])
def test_units_are_torchs(shape: tuple[int, ...]) -> None:
    for groups in (1, 2):
        if shape[0] % groups:
            continue
        wanted = torch.nn.init.dirac_(torch.empty(shape), groups) if 0 not in shape else torch.zeros(shape)
        np.testing.assert_array_equal(nn.init.dirac(shape, groups).sample(0, "w"), wanted.numpy())
    wanted = torch.nn.init.eye_(torch.empty(shape[:2]))
    np.testing.assert_array_equal(nn.init.eye(shape[:2], "f64").sample(0, "w"), wanted.numpy())


def test_units_of_other_shapes_are_refused() -> None:
    for make, message in (
        (lambda: nn.init.eye((3,)), "a matrix has two dimensions"),
        (lambda: nn.init.dirac((3, 4)), "three to five dimensions"),
        (lambda: nn.init.dirac((3, 4, 5), groups=2), "3 outputs are not divided into 2 groups"),
    ):
        with pytest.raises(ShapeError, match=message):
            make()


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (7, 7), (6, 2, 3), (1, 4), (0, 3)])
def test_orthogonal_rows_or_columns(shape: tuple[int, ...]) -> None:
    matrix = nn.init.orthogonal(shape, 3.0, "f64").sample(1, "w").reshape(shape[0], math.prod(shape[1:]))
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 9 * np.eye(len(product)), atol=1e-12)


def test_orthogonal_matrices_prefer_no_sign() -> None:
    corners = [nn.init.orthogonal((3, 3), dtype="f64").sample(seed, "w")[0, 0] for seed in range(300)]
    assert abs(np.mean(np.sign(corners))) < 0.2


def test_truncated_numbers_stay_within_their_bound() -> None:
    values = nn.init.trunc_normal((200, 100), 0.5, bound=1.5, dtype="f64").sample(0, "w")
    assert 1.49 * 0.5 < np.abs(values).max() <= 1.5 * 0.5
    # The variance of a standard normal cut at +-a is 1 - 2 a phi(a) / (2 Phi(a) - 1).
    density = math.exp(-(1.5**2) / 2) / math.sqrt(2 * math.pi)
    expected = 0.5 * math.sqrt(1 - 3 * density / math.erf(1.5 / math.sqrt(2)))
    assert np.std(values) == pytest.approx(expected, rel=0.02)


def test_parameters_of_a_layer_are_replaced_before_they_have_numbers() -> None:
    layer = nn.Linear(4, 3)
    layer.weight, layer.bias = nn.init.ones((3, 4)), nn.init.zeros((3,), "f16")
    layer.initialize()
    np.testing.assert_array_equal(layer.weight, np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(layer.bias, np.zeros(3, np.float16))
    names = [nn.init.trunc_normal((50,)).sample(0, name) for name in ("a", "b", "a")]
    np.testing.assert_array_equal(names[0], names[2])
    assert (names[0] != names[1]).all() and names[0].dtype == np.float32


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"two dimensions or more, got \[3\]"):
        nn.init.xavier_normal((3,))
    with pytest.raises(ShapeError, match=r"two dimensions or more, got \[\]"):
        nn.init.orthogonal(())
    with pytest.raises(ArgumentError, match="fan='fan_in' is neither of inputs and outputs"):
        nn.init.kaiming_normal((3, 4), fan="fan_in")
    with pytest.raises(ArgumentError, match="no gain of 'softmax' is known"):
        nn.init.gain_of("softmax")
    with pytest.raises(ArgumentError, match="the bound must be"):
        nn.init.trunc_normal((3,), bound=0)

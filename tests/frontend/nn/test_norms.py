"""BatchNorm and InstanceNorm beside torch's: results, gradients and running statistics over several calls."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch

import blu
from blu import nn, optim
from blu.errors import ArgumentError, DTypeError, ShapeError

PEERS = {
    ("BatchNorm", 2): torch.nn.BatchNorm1d,
    ("BatchNorm1d", 3): torch.nn.BatchNorm1d,
    ("BatchNorm2d", 4): torch.nn.BatchNorm2d,
    ("BatchNorm", 5): torch.nn.BatchNorm3d,
    ("InstanceNorm", 3): torch.nn.InstanceNorm1d,
    ("InstanceNorm", 4): torch.nn.InstanceNorm2d,
    ("InstanceNorm3d", 5): torch.nn.InstanceNorm3d,
}
SHAPES = {2: (7, 3), 3: (2, 3, 5), 4: (3, 3, 4, 2), 5: (2, 3, 1, 2, 3)}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("options", [{}, {"momentum": None, "affine": True}, {"affine": False, "eps": 1e-3}])
@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize(("name", "rank"), PEERS)
def test_norms_are_torchs(name: str, rank: int, tracked: bool, options: dict, last: bool) -> None:
    rng = np.random.default_rng(rank)
    options = options | {"track_running_stats": tracked}
    peer = PEERS[name, rank](3, **options).double()
    model = getattr(nn, name)(3, dtype="f64", channels_last=last, **options)
    for parameter in peer.parameters():
        parameter.data = torch.tensor(rng.standard_normal(3))
    model.load_state_dict({key: value.numpy().copy() for key, value in peer.state_dict().items()})

    @blu.jit
    def step(model, x, g):
        y, pull_back = blu.vjp(lambda model, x: model(x), model, x)
        return y, *pull_back(g)

    for training in (True, True, False) if peer.momentum is not None or name.startswith("BatchNorm") else (True,):
        model.train(training), peer.train(training)
        x, g = rng.standard_normal((2, *SHAPES[rank]))
        theirs = torch.tensor(x, requires_grad=True)
        expected = peer(theirs)
        slopes = torch.autograd.grad(expected, [theirs, *peer.parameters()], torch.tensor(g))
        turned = [np.moveaxis(array, 1, -1) if last else array for array in (x, g)]
        y, of_model, of_x = step(model, *turned)
        back = [np.moveaxis(np.asarray(array), -1, 1) if last else np.asarray(array) for array in (y, of_x)]
        np.testing.assert_allclose(back[0], expected.detach(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(back[1], slopes[0], rtol=1e-9, atol=1e-9)
        for (_, found), slope in zip(of_model.named_parameters(), slopes[1:], strict=True):
            np.testing.assert_allclose(found, slope, rtol=1e-9, atol=1e-9)
        for key, value in peer.state_dict().items():
            # Instances are not counted there.
            if name.startswith("BatchNorm") or (key != "num_batches_tracked" and peer.momentum is not None):
                np.testing.assert_allclose(model.state_dict()[key], value, rtol=1e-12, err_msg=key)


def test_moments_of_halves_are_as_near_as_halves_are() -> None:
    """Also far from zero, where the sums of squares cancel, and where there is nothing but the mean."""
    rng = np.random.default_rng(0)
    wide = rng.standard_normal((5000, 4), np.float32) * (1, 0.1, 3, 0) + (0.5, 8, -90, 5)
    given = wide.astype(ml_dtypes.bfloat16)
    result, mean, variance = map(np.asarray, blu.standardize(given, (0,), None, None))
    exact = given.astype(np.float64)
    np.testing.assert_allclose(mean[0], exact.mean(0), rtol=1e-5)
    np.testing.assert_allclose(variance[0], exact.var(0), rtol=1e-5, atol=1e-9)
    expected = (exact - exact.mean(0)) / np.sqrt(exact.var(0) + 1e-5)
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=0.01, atol=0.01)


def test_a_network_is_trained_as_torchs() -> None:
    rng = np.random.default_rng(0)
    peer = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 3), torch.nn.BatchNorm2d(5), torch.nn.ReLU()).double()
    model = nn.Sequential(nn.Conv2d(3, 5, 3, dtype="f64"), nn.BatchNorm(5, dtype="f64"), blu.relu)
    model.load_state_dict({key: value.numpy().copy() for key, value in peer.state_dict().items()})
    rule, theirs = optim.SGD(momentum=0.9), torch.optim.SGD(peer.parameters(), 0.1, momentum=0.9)
    state = rule.init(model)

    @blu.jit(donate=("model", "state"))
    def step(model, state, x):
        loss, gradients = blu.value_and_grad(lambda model: blu.mean(model(x) ** 2))(model)
        return loss, *rule.update(model, gradients, state, 0.1)

    for _ in range(4):
        x = rng.standard_normal((2, 3, 6, 6))
        loss, model, state = step(model, state, x)
        theirs.zero_grad()
        expected = (peer(torch.tensor(x)) ** 2).mean()
        expected.backward()
        theirs.step()
        assert float(loss) == pytest.approx(expected.item(), rel=1e-10)
    for key, value in peer.state_dict().items():
        np.testing.assert_allclose(model.state_dict()[key], value, rtol=1e-9, atol=1e-12, err_msg=key)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_statistics_of_halves_are_kept_in_f32(dtype: str) -> None:
    model = nn.BatchNorm(3, dtype=dtype).initialize(0)
    x = blu.asarray(np.random.default_rng(0).standard_normal((1000, 3)) + 100).astype(dtype)
    y = model(x)
    assert y.dtype == x.dtype and model.running_mean.dtype == np.float32
    values = np.asarray(x).astype(np.float64)
    np.testing.assert_allclose(model.running_var, 0.9 + 0.1 * values.var(axis=0, ddof=1), rtol=1e-5)
    assert np.abs(np.asarray(y).astype(np.float32).mean(axis=0)).max() < 1e-2


def test_what_does_not_fit_is_refused() -> None:
    model = nn.BatchNorm(3).initialize(0)
    with pytest.raises(ShapeError, match=r"x must have 3 channels in axis 1, got \[2, 4, 5\]"):
        model(np.zeros((2, 4, 5), np.float32))
    with pytest.raises(ShapeError, match=r"x must have 2 dimensions and 3 channels in axis 1, got \[3\]"):
        model(np.zeros(3, np.float32))
    with pytest.raises(ShapeError, match=r"BatchNorm needs two elements or more of a channel, got \[1, 3\]"):
        model(np.zeros((1, 3), np.float32))
    with pytest.raises(ShapeError, match=r"InstanceNorm needs two elements or more of a channel of an image"):
        nn.InstanceNorm(3)(np.zeros((9, 3, 1), np.float32))
    with pytest.raises(DTypeError, match="BatchNorm normalises floats, got i32"):
        model(np.zeros((2, 3), np.int32))
    with pytest.raises(ArgumentError, match="InstanceNorm needs a channel or more, got 0"):
        nn.InstanceNorm(0)
    with pytest.raises(ArgumentError, match=r"momentum must be in \[0, 1\] or None, got 2"):
        nn.BatchNorm(3, momentum=2)
    with pytest.raises(ShapeError, match=r"BatchNorm1d: x must have 2 or 3 dimensions, got \[2, 3, 4, 5\]"):
        nn.BatchNorm1d(3).initialize(0)(np.zeros((2, 3, 4, 5), np.float32))
    assert model.eval()(np.zeros((0, 3), np.float32)).shape == (0, 3)

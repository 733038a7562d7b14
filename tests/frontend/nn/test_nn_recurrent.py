"""RNN, LSTM, GRU and their cells beside torch's with the same parameters: results, gradients, shapes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu import nn
from blu.errors import BluError, ShapeError
from tests.frontend.test_nn_layers import from_torch

OPTIONS: list[dict[str, Any]] = [
    {},
    {"num_layers": 2, "bidirectional": True},
    {"num_layers": 3, "bias": False, "batch_first": True},
]
KINDS = ["LSTM", "GRU", "RNN"]
STEPS, BATCH, INPUTS, WIDTH = 4, 2, 3, 5


def pair(kind: str, options: dict[str, Any]) -> tuple[Any, Any]:
    torch.manual_seed(0)
    reference = getattr(torch.nn, kind)(INPUTS, WIDTH, **options).double()
    return from_torch(getattr(nn, kind)(INPUTS, WIDTH, dtype="f64", **options), reference), reference


def begun(kind: str, options: dict[str, Any], *batch: int) -> Any:
    places = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    h, c = np.random.default_rng(1).normal(size=(2, places, *batch, WIDTH))
    return (h, c) if kind == "LSTM" else h


def flat(results: Any) -> list[Any]:
    y, state = results
    return [y, *(state if isinstance(state, tuple) else (state,))]


def in_torch(state: Any) -> Any:
    return tuple(map(torch.tensor, state)) if isinstance(state, tuple) else torch.tensor(state)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS)
def test_results_and_gradients_are_torchs(kind: str, options: dict[str, Any]) -> None:
    module, reference = pair(kind, options)
    x = np.random.default_rng(0).normal(size=(STEPS, BATCH, INPUTS))
    state = begun(kind, options, x.shape[0] if options.get("batch_first") else x.shape[1])

    @blu.jit
    def run(module: Any, x: Any, state: Any) -> Any:
        def loss(module: Any, x: Any) -> Any:
            return sum(blu.sum(one * one) for one in flat(module(x, state)))

        return flat(module(x, state)), blu.grad(loss, (0, 1))(module, x)

    found, (by_parameter, by_x) = run(module, x, state)
    given = torch.tensor(x, requires_grad=True)
    wanted = flat(reference(given, in_torch(state)))
    torch.stack([(one * one).sum() for one in wanted]).sum().backward()
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs.detach(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(np.asarray(by_x), given.grad, rtol=1e-9, atol=1e-11)
    gradients = dict(by_parameter.named_parameters())
    assert gradients.keys() == dict(reference.named_parameters()).keys()
    for name, parameter in reference.named_parameters():
        np.testing.assert_allclose(np.asarray(gradients[name]), parameter.grad, rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 1, INPUTS), (STEPS, INPUTS)])
@pytest.mark.parametrize("has_state", [False, True])
def test_one_step_and_no_batch_by_hand(kind: str, shape: tuple[int, ...], has_state: bool) -> None:
    options = {"bidirectional": True}
    module, reference = pair(kind, options)
    x = np.random.default_rng(0).normal(size=shape)
    states = [begun(kind, options, *shape[1:-1])] if has_state else []
    wanted = flat(reference(torch.tensor(x), *map(in_torch, states)))
    for ours, theirs in zip(flat(module(x, *states)), wanted, strict=True):
        assert tuple(ours.shape) == tuple(theirs.shape)
        np.testing.assert_allclose(np.asarray(ours), theirs.detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_shapes_are_said_with_those_that_fit(kind: str) -> None:
    module, _ = pair(kind, {})
    with pytest.raises(ShapeError, match=r"x must be \[T, B, 3\] or \[T, 3\], got \[4, 2, 7\]"):
        module(np.zeros((4, 2, 7)))
    state = begun(kind, {}, BATCH + 1)
    with pytest.raises(ShapeError, match=r"of shape \[1, 2, 5\].* got \[1, 3, 5\]"):
        module(np.zeros((4, 2, 3)), state)
    with pytest.raises(BluError, match="num_layers must be at least 1, got 0"):
        getattr(nn, kind)(3, 5, num_layers=0)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_between_layers_and_by_a_key(kind: str) -> None:
    module = getattr(nn, kind)(INPUTS, WIDTH, num_layers=2, dropout=0.5).initialize()
    x = np.random.default_rng(0).normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
    one, again, other = (flat(module(x, key=blu.random.key(seed))) for seed in (0, 0, 1))
    np.testing.assert_array_equal(np.asarray(one[0]), np.asarray(again[0]))
    first, last = np.asarray(one[1]), np.asarray(other[1])
    np.testing.assert_array_equal(first[0], last[0])  # what the first layer is given stays as it is
    assert (first[1] != last[1]).any()
    with pytest.raises(BluError, match="is told no key to draw by"):
        module(x)
    plain = getattr(nn, kind)(INPUTS, WIDTH, num_layers=2).initialize()
    np.testing.assert_array_equal(np.asarray(module.eval()(x)[0]), np.asarray(plain(x)[0]))
    with pytest.raises(BluError, match="rate"):
        getattr(nn, kind)(3, 5, dropout=1.5)


CELLS: list[tuple[str, dict[str, Any]]] = [("LSTM", {}), ("GRU", {"bias": False}), ("RNN", {"nonlinearity": "relu"})]


@pytest.mark.parametrize(("kind", "options"), CELLS)
def test_cells_are_torchs(kind: str, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    reference = getattr(torch.nn, f"{kind}Cell")(INPUTS, WIDTH, **options).double()
    cell = from_torch(getattr(nn, f"{kind}Cell")(INPUTS, WIDTH, dtype="f64", **options), reference)
    rng = np.random.default_rng(0)
    for batch in ((), (1,), (BATCH,)):
        x = rng.normal(size=(*batch, INPUTS))
        state = tuple(rng.normal(size=(2, *batch, WIDTH)))
        given = state if kind == "LSTM" else state[0]
        for states in ((), (given,)):
            ours, theirs = cell(x, *states), reference(torch.tensor(x), *map(in_torch, states))
            pairs = zip(ours, theirs, strict=True) if kind == "LSTM" else [(ours, theirs)]
            for one, other in pairs:
                assert tuple(one.shape) == tuple(other.shape)
                np.testing.assert_allclose(np.asarray(one), other.detach(), rtol=1e-10, atol=1e-12)


def test_cells_refuse_what_does_not_fit() -> None:
    cell = nn.LSTMCell(INPUTS, WIDTH).initialize()
    with pytest.raises(ShapeError, match=r"LSTMCell: x must be \[B, 3\] or \[3\], got \[2, 4\]"):
        cell(np.zeros((2, 4), np.float32))
    with pytest.raises(ShapeError, match=r"the state is 2 of shape \[2, 5\]; got \[2, 5\], \[1, 5\]"):
        cell(np.zeros((2, 3), np.float32), (np.zeros((2, 5), np.float32), np.zeros((1, 5), np.float32)))
    with pytest.raises(BluError, match="nonlinearity must be 'tanh' or 'relu', got 'gelu'"):
        nn.RNN(3, 5, nonlinearity="gelu")
    with pytest.raises(BluError, match="hidden_size must be at least 1, got 0"):
        nn.GRUCell(3, 0)

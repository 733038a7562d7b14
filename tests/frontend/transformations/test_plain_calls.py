"""Calls of compiled functions with nothing but arrays, which are not looked at more than they must."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from blu.compiler.jit import Jitted
from blu.errors import ArgumentError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def plain(x, y):
    return x * 2 + y


@pytest.fixture
def only_known(monkeypatch):
    """From when it is called on, no call may be looked at."""

    def refuse(*_):
        raise AssertionError("the call is not known")

    return lambda: monkeypatch.setattr(Jitted, "_run_any", refuse)


@pytest.mark.parametrize("kind", [blu.asarray, np.asarray])
def test_a_call_like_an_earlier_one_is_known(only_known, kind):
    f = blu.jit(plain)
    f(kind(X), kind(X))
    only_known()
    for shift in (0, 1):
        assert np.asarray(f(kind(X + shift), kind(X))).tolist() == ((X + shift) * 2 + X).tolist()


def test_other_shapes_dtypes_and_classes_are_other_calls():
    f = blu.jit(plain)
    for x in (X, X[:1], X.astype(np.float64), X.astype(np.int8), X.T.copy().T, X[::-1], X.astype(">f4")):
        for _ in range(2):
            for kind in (np.asarray, blu.asarray):
                found = np.asarray(f(kind(x), x))
                assert found.tolist() == (x * 2 + x).tolist() and found.dtype == x.dtype.newbyteorder("=")


def test_arguments_by_name_and_numbers_are_looked_at():
    f = blu.jit(plain)
    for _ in range(2):
        assert np.asarray(f(X, y=X)).tolist() == (X * 3).tolist()
        assert np.asarray(f(X, 1)).tolist() == (X * 2 + 1).tolist()
        assert np.asarray(f(X, X)).tolist() == (X * 3).tolist()


def test_defaults_that_hold_arrays_are_arguments():
    shared = X.copy()
    f = blu.jit(lambda x, y=shared: x + y)
    assert np.asarray(f(X)).tolist() == (X * 2).tolist()
    shared += 1
    assert np.asarray(f(X)).tolist() == (X * 2 + 1).tolist()


def test_policies_of_autocast_are_other_programs():
    f = blu.jit(lambda x, w: x @ w)
    x = np.full((2, 2), 1 + 2**-10, np.float32)
    exact = np.asarray(f(x, x))
    with blu.autocast("bf16"):
        rounded = np.asarray(f(x, x))
    assert (np.asarray(f(x, x)) == exact).all() and (rounded != exact).any()


def test_a_donated_array_is_gone_each_time():
    f = blu.jit(lambda state, x: state + x, donate=["state"])
    state = blu.asarray(X) * 1
    for _ in range(3):
        before, state = state, f(state, X)
        with pytest.raises(ArgumentError, match="donated to"):
            before.numpy()
    assert np.asarray(state).tolist() == (X * 4).tolist()


def test_arrays_that_are_overwritten_hold_the_results_each_time():
    f = blu.jit(lambda state, x: state + x, donate=["state"], overwrite=True)
    state = X.copy()
    for _ in range(3):
        assert f(state, X) is not None
    assert state.tolist() == (X * 4).tolist()


def test_an_array_that_was_given_away_is_refused(only_known):
    f = blu.jit(lambda state: state + 1, donate=["state"])
    state = blu.asarray(X) * 1
    f(state)
    with pytest.raises(ArgumentError, match="donated to"):
        f(state)


def test_wrong_numbers_of_arguments_are_said_after_a_known_call():
    f = blu.jit(plain)
    f(X, X)
    with pytest.raises(ArgumentError, match="missing a required argument"):
        f(X)
    with pytest.raises(ArgumentError, match="too many"):
        f(X, X, X)


def test_results_are_nested_as_before_and_of_their_own_memory():
    f = blu.jit(lambda x: {"a": x + 1, "b": (x, 2)})
    first, second = f(X), f(X)
    assert list(second) == ["a", "b"] and second["b"][1].tolist() == 2
    assert not np.shares_memory(first["a"].numpy(), second["a"].numpy())

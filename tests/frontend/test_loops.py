"""What users are told of loops that are written wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, DTypeError, PassError, ShapeError, TraceError

X = np.ones((4, 3), np.float32)


def here(offset: int = 0) -> str:
    """This file's name and the line of the caller."""
    import sys

    return f"{__file__}:{sys._getframe(1).f_lineno + offset}"


def test_a_carry_of_another_dtype_names_the_leaf_and_both_types() -> None:
    def program(x: Any) -> Any:
        return blu.scan(lambda c, v: ({"h": c["h"].astype("f64")}, v), {"h": x[0]}, x)

    with pytest.raises(DTypeError, match=r"carry\.h is f32\[3\] in the first step, and f64\[3\] is returned") as raised:
        blu.jit(program)(X)
    assert raised.value.location == here(-4)
    assert "Return carry.h as f32[3], or begin with f64[3]." in str(raised.value)


def test_a_carry_of_another_shape_names_the_leaf_and_both_types() -> None:
    def program(x: Any) -> Any:
        return blu.scan(lambda c, v: ((c[0], blu.stack([c[1], v])), None), (x[0], x[1]), x)

    with pytest.raises(ShapeError, match=r"carry\.1 is f32\[3\] in the first step, and f32\[2, 3\] is returned"):
        blu.jit(program)(X)


def test_a_carry_that_is_nested_otherwise() -> None:
    def program(x: Any) -> Any:
        return blu.scan(lambda c, v: ([c[0], v], None), (x[0], x[1]), x)

    with pytest.raises(TraceError, match=r"returns one of another nesting, at carry: tuple\(0, 1\) -> list\(0, 1\)"):
        blu.jit(program)(X)


@pytest.mark.parametrize("given", [lambda c, v: c + v, lambda c, v: (c, v, v), lambda c, v: None])
def test_a_step_that_gives_no_pair(given: Any) -> None:
    with pytest.raises(TraceError, match=r"scan: the step gives a \w+, and no pair"):
        blu.jit(lambda x: blu.scan(given, x[0], x))(X)


def test_slices_of_different_numbers_name_the_leaves() -> None:
    with pytest.raises(ShapeError, match=r"4 by xs\.a \(f32\[4, 3\]\), 3 by xs\.b \(f32\[3, 3\]\)"):
        blu.jit(lambda x: blu.scan(lambda c, v: (c, None), x[0], {"a": x, "b": x[1:]}))(X)
    with pytest.raises(ShapeError, match=r"5 by length, 4 by xs \(f32\[4, 3\]\)"):
        blu.jit(lambda x: blu.scan(lambda c, v: (c, None), x[0], x, length=5))(X)
    with pytest.raises(ShapeError, match=r"xs is f32\[\], which has no slices"):
        blu.jit(lambda x: blu.scan(lambda c, v: (c, None), x[0], x[0, 0]))(X)


def test_neither_slices_nor_a_length() -> None:
    with pytest.raises(ArgumentError, match="neither xs nor length says how often"):
        blu.jit(lambda x: blu.scan(lambda c, v: (c, None), x[0]))(X)
    with pytest.raises(ArgumentError, match="length is -1"):
        blu.jit(lambda x: blu.scan(lambda c, v: (c, None), x[0], length=-1))(X)


def test_a_tensor_that_leaves_its_step_is_refused() -> None:
    def program(x: Any) -> Any:
        kept = []

        def step(c: Any, v: Any) -> Any:
            kept.append(c * v)
            return c, None

        return blu.scan(step, x[0], x)[0] + kept[0]

    with pytest.raises(TraceError, match="a tensor that the body of a scan computes is used outside") as raised:
        blu.jit(program)(X)
    assert raised.value.location == here(-4)


def test_ranks_exchange_nothing_in_a_step() -> None:
    def program(x: Any) -> Any:
        return blu.scan(lambda c, v: (blu.all_reduce(c, "dp"), None), x[0], x)[0]

    with pytest.raises(PassError, match="all_reduce is in the body of a scan, where ranks cannot") as raised:
        blu.jit(program, mesh=blu.Mesh(dp=2)).trace(X).compile()
    assert str(raised.value.location).startswith(here(-4))

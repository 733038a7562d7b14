"""What users are told of loops that are written wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, BluError, DTypeError, PassError, ShapeError, TraceError

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


@pytest.mark.parametrize("bound", [True, 2.5, None])
def test_a_bound_that_is_no_int(bound: Any) -> None:
    with pytest.raises(ArgumentError, match=f"fori_loop: upper is {bound}, and no int that is known"):
        blu.jit(lambda x: blu.fori_loop(0, bound, lambda i, v: v, x))(X)


def test_a_bound_that_is_known_at_run_time_only() -> None:
    with pytest.raises(ArgumentError, match=r"fori_loop: upper is Tensor\(i64\[\]\), and no int") as raised:
        blu.jit(lambda n: blu.fori_loop(0, n, lambda i, v: v, 1.0))(3)
    assert "choose with blu.cond" in str(raised.value)


def test_elements_of_different_numbers_name_the_leaves() -> None:
    with pytest.raises(ShapeError, match=r"elems are \[3, 4\] along axis 0: 0 f32\[4, 3\], 1 f32\[3, 3\]"):
        blu.jit(lambda x: blu.associative_scan(lambda a, b: a, (x, x[1:])))(X)
    with pytest.raises(TraceError, match=r"associative_scan: fn gives another nesting"):
        blu.jit(lambda x: blu.associative_scan(lambda a, b: (a, b), x))(X)


@pytest.mark.parametrize(
    ("one", "other", "message"),
    [
        (lambda x: {"u": x}, lambda x: {"u": x[0]}, r"result u is f32\[4, 3\] by true_fun, and f32\[3\] by false_fun"),
        (
            lambda x: x,
            lambda x: x.astype("f64"),
            r"the result is f32\[4, 3\] by true_fun, and f64\[4, 3\] by false_fun",
        ),
        (lambda x: x, lambda x: (x,), r"nestings, the result: leaf -> tuple\(0\)"),
    ],
)
def test_branches_of_different_types_name_the_leaf(one: Any, other: Any, message: str) -> None:
    with pytest.raises(BluError, match=message) as raised:
        blu.jit(lambda p, x: blu.cond(p, one, other, x))(np.bool_(True), X)
    assert raised.value.location == here(-1)


def test_what_chooses_is_one_value() -> None:
    with pytest.raises(ShapeError, match=r"the predicate is bool\[4, 3\], and no scalar"):
        blu.jit(lambda x: blu.cond(x > 0, lambda: x, lambda: x))(X)
    with pytest.raises(ArgumentError, match=r"switch: the index is f32\[4, 3\], and no integer"):
        blu.jit(lambda x: blu.switch(x, [lambda: x]))(X)
    with pytest.raises(ArgumentError, match="switch: there are no branches"):
        blu.jit(lambda x: blu.switch(x, []))(X)


def test_a_loop_while_something_holds_asks_the_host() -> None:
    def halved(value: Any) -> Any:
        return {"n": value["n"] + 1, "x": value["x"] / 2}

    found = blu.while_loop(lambda value: blu.max(value["x"]) > 0.1, halved, {"n": 0, "x": X})
    assert int(found["n"]) == 4
    np.testing.assert_array_equal(found["x"], X / 16)
    assert blu.while_loop(lambda x: x < 0, lambda x: x, 1.0) == 1.0


def test_a_loop_whose_value_changes_its_type_names_the_leaf() -> None:
    start = {"x": X}
    with pytest.raises(DTypeError, match=r"while_loop: value\.x is f32\[4, 3\], and body_fun gives f64\[4, 3\]"):
        blu.while_loop(lambda v: blu.sum(v["x"]) > 0, lambda v: {"x": v["x"].astype("f64")}, start)
    with pytest.raises(ShapeError, match=r"while_loop: value\.x is f32\[4, 3\], and body_fun gives f32\[3\]"):
        blu.while_loop(lambda v: blu.sum(v["x"]) > 0, lambda v: {"x": v["x"][0]}, start)
    with pytest.raises(TraceError, match=r"while_loop: body_fun gives another nesting"):
        blu.while_loop(lambda v: blu.sum(v["x"]) > 0, lambda v: v["x"], start)
    with pytest.raises(ShapeError, match=r"while_loop: cond_fun gives bool\[4, 3\], and no scalar"):
        blu.while_loop(lambda v: v["x"] > 0, lambda v: v, start)


def test_ranks_exchange_nothing_in_a_step() -> None:
    def program(x: Any) -> Any:
        return blu.scan(lambda c, v: (blu.all_reduce(c, "dp"), None), x[0], x)[0]

    with pytest.raises(PassError, match="all_reduce is in the body of a scan, where ranks cannot") as raised:
        blu.jit(program, mesh=blu.Mesh(dp=2)).trace(X).compile()
    assert str(raised.value.location).startswith(here(-4))


def test_more_launches_than_a_program_can_have() -> None:
    program = blu.jit(lambda x: blu.fori_loop(0, 1 << 21, lambda i, v: v * x, x))
    with pytest.raises(PassError, match=r"make \d+ launches, and at most 1048576 are possible"):
        program(1.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda i, v: {"h": v["h"].astype("f64")}, r"fori_loop: value.h is f32\[3\], and body_fun gives f64\[3\]"),
        (lambda i, v: {"h": v["h"][:2]}, r"fori_loop: value.h is f32\[3\], and body_fun gives f32\[2\]"),
        (lambda i, v: [v["h"]], "fori_loop: body_fun gives another nesting"),
    ],
)
def test_a_step_of_fori_loop_that_changes_the_value_names_the_leaf(body: Any, message: str) -> None:
    with pytest.raises(BluError, match=message):
        blu.jit(lambda x: blu.fori_loop(0, 3, body, {"h": x}))(np.ones(3, np.float32))

"""Arguments that are part of a program, and what is said of a function that is compiled again and again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, BluError, RecompilationWarning


@blu.jit(static_argnames=("count", "axis"))
def repeated(x, count, axis=-1):
    return blu.concatenate([x] * count, axis=axis)


def test_a_static_argument_is_a_python_value():
    x = np.ones((2, 3), np.float32)
    assert repeated(x, 2).shape == (2, 6)
    assert repeated(x, 3).shape == (2, 9)
    assert repeated(x, count=2, axis=0).shape == (4, 3)


@dataclass
class Sizes:
    heads: int
    widths: list


@pytest.mark.parametrize(
    "value", [3, -1, 0.5, True, None, "x", (1, 2), [1, 2], {"a": 1}, Sizes(2, [3]), len, np.float32]
)
def test_any_hashable_value_may_be_static(value):
    seen = []

    @blu.jit(static_argnames="what")
    def f(x, what):
        seen.append(what)
        return x + 1

    assert np.asarray(f(np.zeros(2), value)).tolist() == [1, 1]
    f(np.ones(2), what=value)
    assert seen == [value] and type(seen[0]) is type(value)


def test_values_of_other_types_are_other_programs():
    f = blu.jit(lambda x, what: x * (2 if what is True else 3), static_argnames=["what"])
    assert [float(f(1.0, value)) for value in (True, 1, 1.0)] == [2, 3, 3]


def test_a_compiled_program_takes_its_static_value_and_no_other():
    compiled = repeated.trace(blu.spec((2,)), 3).compile()
    x = np.arange(2, dtype=np.float32)
    assert compiled(x, 3).shape == (6,)
    with pytest.raises(ArgumentError, match="count was 3, is 4"):
        compiled(x, 4)


def test_static_arguments_within_a_traced_function_and_a_gradient():
    def loss(x):
        return blu.sum(repeated(x, 3))

    assert np.asarray(blu.jit(blu.grad(loss))(np.ones(2))).tolist() == [3, 3]


def test_what_cannot_be_static():
    x = np.ones(2)
    with pytest.raises(ArgumentError, match=r"count is in static_argnames, and is or holds an array"):
        repeated(x, [x])
    with pytest.raises(ArgumentError, match="neither an array nor hashable"):
        repeated(x, bytearray(b"x"))
    with pytest.raises(ArgumentError, match=r"no parameter cuont for static_argnames\n  Did you mean 'count'\?"):
        blu.jit(lambda x, count: x, static_argnames="cuont")


def test_a_number_that_decides_on_a_shape_is_told_of_static_argnames():
    with pytest.raises(BluError, match="static_argnames"):
        blu.jit(lambda x, count: blu.zeros((count,)) + x)(1.0, 3)


def notices(function, calls):
    """What warnings say of calls with these arguments."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for arguments in calls:
            function(*arguments)
    assert {item.category for item in caught} <= {RecompilationWarning}
    assert {item.filename for item in caught} <= {__file__}
    return [str(item.message) for item in caught]


def plain(x, what=None):
    return x + 1


def test_shapes_are_said_once_with_the_dimension_to_pad():
    said = notices(blu.jit(plain), [(np.ones((2, n), np.float32),) for n in range(1, 9)])
    assert said == [
        "plain is compiled for the 5th time: x was f32[2, 4], is f32[2, 5]. "
        "Pad dimension 1 of x to one of a few sizes, such as powers of two."
    ]


def test_few_shapes_are_what_programs_are_for():
    calls = [(np.ones(n),) for n in (1, 2, 3, 4)]
    assert notices(blu.jit(plain), calls * 3) == []


@pytest.mark.parametrize(
    ("options", "values", "sentence"),
    [
        ({}, list("abcde"), "what was d, is e. bool, str and None are part of the program: pass what as an array"),
        ({"static_argnames": "what"}, range(5), "what was 3, is 4. Leave what out of static_argnames where it decides"),
        ({}, [{str(n): 1.0} for n in range(5)], "what: dict(3) -> dict(4). Call it with arguments of one nesting"),
        (
            {},
            [np.ones(2, name) for name in ("f4", "f8", "i4", "i8", "i1")],
            "what was i64[2], is i8[2]. Convert what with .astype",
        ),
        ({}, [np.ones((1,) * n) for n in range(5)], "is f64[1, 1, 1, 1]. Pad what to one of a few sizes"),
    ],
)
def test_each_cause_is_said_with_what_to_do(options, values, sentence):
    [said] = notices(blu.jit(plain, **options), [(1.0, value) for value in values])
    assert sentence in said


def test_another_cause_is_said_as_well():
    calls = [(np.ones(n), "a") for n in range(1, 6)] + [(np.ones(1), str(n)) for n in range(6)]
    assert len(notices(blu.jit(plain), calls)) == 2


def test_functions_on_arrays_compile_for_each_shape_without_a_notice():
    assert notices(lambda x: blu.exp(x), [(np.ones(n),) for n in range(1, 9)]) == []

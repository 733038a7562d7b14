"""`blu.debug.print` and `blu.debug.callback`: what is called, with which values, how often and in which order."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, BluError, CallbackError, TraceError
from blu.runtime.program import Program

X = np.arange(3.0)


class Told(list):
    """What a callback was called with."""

    def __call__(self, *values, **named):
        self.append((*(np.asarray(value).tolist() for value in values), *named.items()))


@pytest.fixture
def told():
    return Told()


def test_text_is_printed_in_the_order_of_the_program_in_each_run(capsys):
    @blu.jit
    def f(x):
        blu.debug.print("first {} {total:.2f} {name}", x, total=x.sum(), name="x")
        blu.debug.print("second {pair}", pair={"a": x[0], "b": [x[1], 7]})
        return x + 1

    for shift in (0, 1):
        f(X + shift)
    assert capsys.readouterr().out.splitlines() == [
        "first [0. 1. 2.] 3.00 x",
        "second {'a': 0.0, 'b': [1.0, 7]}",
        "first [1. 2. 3.] 6.00 x",
        "second {'a': 1.0, 'b': [2.0, 7]}",
    ]


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16", "i64", "i8", "u8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_values_of_every_dtype_are_numpys_arrays(dtype, shape):
    found = []
    x = blu.ones(shape, dtype)
    blu.jit(lambda x: blu.debug.callback(found.append, x))(x)
    [value] = found
    assert isinstance(value, np.ndarray) and (value.shape, value.dtype) == (shape, x.dtype)
    assert (value == 1).all()


def test_scalars_of_halves_take_specifications_of_numbers(capsys):
    blu.jit(lambda x: blu.debug.print("{x:.1f}", x=x))(blu.ones((), "bf16"))
    assert capsys.readouterr().out == "1.0\n"


def test_equal_calls_are_not_merged_and_unread_values_not_dropped(told):
    def f(x):
        blu.debug.callback(told, x * 2)
        blu.debug.callback(told, x * 2)
        blu.debug.callback(told)

    assert blu.jit(f)(1.0) is None
    assert told == [(2.0,), (2.0,), ()]


def loss(told, x):
    y = blu.sin(x).sum()
    blu.debug.callback(told, y)
    return y * y


def kept_little(function):
    """The function, whose values its gradient computes again."""

    def forgetful(x):
        with blu.checkpoint():
            return function(x)

    return forgetful


TOLD = float(np.sin(X).sum())


@pytest.mark.parametrize(
    "transformed",
    [
        lambda f: blu.grad(f),
        lambda f: blu.value_and_grad(f),
        lambda f: blu.grad(kept_little(f)),
        lambda f: kept_little(f),
        lambda f: blu.grad(lambda x: blu.grad(f)(x).sum()),
        lambda f: lambda x: blu.vjp(f, x)[1](1.0),
        lambda f: lambda x: blu.jvp(f, (x,), (x,)),
        lambda f: lambda x: blu.linearize(f, x)[1](x),
        lambda f: blu.jacrev(f),
        lambda f: blu.hessian(f),
        lambda f: blu.jit(blu.jit(f)),
    ],
)
@pytest.mark.parametrize("compile", [blu.jit, lambda function: function], ids=["compiled", "arrays"])
def test_gradients_tell_of_the_forward_pass_once(told, transformed, compile):
    compile(transformed(lambda x: loss(told, x)))(blu.asarray(X))
    np.testing.assert_allclose(np.ravel(told), [TOLD])


def test_values_that_are_computed_again_are_told_once(told):
    blu.jit(blu.grad(lambda x: loss(told, x)), remat_budget=1)(X)
    np.testing.assert_allclose(np.ravel(told), [TOLD])


def test_results_and_gradients_are_those_without_it(told):
    with_it = blu.jit(blu.value_and_grad(lambda x: loss(told, x)))(X)
    without = blu.jit(blu.value_and_grad(lambda x: blu.sin(x).sum() ** 2))(X)
    for one, other in zip(with_it, without, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("transformed", [lambda f: f, blu.jit, lambda f: blu.jit(lambda x: blu.grad(f)(x))])
def test_a_scan_tells_of_each_step_in_order(told, transformed):
    def f(x):
        def step(carry, item):
            blu.debug.callback(told, "a", carry)
            carry = carry + item * item
            blu.debug.callback(told, "b", item=item)
            return carry, carry

        blu.debug.callback(told, "before")
        return blu.scan(step, 0.0, x)[0]

    transformed(f)(blu.asarray(X))
    steps = [("a", 0.0), ("b", ("item", 0.0)), ("a", 0.0), ("b", ("item", 1.0)), ("a", 1.0), ("b", ("item", 2.0))]
    assert told == [("before",), *steps]


def test_a_scan_from_the_other_end_and_loops_in_loops(told):
    def f(x):
        def step(carry, item):
            return blu.fori_loop(0, 2, lambda i, value: (blu.debug.callback(told, i, item), value + 1)[1], carry), None

        return blu.scan(step, 0, x, reverse=True)[0]

    assert int(blu.jit(f)(X)) == 6
    assert told == [(i, item) for item in (2.0, 1.0, 0.0) for i in (0, 1)]


def test_a_scan_of_no_steps_tells_nothing(told):
    blu.jit(lambda x: blu.scan(lambda c, v: (blu.debug.callback(told, v), (c, v))[1], 0.0, x)[0])(X[:0])
    assert told == []


def test_while_loops_tell_in_each_step(told):
    blu.while_loop(lambda x: x < 8, lambda x: (blu.debug.callback(told, x), x * 2)[1], 1.0)
    assert told == [(1.0,), (2.0,), (4.0,)]


def test_vmap_tells_for_each_slice_of_its_own_and_of_shared_values(told):
    def f(x, shared):
        blu.debug.callback(told, x)
        blu.debug.callback(told, shared)
        return x

    blu.jit(blu.vmap(blu.vmap(f, in_axes=(0, None)), in_axes=(1, None)))(np.arange(4.0).reshape(2, 2), 5.0)
    assert told == [item for x in (0.0, 2.0, 1.0, 3.0) for item in ((x,), (5.0,))]


def test_a_gradient_for_each_slice_tells_for_each(told):
    blu.vmap(blu.grad(lambda x: (blu.debug.callback(told, x), x * x)[1]))(X)
    assert told == [(0.0,), (1.0,), (2.0,)]


@pytest.mark.parametrize(
    "choose",
    [
        lambda f: lambda x: blu.cond(x > 0, f, lambda x: x, x),
        lambda f: lambda x: blu.switch(1, [lambda x: x, f], x),
    ],
)
def test_what_may_not_be_taken_tells_nothing(told, choose):
    with pytest.raises(TraceError, match=r"test_debug.py:\d+: .*blu.cond, blu.switch or blu.custom_vjp"):
        blu.jit(choose(lambda x: (blu.debug.callback(told, x), x)[1]))(1.0)


def test_a_donated_argument_is_told_as_it_was(told):
    @blu.jit(donate=["state"])
    def f(state):
        blu.debug.callback(told, state)
        return state * 2

    state = blu.asarray(X.copy()) * 1
    assert np.asarray(f(state)).tolist() == [0, 2, 4]
    assert told == [([0.0, 1.0, 2.0],)]


def test_outside_of_compiled_functions_it_is_called_at_once(told, capsys):
    blu.debug.callback(told, blu.asarray(X), 1)
    blu.debug.print("{x} {n}", x=blu.asarray(X), n=1)
    assert told == [([0.0, 1.0, 2.0], 1)] and capsys.readouterr().out == "[0. 1. 2.] 1\n"


def test_an_equal_function_that_calls_another_finds_its_program_compiled():
    found, other = Told(), Told()
    for each in (found, other):
        blu.jit(lambda x: blu.debug.callback(each, x))(X)  # noqa: B023
    assert found == other == [([0.0, 1.0, 2.0],)]


def test_what_a_function_raises_is_said_at_the_users_line():
    def check(x):
        raise ValueError(f"{x} is odd")

    def f(x):
        blu.debug.callback(check, x)
        return x

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(
        CallbackError, match=rf"test_debug.py:{line}: debug.callback: check raised ValueError: 1.0 is"
    ) as it:
        blu.jit(f)(1.0)
    assert isinstance(it.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: blu.debug.print("{y}", x=x), "KeyError: 'y'"),
        (lambda x: blu.debug.print("{} {}", x), "IndexError"),
        (lambda x: blu.debug.print("{x:.2f}", x=x), "TypeError: unsupported format"),
        (lambda x: blu.debug.print("{x", x=x), "ValueError"),
        (lambda x: blu.debug.print(x), "the first argument is a Tensor, and no text"),
        (lambda x: blu.debug.callback(x), "the first argument is a Tensor, and no function"),
    ],
)
def test_bad_calls_are_said_while_tracing(call, sentence):
    with pytest.raises(ArgumentError, match=r"test_debug.py:\d+: ") as caught:
        blu.jit(call)(X)
    assert sentence in str(caught.value)


def test_in_a_file_values_are_further_results(tmp_path):
    def f(x):
        blu.debug.callback(print, x * 2)
        return x + 1

    blu.jit(f).trace(blu.spec((3,), "f64")).compile().save(tmp_path / "f.blu")
    result, value = Program.load(tmp_path / "f.blu").run([X])
    assert result.tolist() == [1, 2, 3] and value.tolist() == [0, 2, 4]


def test_gpus_copy_nothing_during_the_run():
    """What is told are results: the plan for a GPU has no step more than the kernels."""
    traced = blu.jit(lambda x: (blu.debug.callback(print, blu.exp(x)), x + 1)[1]).trace(blu.spec((64,)))
    assert len(traced.lower("sm_90a").module.body.operations) == 1
    assert traced.text.count("return") == 1 and "-> (tensor<64xf32>, tensor<64xf32>)" in traced.text


def test_errors_of_blu_keep_their_kind():
    assert issubclass(CallbackError, BluError | RuntimeError)

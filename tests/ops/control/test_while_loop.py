"""`blu.while_loop` in compiled functions gives what its steps give when they are done one by one, on all targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import CacheError, OutOfRangeError, PassError, TraceError
from blu.plan.repeating import AGAIN, BEGIN, behind, partners
from tests.support.kernels.gpu_program import compile_program
from tests.support.programs.interpret import interpret
from tests.support.programs.loop_programs import WHILE_LOOPS, DrawnLoops, X, grown, in_a_scan, looked_up, multiplied


def expected(program: Callable[[Any], Any]) -> list[np.ndarray]:
    """By hand, where the host does each step."""
    return [np.asarray(leaf) for leaf in blu.tree.leaves(program(blu.asarray(X)))]


@pytest.mark.parametrize("program", WHILE_LOOPS)
def test_a_loop_is_a_step_of_the_program(program: Callable[[Any], Any]) -> None:
    compiled = blu.jit(program)
    for found in (compiled(X), compiled(X)):  # again, in the same memory
        for value, wanted in zip(blu.tree.leaves(found), expected(program), strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-6)
            assert value.dtype == wanted.dtype


@pytest.mark.parametrize("program", [multiplied, in_a_scan, looked_up])
def test_loops_on_a_gpu(program: Callable[[Any], Any]) -> None:
    found = compile_program(program, X).interpret(X)
    for value, wanted in zip(found, expected(program), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)


@pytest.mark.parametrize("seed", [4, 13, 25, 41, 44, 52])
def test_loops_and_choices_in_each_other(seed: int) -> None:
    """What bench/gpu/check_basic.py runs on GPUs, against what the steps mean, and in PTX where there are few."""
    loops = replace(DrawnLoops.of(seed), rows=3, columns=5)
    arrays = loops.arrays()
    traced = blu.jit(loops.apply).trace(*arrays)
    module = traced.lower("cpu", stop="blu-inline").module if loops.gradient else traced.traced.module
    wanted = interpret(module, arrays)
    for found in (traced.compile().program.run(arrays), compile_program(loops.apply, *arrays).interpret(*arrays)):
        for value, meant in zip(found, wanted, strict=True):
            np.testing.assert_allclose(value, meant, rtol=1e-5, atol=1e-5)


def test_slices_go_on_each_for_itself() -> None:
    starts, factors = np.array([1.0, 40.0, 200.0]), np.array([3.0, 2.0, 5.0])

    def above(start: Any, factor: Any) -> Any:
        return blu.while_loop(lambda v: v < 100, lambda v: v * factor, start)

    np.testing.assert_array_equal(blu.jit(blu.vmap(above))(starts, factors), [243, 160, 200])
    np.testing.assert_array_equal(blu.vmap(lambda factor: above(1.0, factor))(factors), [243, 128, 125])


@pytest.mark.parametrize("first", [2, 4])
def test_an_index_of_any_step_is_looked_at(first: int) -> None:
    """Also of a step that is not the last: the worst is carried."""

    def walk(x: Any, at: Any) -> Any:
        return blu.while_loop(lambda v: v[0] < 9, lambda v: (v[0] + 4 - (v[0] > 4) * 3, v[1] + x[v[0]]), (at, 0.0))

    with pytest.raises(OutOfRangeError, match="index 8 is out of range for a dimension of size 5"):
        float(blu.jit(walk)(X, first)[1])
    assert float(blu.jit(lambda x: looked_up(x)[1])(X)) == 6


def test_a_loop_has_no_gradient_and_says_what_has() -> None:
    for loss in (
        lambda x: blu.while_loop(lambda v: v < 100, lambda v: v * 3, x),
        lambda x: blu.while_loop(lambda v: v < 100, lambda v: v * x, 1.0),
        lambda x: blu.scan(lambda c, _: (blu.while_loop(lambda v: v < 9, lambda v: v + x, c), None), x, length=2)[0],
    ):
        with pytest.raises(PassError, match="while_loop: a loop whose number of steps is not known has no gradient"):
            blu.grad(loss)(2.0)
    stopped = blu.grad(lambda x: x * blu.while_loop(lambda v: v < 9, lambda v: v * 3, blu.stop_gradient(x)))
    assert float(stopped(1.0)) == 9


def stepped(x: Any) -> Any:
    return blu.while_loop(lambda v: v[0] < 5, lambda v: (v[0] + 1, blu.sin(v[1] * x) + v[1]), (0, x))[1]


def scanned_by(x: Any) -> Any:
    def step(v: Any) -> Any:
        return v[0] + 1, blu.scan(lambda c, t: (blu.tanh(c * t) + x, c * t), v[1], v[2])[0], v[2] * x[0]

    return blu.while_loop(lambda v: v[0] < 3, step, (0, x, np.arange(9.0).reshape(3, 3) / 5))[1]


def chosen(x: Any) -> Any:
    def step(v: Any) -> Any:
        return v[0] + 1, blu.cond(v[0] > 1, blu.exp, lambda a: a * x, v[1] * 0.1)

    return blu.while_loop(lambda v: v[0] < 3, step, (0, x))[1]


def nested(x: Any) -> Any:
    def step(v: Any) -> Any:
        return v[0] + 1, blu.while_loop(lambda u: blu.sum(u * u) < 9, lambda u: u * 1.3 + x, v[1] * 0.2)

    return blu.while_loop(lambda v: v[0] < 3, step, (0, x))[1]


def in_scan(x: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        return blu.while_loop(lambda v: blu.sum(v * v) < 30, lambda v: v * 1.5 + x, c), None

    return blu.scan(step, x, length=3)[0]


def along(x: Any) -> Any:
    """A derivative that is moved along once more: the second."""
    return blu.jvp(stepped, (x,), (DIRECTION,))[1]


DIRECTION = np.array([1.0, 2.0, -0.5])
MOVING = [stepped, scanned_by, chosen, nested, in_scan, along, blu.vmap(stepped)]


def test_a_loop_has_derivatives_along_directions() -> None:
    """As far as results move when x does, a little to both sides."""
    x, small = np.array([0.3, 0.7, -1.1]), 1e-5
    found = blu.jit(lambda x: [blu.jvp(f, (x,), (DIRECTION,))[1] for f in MOVING])(x)
    above, below = (blu.jit(lambda x: [f(x) for f in MOVING])(x + side * small * DIRECTION) for side in (1, -1))
    for one, high, low in zip(found, above, below, strict=True):
        np.testing.assert_allclose(one, (np.asarray(high) - np.asarray(low)) / (2 * small), rtol=1e-6, atol=1e-9)
    columns = blu.jacfwd(nested)(x)
    np.testing.assert_allclose(np.asarray(columns) @ DIRECTION, found[MOVING.index(nested)], rtol=1e-12)
    # What the loop reads does not move, nor do its numbers.
    still = blu.jit(lambda x: blu.jvp(lambda y: y * grown(x), (x,), (x,))[1])(X)
    np.testing.assert_allclose(still, X * np.asarray(grown(blu.asarray(X))), rtol=1e-5)


@pytest.mark.parametrize(
    "second",
    [
        blu.hessian(lambda x: stepped(x).sum()),
        blu.jacrev(stepped),
        blu.grad(lambda x: blu.vjp(stepped, x)[1](DIRECTION)[0].sum()),
        blu.grad(lambda x: along(x).sum()),
        lambda x: blu.jvp(blu.grad(lambda x: stepped(x).sum()), (x,), (DIRECTION,)),
        blu.jacfwd(blu.jacfwd(blu.grad(lambda x: stepped(x).sum()))),
    ],
)
def test_what_needs_a_gradient_of_a_loop_is_refused(second: Callable[[Any], Any]) -> None:
    """Also where the gradient's own value is not needed, but what follows from it."""
    with pytest.raises(PassError, match="while_loop: a loop whose number of steps is not known has no gradient"):
        second(np.array([0.3, 0.7, -1.1]))


def test_steps_of_a_compiled_loop_tell_nothing() -> None:
    def loud(v: Any) -> Any:
        blu.debug.print("{v}", v=v)
        return v + 1

    with pytest.raises(TraceError, match="nothing is told by steps of a while_loop in a compiled function"):
        blu.jit(lambda x: blu.while_loop(lambda v: v < 3, loud, x))(1.0)


def test_ranks_exchange_nothing_in_a_step() -> None:
    def program(x: Any) -> Any:
        return blu.while_loop(lambda v: blu.sum(v) < 9, lambda v: blu.all_reduce(v, "dp"), x)

    with pytest.raises(PassError, match="all_reduce is in the body of a while_loop, where ranks cannot"):
        blu.jit(program, mesh=blu.Mesh(dp=2)).trace(X).compile()


def test_where_a_program_goes_on() -> None:
    steps = [BEGIN, "", BEGIN, AGAIN, AGAIN]
    assert partners(steps) == {0: 4, 4: 0, 2: 3, 3: 2}
    goes_on = behind(partners(steps), range(len(steps)))
    assert [goes_on[number, True] for number in (0, 4, 2, 3)] == [1, 1, 3, 3]
    assert [goes_on[number, False] for number in (0, 4, 2, 3)] == [5, 5, 4, 4]
    for damaged in ([AGAIN], [BEGIN], [AGAIN, BEGIN]):
        with pytest.raises(CacheError, match="launches that are made again"):
            partners(damaged)

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
from tests.support.programs.loop_programs import WHILE_LOOPS, DrawnLoops, X, in_a_scan, looked_up, multiplied


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

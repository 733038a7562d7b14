"""Donated arguments: a program may use their memory, and nobody reads by accident what it left there."""

from __future__ import annotations

import copy
import inspect
import json
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError, DonationWarning, OutOfRangeError
from blu.frontend import optim
from blu.runtime import Array
from blu.runtime.cuda import CudaProgram, DeviceArray, to_device
from tests.support.kernels.gpu_program import compile_program
from tests.support.programs.cuda_programs import COUNT, launch, members
from tests.support.programs.cuda_programs import tensor as cuda_tensor

VALUES = np.arange(4, dtype=np.float32)


@blu.jit(donate=("total",))
def add(total, x):
    return total + x


def of_ours() -> Array:
    """An array that nobody else refers to."""
    return blu.jit(lambda x: x * 1.0)(VALUES)


def line_before() -> str:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return f"{__file__}:{frame.f_back.f_lineno - 1}"


def test_an_array_of_numpys_stays_what_it_was():
    x = VALUES.copy()
    result = blu.jit(lambda a: a + 1, donate=("a",))(x)
    assert x.tolist() == VALUES.tolist() and result.tolist() == (VALUES + 1).tolist()
    assert x.flags.writeable


def test_numpys_arrays_are_overwritten_where_that_is_asked_for():
    x = VALUES.copy()
    result = blu.jit(lambda a: a + 1, donate=("a",), overwrite=True)(x)
    assert x.tolist() == (VALUES + 1).tolist() and np.shares_memory(x, np.asarray(result))
    ours = of_ours()
    again = blu.jit(lambda a: a + 1, donate=("a",), overwrite=True)(ours)
    assert ours.tolist() == again.tolist() == (VALUES + 1).tolist()


def test_a_donated_array_says_who_took_it():
    total = of_ours()
    result = add(total, VALUES)
    where = line_before()
    assert result.tolist() == (2 * VALUES).tolist()
    readings = (
        Array.numpy, np.asarray, Array.tolist, Array.__dlpack__, len, iter, bool, np.array, lambda x: x[0],
        lambda x: x.shape, lambda x: x.dtype, lambda x: add(VALUES, x), lambda x: add(x, VALUES), copy.deepcopy,
    )  # fmt: skip
    for read in readings:
        with pytest.raises(ArgumentError, match=r"donated to add \(") as caught:
            read(total)
        assert f"add ({where})" in str(caught.value)
    assert repr(total) == f"Array(donated to add ({where}))" and total.is_donated and not result.is_donated


def test_the_memory_of_a_donated_array_is_that_of_the_result():
    total = of_ours()
    address = total._value.ctypes.data
    for step in range(1, 4):
        total = add(total, VALUES)
        assert total._value.ctypes.data == address and total.tolist() == (VALUES * (step + 1)).tolist()


@pytest.mark.parametrize("share", [Array.numpy, np.asarray, np.from_dlpack, lambda x: x[1:], lambda x: x[...]])
def test_what_somebody_else_sees_of_an_array_stays_what_it_was(share):
    total = of_ours()
    seen = share(total)
    before = np.array(seen)
    address = total._value.ctypes.data
    result = add(total, VALUES)
    assert np.array(seen).tolist() == before.tolist() and result._value.ctypes.data != address
    assert result.tolist() == (2 * VALUES).tolist() and total.is_donated
    if isinstance(seen, Array) and seen.shape == VALUES.shape:
        assert add(seen, VALUES).tolist() == (2 * VALUES).tolist()
        assert seen.is_donated


def test_an_array_that_is_given_twice_is_read_before_it_is_gone():
    total = of_ours()
    assert add(total, total).tolist() == (2 * VALUES).tolist() and total.is_donated


def test_every_array_of_a_donated_tree_is_gone_and_others_are_not():
    step = blu.jit(lambda model, x: {name: value + x for name, value in model.items()}, donate=("model",))
    model, x = {"a": of_ours(), "b": of_ours(), "c": VALUES.copy()}, of_ours()
    step(model, x)
    assert model["a"].is_donated and model["b"].is_donated and not x.is_donated
    assert model["c"].tolist() == x.tolist() == VALUES.tolist()


def test_an_array_is_gone_after_a_run_that_fails_and_not_after_a_call_that_is_refused():
    @blu.jit(donate=("total",))
    def take(total, index):
        return total * 2 + total[index]

    total = of_ours()
    with pytest.raises(ArgumentError):
        take(total)
    assert total.tolist() == VALUES.tolist()
    with pytest.raises(OutOfRangeError):
        take(total, np.array([4]))
    assert total.is_donated


def test_a_loop_that_donates_copies_nothing_after_its_first_step(monkeypatch):
    copied = []
    copy_of = blu.runtime.arguments.copy_of
    monkeypatch.setattr(blu.runtime.arguments, "copy_of", lambda *given: copied.append(given) or copy_of(*given))
    total = VALUES.copy()
    for step in range(5):
        total = add(total, VALUES)
        assert len(copied) == 1, f"step {step} copied"


def test_a_donated_array_on_a_gpu_is_gone(gpu):
    program = CudaProgram.load(
        members(
            [launch("shift", ["input", 0, 0], ["output", 0, 0])],
            inputs=[cuda_tensor("state", COUNT, donated=True)],
            outputs=[cuda_tensor("", COUNT, input=0)],
        )
    )
    first = to_device(np.zeros(COUNT, np.float32))
    address, state = first.address, first
    for step in range(1, 4):
        given = state
        [state] = program.run([given])
        assert state.address == address and given.is_donated and (state.numpy() == step).all()
        for read in (DeviceArray.numpy, np.asarray, DeviceArray.__dlpack__, lambda x: x[0], lambda x: program.run([x])):
            with pytest.raises(ArgumentError, match=r"donated to main \(.*test_donation.py:"):
                read(given)
        with pytest.raises(ArgumentError, match="donated to main"):
            given.__cuda_array_interface__  # noqa: B018 (it is a property)
    [same] = program.run([state], overwrite=True)
    assert same is state and (state.numpy() == 4).all()


def softmax_added(x, total):
    """A program's result needs what has been kept of the row until the last walk over it."""
    return total + blu.softmax(x, axis=1)


def two_results(x, total):
    """The result in place is there after the first walk over a row, and the donated argument is read in later ones."""
    return total + x, blu.softmax(total * 3, axis=1)


def three_results(x, total):
    """The same, and another result that more walks lead to."""
    sums = blu.softmax(total * 3, axis=1)
    return total + x, sums, blu.softmax(sums + total, axis=1) + total


def results(found):
    return found if isinstance(found, tuple) else (found,)


WALKS = [softmax_added, two_results, three_results]


@pytest.mark.parametrize("shape", [(1, 2), (3, 15), (2, 16), (4, 17), (2, 1536), (130, 65)])
@pytest.mark.parametrize("compute", WALKS)
def test_what_is_read_in_several_walks_is_not_written_over_before_the_last(compute, shape):
    x, total = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    assert blu.jit(compute, donate=("total",)).trace(x, total).compile().program.outputs[0].input == 1
    found, expected = (blu.jit(compute, donate=donated)(x, total) for donated in (("total",), ()))
    for ours, theirs in zip(results(found), results(expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("shape", [(2, 33), (1, 20_000)])
@pytest.mark.parametrize("compute", WALKS)
def test_nor_is_it_on_gpus(compute, shape, target):
    """Rows that registers hold, and rows that they do not."""
    x, total = np.random.default_rng(0).standard_normal((2, *shape)).astype(np.float32)
    program = compile_program(compute, x, total, target=target, donate=("total",))
    assert program.plan["outputs"][0]["input"] == 1
    for ours, theirs in zip(program.interpret(x, total), results(blu.jit(compute)(x, total)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def turned(z):
    """Complex numbers times another: both parts are made of both."""
    real, imag = z[..., 0], z[..., 1]
    return blu.stack([real * 2 - imag * 3, real * 3 + imag * 2], -1)


def halves(z):
    middle = z.shape[-1] // 2
    left, right = z[..., :middle], z[..., middle : 2 * middle]
    return blu.concatenate([left * blu.exp(right), right - left, z[..., 2 * middle :]], -1)


def exchanged(z):
    return blu.stack([z[..., 1], z[..., 0] * 2], -1)


def normalised(z):
    real, imag = z[..., 0], z[..., 1]
    length = blu.sqrt(blu.sum(real * real + imag * imag, axis=-1, keepdims=True))
    return blu.stack([real / length, imag / length], -1)


def read_twice(z):
    real, imag = z[..., 0], z[..., 1]
    return blu.stack([real @ real.T, imag @ imag.T], -1)


PARTS = {turned: True, halves: None, exchanged: False, normalised: None, read_twice: False}
"""What puts a result together of parts, and whether it may be written over the argument that these are made of."""


@pytest.mark.parametrize("size", [1, 2, 17, 100])
def test_parts_are_written_over_what_they_are_made_of(size):
    z = np.random.default_rng(size).standard_normal((size, size, 2)).astype(np.float32)
    for compute, is_in_place in PARTS.items():
        compiled = blu.jit(compute, donate=("z",)).trace(z).compile()
        if is_in_place is not None:
            assert (compiled.program.outputs[0].input == 0) is is_in_place, compute
        np.testing.assert_array_equal(compiled(z), blu.jit(compute)(z), err_msg=compute.__name__)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_parts_are_written_over_on_gpus(target):
    z = np.random.default_rng(0).standard_normal((3, 67, 2)).astype(np.float32)
    for compute in (turned, normalised, halves):
        program = compile_program(compute, z, target=target, donate=("z",))
        assert compute is not turned or program.plan["outputs"][0]["input"] == 0
        [found] = program.interpret(z)
        np.testing.assert_allclose(found, blu.jit(compute)(z), rtol=1e-5, atol=1e-6)


def test_donated_complex_numbers_become_the_result():
    z = (VALUES + 2j * VALUES).astype(np.complex64)
    step = blu.jit(lambda z: z * (1 + 2j), donate=("z",))
    state = step(z)
    place = state.in_host_memory().ctypes.data
    again = step(state)
    assert state.is_donated and again.in_host_memory().ctypes.data == place
    np.testing.assert_allclose(again, z * (1 + 2j) ** 2, rtol=1e-6)


@pytest.mark.parametrize("target", ["x86-64-v3", "sm_90a"])
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x, y: blu.sum(x) + y, "'x' is of no use: no result is another f32[2, 3]"),
        (lambda x, y: (x * 2).astype("f16"), "'x' is of no use: no result is another f32[2, 3]"),
        (lambda x, y: blu.sum(x, axis=0) * y, "'x' is of no use: no result is another f32[2, 3]"),
    ],
    ids=["of another shape", "of another dtype", "summed"],
)
def test_a_donation_that_is_of_no_use_is_said(function: Callable, said: str, target: str) -> None:
    traced = blu.jit(function, donate=("x",)).trace(blu.spec((2, 3)), blu.spec((3,)))
    with pytest.warns(DonationWarning) as warned:
        traced.lower(target, stop="memref")
    [told] = warned
    assert said in str(told.message) and told.filename == __file__


def test_of_two_donations_for_one_result_the_second_is_of_no_use() -> None:
    step = blu.jit(lambda x, y: x + y, donate=("x", "y"))
    with pytest.warns(DonationWarning, match="'y' is of no use"):
        step.trace(blu.spec((4, 4)), blu.spec((4, 4))).lower("x86-64-v3", stop="memref")


def test_nothing_is_said_of_donations_that_may_be_of_use() -> None:
    step = blu.jit(lambda x, y, z: (x + y, blu.zeros((0, 2))), donate=("x", "z"))
    with warnings.catch_warnings(record=True) as told:
        step.trace(blu.spec((4, 4)), blu.spec((4, 4)), blu.spec((0, 3))).lower("x86-64-v3", stop="memref")
    assert not told


def test_sums_over_gradients_keep_nothing_that_the_gradients_need():
    """Each is added to where its product is made; at the end, all operands of all products would be there still."""
    accumulation = optim.Accumulation()
    weights = {f"w{number}": blu.spec((32, 32), "f32") for number in range(6)}

    def loss(weights, x):
        for weight in weights.values():
            x = blu.tanh(x @ weight)
        return blu.mean(x * x)

    def micro_step(weights, sums, x):
        return accumulation.add(sums, *blu.value_and_grad(loss)(weights, x))

    sums, x = {**accumulation.init({}), "gradients": weights}, blu.spec((4096, 32), "f32")
    added = blu.jit(micro_step, donate=("sums",)).trace(weights, sums, x).compile("cpu")
    alone = blu.jit(blu.value_and_grad(loss)).trace(weights, x).compile("cpu")
    arenas = [json.loads(item.executable["plan.json"])["arena_bytes"] for item in (added, alone)]
    assert arenas[0] <= arenas[1] + 4096 * 32 * 2, arenas

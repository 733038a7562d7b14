"""Programs of many ops: what they take to compile grows with their length, and their code with what differs in it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import pytest

import blu
from blu.compiler.pipelines import cpu
from blu.dialects.core.dtypes import as_dtype, tensor_type
from blu.dialects.core.mlir import ir
from blu.dialects.core.modules import operations_in
from blu.passes.framework.launches import code_of
from blu.passes.host import export_plan
from blu.passes.loops.share_numbers import ShareNumbers
from tests.support.kernels.gpu_program import GpuProgram

EPSILON = np.finfo(np.float32).eps


def sum_of_sines(count: int) -> Callable:
    """sin(x) + sin(2 x) + .."""

    def function(x):
        total = blu.sin(x)
        for factor in range(2, count + 1):
            total = total + blu.sin(x * float(factor))
        return total

    return function


def parallel_sines(count: int) -> Callable:
    """All terms first, then their sum."""

    def function(x):
        terms = [blu.sin(x * float(factor)) for factor in range(2, count + 2)]
        return sum(terms[1:], terms[0])

    return function


def chain(count: int) -> Callable:
    """Two ops a step, with another number in each."""

    def function(x):
        for step in range(count // 2):
            x = x * 0.5 + (step + 2.25)
        return x

    return function


def numbers_of(size: int, dtype: str = "f32") -> np.ndarray:
    """Numbers between -2 and 2."""
    return np.linspace(-2, 2, size).astype(as_dtype(dtype).numpy)


@pytest.fixture
def numbers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels have their numbers in their code."""
    monkeypatch.setattr(cpu, "PIPELINE", cpu.PIPELINE.replacing(ShareNumbers(fewest_kernels=10**9)))


def sizes_of_kernels(function: Callable, target: str = "cpu", stop: str | None = None) -> list[int]:
    """How many ops the code of each kernel is."""
    module = blu.jit(function).trace(blu.spec((1000,))).lower(target, stop=stop).module
    return [sum(1 for _ in operations_in(kernel)) for kernel in kernels_of(module)]


def kernels_of(module: ir.Module) -> list[ir.Operation]:
    """The kernels of a module, at any level below `blu`."""
    return [item for item in code_of(module) if "blu.kernel" in item.attributes]


def count_launches(module: ir.Module) -> int:
    """Launches of a module at level "plan"."""
    return len(json.loads(ir.StringAttr(module.operation.attributes["blu.plan"]).value)["launches"])


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
@pytest.mark.parametrize("program", [sum_of_sines, parallel_sines, chain])
def test_code_does_not_grow_with_terms_that_differ_in_numbers(program: Callable, target: str) -> None:
    few, many = (sizes_of_kernels(program(count), target) for count in (80, 160))
    assert len(many) <= 5
    assert max(many) <= 4500  # a kernel of 48 loops, 16 of them sines
    assert sum(many) <= 1.25 * sum(few), (few, many)


def test_a_kernel_is_bounded_where_all_terms_are_of_other_kinds() -> None:
    functions = [blu.sin, blu.exp, blu.tanh, blu.log1p, blu.erf]

    def mixed(x):
        for step in range(150):
            x = functions[step * step * 7919 % 31 % 5](x * float(step + 2))
        return x

    sizes = sizes_of_kernels(mixed, stop="blu-fuse")
    assert len(sizes) >= 6
    assert max(sizes) <= 300


def test_time_to_lower_is_linear_in_the_terms() -> None:
    seconds = []
    for count in (64, 128, 512):
        traced = blu.jit(chain(count)).trace(blu.spec((1000,)))
        start = time.process_time()
        traced.lower("cpu")
        seconds.append(time.process_time() - start)
    # 4 times as much work where that is linear, 16 times where it is quadratic.
    assert seconds[2] < 9 * seconds[1] + 0.2, seconds


def test_the_plan_reads_the_type_of_each_argument_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(export_plan, "tensor_type", lambda type_: read.append(type_) or tensor_type(type_))
    sizes = range(16, 28)
    traced = blu.jit(lambda arrays: [blu.exp(item) for item in arrays]).trace([blu.spec((size,)) for size in sizes])
    assert count_launches(traced.lower("cpu").module) == len(sizes), "a launch for each"
    assert len(read) == 2 * len(sizes), "of arguments and results, whatever the number of launches"


@pytest.mark.parametrize(
    ("dtype", "size"), [("f16", 1025), ("bf16", 33), ("f32", 0), ("f32", 1), ("f32", 1025), ("f64", 15)]
)
def test_shared_kernels_give_the_bits_of_kernels_with_their_own_numbers(
    dtype: str, size: int, request: pytest.FixtureRequest
) -> None:
    x, program = numbers_of(size, dtype), blu.jit(chain(200))
    lowered = program.trace(x).lower("cpu")
    found = np.asarray(lowered.compile()(x))
    request.getfixturevalue("numbers_apart")
    apart = program.trace(x).lower("cpu")
    assert count_launches(lowered.module) == count_launches(apart.module)
    assert len(kernels_of(lowered.module)) < len(kernels_of(apart.module)) or size == 0
    assert found.tobytes() == np.asarray(apart.compile()(x)).tobytes()


@pytest.mark.parametrize("target", ["cpu", "sm_90a"])
def test_special_numbers_reach_a_shared_kernel_as_they_are(target: str) -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.0, 2.5]

    def scaled(x, number: float):
        x = x * number
        for _ in range(15):
            x = (x * 2.0) * 0.5
        return x

    x = numbers_of(33)
    lowered = blu.jit(lambda x: [scaled(x, number) for number in special]).trace(x).lower(target)
    names = {kernel.attributes["sym_name"] for kernel in kernels_of(lowered.module)}
    assert len(names) == 1
    results = lowered.compile()(x) if target == "cpu" else GpuProgram.of(lowered.module, target).interpret(x)
    with np.errstate(all="ignore"):
        for found, number in zip(results, special, strict=True):
            expected = x * np.float32(number)
            np.testing.assert_array_equal(np.asarray(found), expected)
            np.testing.assert_array_equal(np.signbit(found)[expected == 0], np.signbit(expected)[expected == 0])


def test_a_long_chain_is_right_on_a_gpu() -> None:
    x = numbers_of(70)
    program = GpuProgram.of(blu.jit(chain(200)).trace(x).lower("sm_90a").module, "sm_90a")
    assert len(program.ptx) <= 4
    expected = x
    for step in range(100):
        expected = expected * np.float32(0.5) + np.float32(step + 2.25)
    np.testing.assert_allclose(program.interpret(x)[0], expected, rtol=4 * EPSILON)


def test_two_kernels_alike_keep_their_numbers() -> None:
    assert len(sizes_of_kernels(chain(96), stop="blu-share-numbers")) == 2
    assert sizes_of_kernels(chain(96), stop="blu-fuse") == sizes_of_kernels(chain(96), stop="blu-share-numbers")

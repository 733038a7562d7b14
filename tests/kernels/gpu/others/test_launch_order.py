"""Whole programs whose launches begin early: what each does until it has waited is compared with the others.

Every program that the interpreter runs is held to that (tests/support/ptx/launch_order.py), and to no races in global
memory. Here GPT-2 is, and what is broken on purpose.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import blu
from blu.compiler.generation.gpt2_programs import Gpt2Request
from blu.compiler.jit import Traced
from blu.frontend.io.gpt2 import complete_config
from tests.support.gpu_budgets import training_step
from tests.support.kernel_hashes import SMALL
from tests.support.kernels.gpu_program import DTYPES, GpuProgram, compile_program
from tests.support.ptx.launch_order import OrderError
from tests.support.ptx.races import RaceError

WAIT = "griddepcontrol.wait;"


def decode() -> Traced:
    """Two layers: what the first one has put into its cache is read while the second one runs."""
    config = complete_config({**SMALL, "n_layer": 2})
    return Gpt2Request.of("decode", config, "x86-64-v3", batch=2, dtype="bf16").trace()


def inputs_of(program: GpuProgram, largest: int) -> list[np.ndarray]:
    """Small numbers for all arguments; whole ones are below `largest`."""
    rng = np.random.default_rng(0)
    shapes = [(item["shape"], np.dtype(DTYPES[item["dtype"]])) for item in program.plan["inputs"]]
    return [
        np.array(rng.integers(0, largest, shape), dtype) if dtype.kind in "iu"
        else np.array(0.05 * np.abs(rng.standard_normal(shape)), dtype)
        for shape, dtype in shapes
    ]  # fmt: skip


@pytest.mark.parametrize("step", [decode, lambda: training_step(SMALL, 2, 64)], ids=["decode", "training"])
def test_steps_of_gpt2_do_nothing_too_early(step: Callable[[], Traced]) -> None:
    program = GpuProgram.of(step().lower("sm_90a").module, "sm_90a")
    assert sum(launch.get("early", False) for launch in program.plan["launches"]) > 10
    assert any("ld.global" in text.partition(WAIT)[0] for text in program.ptx.values())
    outputs = program.interpret(*inputs_of(program, 40))
    assert all(np.isfinite(np.asarray(output, np.float64)).all() for output in outputs)


def chain(x, weight, index):
    """Kernels of several families, each of which needs what the one before has made."""
    found = blu.softmax((2 * x).astype("bf16") @ weight)
    return blu.cumsum(blu.sort(blu.take(found, index, axis=0), axis=1), axis=1)


@pytest.fixture(scope="module")
def chained() -> tuple[GpuProgram, list[np.ndarray]]:
    weight = np.ones((64, 48), DTYPES["bf16"])
    arrays = [np.linspace(-1, 1, 512, dtype=np.float32).reshape(8, 64), weight, np.array([3, 1, 0, 2])]
    return compile_program(chain, *arrays), arrays


def test_a_kernel_that_does_not_wait_is_found(chained) -> None:
    program, arrays = chained
    program.interpret(*arrays)
    broken = {**program.ptx, "gemm_0": program.ptx["gemm_0"].replace(WAIT, "")}
    with pytest.raises(OrderError, match=r"gemm_0 reads .* before it has waited that rows_0, which may run, writes"):
        replace(program, ptx=broken).interpret(*arrays)


def test_memory_that_is_used_again_too_soon_is_found(chained) -> None:
    """A kernel that reads its weight early is launched with that in the memory that the kernel before writes."""
    program, arrays = chained
    launches = program.plan["launches"]
    number = next(number for number, launch in enumerate(launches) if launch["kernel"].startswith("gemm"))
    args = launches[number]["args"]
    written = next(item for item in launches[number - 1]["args"] if item[0] == "arena")
    moved = {**launches[number], "args": [written if item == ["input", 1, 0] else item for item in args]}
    assert moved["args"] != args
    broken = {"launches": [*launches[:number], moved], "arena_bytes": program.plan["arena_bytes"] + arrays[1].nbytes}
    with pytest.raises(OrderError, match=r"gemm_0 reads .* before it has waited"):
        replace(program, plan={**program.plan, **broken}).interpret(*arrays)


def test_blocks_that_read_what_others_write_are_found() -> None:
    """Rows of many blocks, written over memory that is one row further on than that which they are read from."""
    x = np.linspace(0, 1, 64 * 256, dtype=np.float32).reshape(64, 256)
    program = compile_program(lambda x: blu.softmax(x), x)
    [launch] = program.plan["launches"]
    assert launch["grid"][0] > 1 and launch["args"] == [["input", 0, 0], ["output", 0, 0]]
    broken = {"launches": [{**launch, "args": [["input", 0, 1024], ["input", 0, 0]]}]}
    with pytest.raises(RaceError, match="which another thread has"):
        replace(program, plan={**program.plan, **broken}).interpret(np.vstack([x, x]))


@pytest.mark.parametrize("function", [lambda x: blu.softmax(x), lambda x: x[::-1] + 1, lambda x: blu.sum(x, axis=1)])
def test_a_program_of_one_kernel_waits_for_what_came_before(function: Callable) -> None:
    x = np.linspace(0, 1, 2048 * 64, dtype=np.float32).reshape(2048, 64)
    program = compile_program(function, x)
    [launch], [name] = program.plan["launches"], list(program.ptx)
    assert launch["early"] and WAIT in program.ptx[name].partition("ld.global")[0]
    program.interpret(x)
    with pytest.raises(OrderError, match="does not wait for what came before the program"):
        replace(program, ptx={name: program.ptx[name].replace(WAIT, "")}).interpret(x)

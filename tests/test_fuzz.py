"""Random programs, the same ones each time: values and gradients on the CPU, and PTX in the interpreter.

`python -m tests.fuzz` runs as many others as one likes.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from blu.dialects.core.op import OPS
from blu.frontend.functional import (
    activations,
    collective,
    convolutions,
    functional,
    norms,
    pointwise,
    pooling,
    resizing,
    running,
    sampling,
    special,
)
from blu.frontend.functional.losses import losses, margins
from blu.frontend.functional.searching import searching, selecting, statistics
from tests.fuzz import calls
from tests.fuzz.check import Outcome, check
from tests.fuzz.generate import generate
from tests.fuzz.loops import LoopProgram
from tests.fuzz.programs import Call, Input, Program
from tests.fuzz.reduce import reduced
from tests.fuzz.run import program_of
from tests.support.folders import DATA
from tests.support.gpu_budgets import training_step

FAILURES = DATA / "fuzz_failures.jsonl"
CHUNK = 25
GPU_CHUNK = 5

# Functions that no random program calls, and why.
LEFT_OUT = {
    "asarray": "inputs are arrays",
    "broadcast_arrays": "broadcasting is in every binary op",
    **dict.fromkeys(("ones", "zeros", "full", "iota", "eye", "tri", "linspace", "arange"), "no operands"),
    **dict.fromkeys(("ones_like", "zeros_like", "full_like"), "no numbers of their operands"),
    **dict.fromkeys(collective.__all__, "other ranks take part"),
    **dict.fromkeys((*convolutions.__all__, *pooling.__all__, *resizing.__all__), "their sizes hang together"),
    **dict.fromkeys(sampling.__all__, "their sizes hang together"),
    "standardize": "three results",
    **dict.fromkeys(("dot", "outer", "tensordot", "trace", "vdot"), "matmul and einsum of other names"),
    "dropout": "a key draws what it drops",
    **dict.fromkeys(("rotary", *special.__all__), "composed of functions that are drawn"),
    **dict.fromkeys(("masked_scatter", "put_along_axis"), "composed of functions that are drawn"),
    **dict.fromkeys(
        ("segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"), "composed of functions drawn"
    ),
    **dict.fromkeys(activations.__all__, "composed of elementwise functions that are drawn"),
    **dict.fromkeys((*losses.__all__, *margins.__all__), "composed of functions that are drawn"),
    **dict.fromkeys((*norms.__all__, *running.__all__, *searching.__all__), "composed of functions that are drawn"),
    **dict.fromkeys(set(selecting.__all__) - {"repeat"}, "results of sizes that are found"),
    **dict.fromkeys(statistics.__all__, "composed of functions that are drawn"),
    **dict.fromkeys(set(pointwise.__all__) - {"positive"}, "composed of functions that are drawn"),  # a word elsewhere
    **dict.fromkeys(("matrix_transpose", "meshgrid", "unstack"), "composed of functions that are drawn"),
}


def checked(program: Program, target: str = "cpu", interpret: bool = False) -> None:
    outcome = check(program, target, interpret)
    assert not outcome, f"{outcome.sentence}\n{program.describe()}\n{program.text()}"


@pytest.mark.parametrize("first", range(0, 8 * CHUNK, CHUNK))
def test_random_programs_give_what_they_mean(first: int) -> None:
    for seed in range(first, first + CHUNK):
        checked(program_of(seed))


# Slices that the loop lacks beside those it gives, sums that it gives too, in another loop, differentiated; any others.
@pytest.mark.parametrize("seed", [118, 110, 197, 323, 0, 1])
def test_random_loops_give_what_they_mean(seed: int) -> None:
    assert not LoopProgram.of(seed).wrong()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("first", range(100_000, 100_000 + 3 * GPU_CHUNK, GPU_CHUNK))
def test_random_programs_for_gpus_give_what_they_mean(first: int, target: str) -> None:
    for seed in range(first, first + GPU_CHUNK):
        checked(program_of(seed), target, interpret=True)


@pytest.mark.parametrize("line", FAILURES.read_text().splitlines())
def test_programs_that_failed_once_do_not_fail_again(line: str) -> None:
    checked(Program.of_text(line))


def random_gpt2(seed: int) -> tuple[dict[str, int], int, int, str]:
    """A configuration of few parameters, batch, length and precision, none of them a power of two on purpose."""
    rng = np.random.default_rng(seed)
    heads = int(rng.integers(1, 6))
    config = {
        "n_layer": int(rng.integers(1, 3)),
        "n_head": heads,
        "n_embd": heads * int(rng.choice([8, 24, 64, 96])),
        "vocab_size": int(rng.choice([97, 257, 1000])),
        "n_positions": 64,
    }
    return (
        config,
        int(rng.integers(1, 4)),
        int(rng.choice([1, 2, 16, 33, 64])),
        str(rng.choice(["f32", "tf32", "bf16"])),
    )


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "cpu"])
@pytest.mark.parametrize("seed", range(2))
def test_training_steps_of_random_gpt2s_compile(seed: int, target: str) -> None:
    lowered = training_step(*random_gpt2(seed)).lower(target, stop="kernel")
    assert lowered.module.operation.verify()


def test_equal_updates_of_operands_that_lie_differently_are_batches() -> None:
    """One token: the sums of squares of transposed gradients have a kernel of their own in the midst of their batch."""
    config = {"n_layer": 1, "n_head": 2, "n_embd": 256, "vocab_size": 97, "n_positions": 64}
    lowered = training_step(config, 2, 1, "tf32").lower("sm_90a", stop="kernel")
    assert lowered.module.operation.verify() and "blu.batch" in lowered.text


def test_every_function_is_drawn_or_left_out_for_a_reason() -> None:
    """Each name stands as a word in a string of the module that draws calls."""
    nodes = ast.walk(ast.parse(Path(calls.__file__).read_text()))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    drawn = {word for text in texts for word in text.split()}
    assert set(functional.HOMES) - drawn == set(LEFT_OUT)


def test_a_program_is_the_same_each_time_and_survives_being_written() -> None:
    for seed in range(3):
        program = program_of(seed)
        assert program == program_of(seed) == Program.of_text(program.text())


def _chain() -> Program:
    """The exponential of maxima, backward, with a sort beside it."""
    inputs = (Input((33, 5), "f32", seed=1), Input((7,), "f32", "ties", seed=2))
    chain = (Call("max", (0,), {"axis": 0}), Call("exp", (2,), {}), Call("flip", (3,), {}), Call("sort", (1,), {}))
    return Program(inputs, chain, (1, 1, 1, 1), (4, 5))


def test_a_wrong_result_is_found_and_cut_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function of float32 that is off by 34 units in the last place."""
    assert check(_chain()) == Outcome()
    right = OPS["exp"].reference
    monkeypatch.setattr(OPS["exp"], "reference", staticmethod(lambda operand: right(operand) * (1 + 4e-6)))
    assert check(_chain()).kind == "wrong"
    shorter = reduced(_chain(), lambda program: check(program).kind == "wrong")
    assert [call.name for call in shorter.calls] == ["exp"] and len(shorter.inputs) == 1


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program((Input((3, 4), "f64", seed=1),), (Call("tanh", (0,), {}),), (1,), (1,), gradient=True)
    assert check(program) == Outcome()
    monkeypatch.setattr(OPS["tanh"], "vjp", staticmethod(lambda g, x, y: g * (1 - y * y * 1.001)))
    assert check(program).kind == "gradient"


def test_what_rounding_decides_is_not_asked_of_a_result() -> None:
    """The floor of a sum that is a whole number but for rounding may be that number or the one below."""
    numbers = Input((1000,), "f32", "ties", seed=3)
    steps = (Call("multiply", (0, {"float": 0.1}), {}), Call("sum", (1,), {}), Call("floor", (2,), {}))
    checked(Program((numbers,), steps, (1, 1, 1), (3,)))


def test_programs_are_drawn_of_every_rank_and_dtype() -> None:
    drawn = [item for seed in range(60) for item in generate(seed).inputs]
    assert {len(item.shape) for item in drawn} >= set(range(5))
    assert {item.dtype for item in drawn} >= {"f32", "f64", "bf16", "f16", "i8", "i64", "bool"}
    assert any(0 in item.shape for item in drawn) and any(max(item.shape, default=0) > 1000 for item in drawn)

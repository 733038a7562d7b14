"""Compiles and runs a program, and compares what it gives with what it means."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import blu
from blu.compiler.jit import Traced
from blu.dialects.core.dtypes import as_dtype
from blu.dialects.core.evaluation import evaluate, on_operand
from blu.dialects.core.mlir import ir
from blu.dialects.core.op import OPS, attributes_of, operands_of
from blu.errors import BluError

from .meaning import Meaning, meanings
from .programs import Program

STEPS = (1e-5, 1e-6)
"""Steps of central differences: where both agree, the function is smooth there."""


@dataclass(frozen=True)
class Outcome:
    """What was found of a program: nothing wrong, or a sentence; `kind` is what a shorter program must show, too."""

    kind: str = ""
    sentence: str = ""

    def __bool__(self) -> bool:
        return bool(self.kind)


def check(program: Program, target: str = "cpu", interpret: bool = False) -> Outcome:
    """Run a program on a target, or its PTX in the interpreter, and say what is wrong."""
    if not program.results:  # nothing of it has a gradient
        return Outcome()
    arrays = [item.array() for item in program.inputs]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of integers divided by zero
            return _compared(program, arrays, target, interpret)
    except BluError as error:
        return Outcome(type(error).__name__, str(error))
    except Exception as error:  # whatever a compiler should never raise
        return Outcome(f"crash: {type(error).__name__}", f"{type(error).__name__}: {error}")


def _compared(program: Program, arrays: list[np.ndarray], target: str, interpret: bool) -> Outcome:
    traced = blu.jit(lambda inputs: program.apply(inputs)).trace(arrays)
    found = (_interpreted if interpret else _run)(traced, arrays, target)
    module = traced.lower("cpu", stop="blu-inline").module if program.gradient else traced.traced.module
    expected = meanings(module, [*arrays, *traced.traced.captured], flushes=target != "cpu")
    for number, (result, meaning) in enumerate(zip(found, expected, strict=True)):
        if wrong := _difference(result, meaning):
            what = f"the gradient by v{program.floats()[number]}" if program.gradient else f"v{program.results[number]}"
            return Outcome("wrong", f"{what}: {wrong}")
    return _by_differences(program, arrays, found) if program.gradient else Outcome()


def _run(traced: Traced, arrays: list[np.ndarray], target: str) -> list[np.ndarray]:
    compiled = traced.lower(target).compile()
    return [np.asarray(result) for result in compiled.program.run([*arrays, *traced.traced.captured])]


def _interpreted(traced: Traced, arrays: list[np.ndarray], target: str) -> list[np.ndarray]:
    from tests.support.kernels.gpu_program import GpuProgram

    program = GpuProgram.of(traced.lower(target).module, target)
    return program.interpret(*(np.ascontiguousarray(array) for array in [*arrays, *traced.traced.captured]))


def _difference(found: np.ndarray, meaning: Meaning) -> str:
    wrong = meaning.wrong(found)
    if not wrong.any():
        return ""
    place = tuple(int(item) for item in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} elements of {found.dtype}{list(found.shape)} are wrong; at {list(place)} "
        f"{found[place]!r} instead of {meaning.value[place]!r}, bound {meaning.bound[place]:.3g}"
    )


def _by_differences(program: Program, arrays: list[np.ndarray], found: Sequence[np.ndarray]) -> Outcome:
    """Compare a gradient in f64 with differences of the program's meaning along one random direction."""
    floats = program.floats()
    if any(arrays[place].dtype != np.float64 or not np.isfinite(arrays[place]).all() for place in floats):
        return Outcome()
    rng = np.random.default_rng(len(arrays))
    along = {place: rng.uniform(-1, 1, arrays[place].shape) for place in floats}
    total = _total_of(program, arrays)
    first, second = (_slope(total, arrays, along, step) for step in STEPS)
    exact = sum(float(np.sum(part * along[place])) for part, place in zip(found, floats, strict=True))
    size = max(1.0, abs(first), *(float(np.abs(part).sum()) for part in found))
    if not np.isfinite([first, second, exact]).all() or abs(first - second) > 1e-6 * size:
        return Outcome()  # not smooth there
    if abs(exact - first) > 2e-6 * size:
        negated = _slope(_total_of(program, arrays, _with_negated_nan), arrays, along, STEPS[0])
        if abs(negated - first) > 1e-6 * size:
            return Outcome()  # copysign reads the sign of a NaN, which is anybody's
        return Outcome("gradient", f"along a direction {exact!r}, by differences {first!r}")
    return Outcome()


def _total_of(
    program: Program, arrays: list[np.ndarray], evaluated: Callable | None = None
) -> Callable[[list[np.ndarray]], float]:
    traced = blu.jit(lambda inputs: program.total(inputs)).trace(arrays)
    module, captured = traced.traced.module, traced.traced.captured
    return lambda moved: float(_values(module, [*moved, *captured], evaluated)[0])


def _values(module: ir.Module, inputs: list[np.ndarray], evaluated: Callable | None) -> list[Any]:
    from tests.support.programs.interpret import interpret

    return interpret(module, inputs, evaluated)


def _with_negated_nan(operation: ir.Operation, values: dict) -> list[np.ndarray]:
    """What an op gives, where each NaN has the other sign."""
    operands = tuple(on_operand(values.__getitem__, item) for item in operands_of(operation))
    results = evaluate(OPS[operation.name.removeprefix("blu.")], operands, attributes_of(operation))
    return [np.where(np.isnan(item), -item, item) if as_dtype(item.dtype).is_float else item for item in results]


def _slope(total: Callable, arrays: list[np.ndarray], along: dict[int, np.ndarray], step: float) -> float:
    after, before = (
        total([array + sign * step * along[place] if place in along else array for place, array in enumerate(arrays)])
        for sign in (1, -1)
    )
    return (after - before) / (2 * step)

"""Ops with regions, declared as a user's are: tests of what Blu does with bodies."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.dialect import BluDialect
from blu.dialects.core.dtypes import TensorType
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.mlir import func, ir
from blu.dialects.core.modules import operations_in
from blu.dialects.core.op import OPS, Captured, Effects, Op, Operand, Region, VariadicOperand
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError
from blu.passes.framework.base import MlirPass, Pass
from blu.passes.loops.lower_to_linalg.rules import RULES, Lowering


class _Loop(Op):
    """A body done `count` times: what it gives is what it takes next."""

    state: VariadicOperand
    captured: Captured
    body: Region
    count: int

    num_results = None

    @staticmethod
    def region_arguments(state: list[TensorType], count: int) -> tuple[list[TensorType]]:
        return (state,)

    @staticmethod
    def infer(state: list[TensorType], body: Any, count: int) -> tuple[TensorType, ...]:
        if list(body.results) != list(state):
            raise ShapeError(f"the body takes {list(state)} and gives {list(body.results)}")
        return tuple(state)

    @staticmethod
    def reference(state: list[Any], captured: list[Any], body: Any, count: int) -> tuple[Any, ...]:
        for _ in range(count):
            state = body(*state, *captured)
        return tuple(state)


def _unrolled(state: list[Any], captured: list[Any], body: Any, count: int) -> tuple[Any, ...]:
    for _ in range(count):
        state = body(*state, *captured)
    return tuple(state)


def _pulled_back(
    gradients: tuple[Tensor, ...], state: list[Tensor], captured: list[Tensor], results: Any, body: Any, count: int
) -> tuple[list[Tensor], list[Tensor]]:
    """The body's own gradient, as often as the body, from the last time to the first."""
    states = [tuple(state)]
    for _ in range(count - 1):
        states.append(body(*states[-1], *captured))
    total = [item * 0 for item in captured]
    for before in reversed(states):
        _, pull_back = blu.vjp(body, *before, *captured)
        shares = pull_back(gradients)
        gradients = shares[: len(state)]
        total = [known + share for known, share in zip(total, shares[len(state) :], strict=True)]
    return list(gradients), total


def _lowered(op: Lowering) -> list[Any]:
    state, captured = op.operands
    for _ in range(op.attributes["count"]):
        state = op.bodies["body"](*state, *captured)
    return state


def _declare() -> None:
    type("Repeat", (_Loop,), {"decompose": staticmethod(_unrolled), "__doc__": _Loop.__doc__}, name="repeat")
    members = {"vjp": staticmethod(_pulled_back), "decompose": staticmethod(_unrolled), "__doc__": _Loop.__doc__}
    type("RepeatBack", (_Loop,), members, name="repeat_back")
    type("RepeatLowered", (_Loop,), {"__doc__": _Loop.__doc__}, name="repeat_lowered")
    type("RepeatBare", (_Loop,), {"__doc__": _Loop.__doc__}, name="repeat_bare")
    RULES["repeat_lowered"] = _lowered

    class Tell(Op, name="tell"):
        """The operand, of which somebody is told."""

        operand: Operand
        effects = Effects.ORDERED
        kernel = True
        vjp = staticmethod(lambda g, operand, result: g)

        @staticmethod
        def infer(operand: TensorType) -> TensorType:
            return operand

    class Either(Op, name="either"):
        """What one of two bodies gives, both of which are done: the first where the condition holds."""

        condition: Operand
        captured: Captured
        first: Region
        second: Region

        @staticmethod
        def region_arguments(condition: TensorType) -> tuple[list[TensorType], list[TensorType]]:
            return [], []

        @staticmethod
        def infer(condition: TensorType, first: Any, second: Any) -> TensorType:
            if first.results != second.results or len(first.results) != 1:
                raise ShapeError(f"one body gives {first.results}, and the other {second.results}")
            return first.results[0]

        @staticmethod
        def decompose(condition: Tensor, captured: list[Tensor], first: Any, second: Any) -> Tensor:
            return blu.where(condition, *first(*captured), *second(*captured))


@contextmanager
def region_ops() -> Iterator[None]:
    """Inside, there are these ops; they are forgotten afterwards."""
    make_context()  # declares Blu's own ops first
    before, names = list(BluDialect.operations), set(OPS)
    _declare()
    try:
        yield
    finally:
        BluDialect.operations = before
        del RULES["repeat_lowered"]
        for name in set(OPS) - names:
            del OPS[name]


X = np.linspace(-1, 1, 4).astype(np.float32)
W = np.linspace(0.5, 2, 4).astype(np.float32)


def repeated(name: str = "repeat", count: int = 3) -> Any:
    """x -> tanh(x w) + 1, so often."""
    return lambda x, w: OPS[name]([x], body=lambda state: blu.tanh(state * w) + 1, count=count)[0]


def numbers(count: int = 3) -> np.ndarray:
    value = X
    for _ in range(count):
        value = np.tanh(value * W) + 1
    return value


def main_of(module: ir.Module) -> func.FuncOp:
    return next(item for item in module.body.operations if item.name.value == "main")


def names(root: ir.Module | ir.Operation) -> list[str]:
    return [item.name.removeprefix("blu.") for item in operations_in(root.operation)]


def after(text: str, *passes: Pass | MlirPass) -> ir.Module:
    """A module after some passes, each of which leaves it right."""
    with make_context() as context, ir.Location.unknown():
        module = ir.Module.parse(text, context)
        for item in passes:
            item.run(module)
            assert module.operation.verify()
        return module


def traced(function: Any, *arguments: Any) -> str:
    return blu.jit(function).trace(*arguments).text


def loop_of(module: ir.Module) -> ir.Operation:
    """The first op with a body."""
    return next(item for item in operations_in(main_of(module).operation) if len(item.regions))


SLOTS = ", ".join(["1"] + ["0"] * (CAPTURED_SLOTS - 1))


def text_of(
    body: str = '"blu.yield"(%a) {operandSegmentSizes = SLOTS} : (tensor<4xf32>) -> ()',
    arguments: str = "%a: tensor<4xf32>, %b: tensor<4xf32>",
) -> str:
    states = "1" + ", 0" * 15
    return f"""
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {{
  %y = "blu.exp"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  %r = "blu.repeat"(%x, %w) ({{
  ^bb0({arguments}):
    {body.replace("SLOTS", f"array<i32: {SLOTS}>")}
  }}) {{count = 3 : i64, operandSegmentSizes = array<i32: {states}, {SLOTS}>,
        resultSegmentSizes = array<i32: {states}>}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32>
}}
"""


ENDS = '"blu.yield"(%v) {operandSegmentSizes = SLOTS} : (tensor<4xf32>) -> ()'

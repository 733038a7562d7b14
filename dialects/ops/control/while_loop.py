"""Ops that are done as long as they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from typing import Any, ClassVar

import numpy as np

from blu.dialects.batching import Batched, Slices
from blu.dialects.core.dtypes import TensorType, bf16, bool_, f32, f64, i32
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.op import Captured, ErrorSample, ManyOperands, Op, Region, Sample
from blu.dialects.core.regions import RegionType, listed
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.control.custom_vjp import UNSAVED, CustomVjp
from blu.dialects.ops.control.scan import floats_of, spread
from blu.dialects.ops.creation import Constant
from blu.dialects.ops.identity import RefusedGradient
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError

_NO_GRADIENT = (
    "while_loop: a loop whose number of steps is not known has no gradient: use blu.fori_loop or blu.scan with as many "
    "steps as there may be, where blu.cond chooses whether a step changes the value"
)


class WhileLoop(Op, name="while_loop"):
    """A body done as long as the first of what is carried, a bool, is true. It takes what is carried, and gives what is
    carried on. The host reads the bool before each step."""

    takes_float8 = True
    carry: ManyOperands
    captured: Captured
    body: Region

    deliberate: ClassVar[dict[str, str]] = {
        "lowering": "its body becomes a function of the host program",
        "vjp": "it is refused, as what steps have computed is not kept, and followed along directions alone",
    }
    num_results = None
    result_slots = CAPTURED_SLOTS

    @staticmethod
    def region_arguments(carry: list[TensorType]) -> tuple[list[TensorType]]:
        return (list(carry),)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """One loop, done as long as any slice goes on; those that do not stay what they are."""
        carry, captured = op.operands
        begun = [op.each(item) for item in carry]

        def step(_: Tensor, *values: Tensor) -> list[Tensor]:
            after = op.bodies["body"](*(Slices(value, True) for value in values), *captured)
            goes_on = values[0]
            chosen = [_at_slices(goes_on, one.ndim).where(one, two) for one, two in zip(after, values, strict=True)]
            return [chosen[0].any(), *chosen]

        return list(WhileLoop([begun[0].any(), *begun], body=step))[1:]

    @staticmethod
    def infer(carry: list[TensorType], body: RegionType) -> tuple[TensorType, ...]:
        if not carry or carry[0].shape or carry[0].dtype != bool_:
            kind = ShapeError if carry and carry[0].dtype == bool_ else DTypeError
            raise kind(f"goes on by a bool that it carries first, not by {carry[0] if carry else 'nothing'}")
        if list(body.results) != list(carry):
            raise ShapeError(f"carries {listed(carry)}, and its body gives {listed(body.results)}")
        return tuple(carry)

    @staticmethod
    def reference(
        carry: list[np.ndarray], captured: list[np.ndarray], body: Callable[..., Any]
    ) -> tuple[np.ndarray, ...]:
        values = tuple(carry)
        while values[0]:
            values = tuple(body(*values, *captured))
        return values

    @staticmethod
    def vjp(
        g: tuple[Tensor, ...], carry: list[Tensor], captured: list[Tensor], results: tuple[Tensor, ...], body: Any
    ) -> tuple[list[Tensor | None], list[Tensor | None]]:
        """Gradients that are refused, but have a gradient: a derivative along directions of what the loop takes.

        That is a loop as well, which carries how its values move. Nothing of its steps is kept.
        """
        taken = [*carry, *captured]
        slopes, floats = floats_of(carry), floats_of(taken)

        def refused(*values: Tensor) -> list[Tensor]:
            return [_refused(values[len(slopes) + place]) for place in floats]

        def backward(*values: Tensor) -> list[Tensor]:
            inputs, moves = list(values[: len(taken)]), values[len(taken) :]
            moved = _moved(body, inputs[: len(carry)], inputs[len(carry) :], dict(zip(floats, moves, strict=True)))
            total = reduce(add, (move.sum().astype(f64) for move in moves))
            return [*moved, *(_refused(inputs[place] * total.astype(inputs[place].dtype)) for place in floats)]

        shares = CustomVjp(
            [*(g[place] for place in slopes), *taken],
            function=refused,
            forward=lambda *values: [*refused(*values), *values[len(slopes) :]],
            backward=backward,
            saved=UNSAVED,
        )
        spread_out = spread(list(shares), floats, taken)
        return spread_out[: len(carry)], spread_out[len(carry) :]

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in (f32, f64, bf16, i32):
            for shape in ((), (5,), (4, 16), (0, 2)):
                for begins in (True, False):
                    counted = np.array(3, np.int64), draw(rng, shape, dtype), draw(rng, shape, dtype)
                    yield Sample(([np.array(begins), *counted],), {"body": _counting})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        going, value = TensorType((), bool_), TensorType((3,), f32)
        yield ErrorSample(([value],), {"body": lambda value: value}, "goes on by a bool that it carries first")
        several = TensorType((3,), bool_)
        yield ErrorSample(([several],), {"body": lambda value: value}, "not by bool[3]")
        wide = {"body": lambda goes_on, value: [goes_on, value.astype(f64)]}
        yield ErrorSample(([going, value],), wide, "carries bool[], f32[3], and its body gives bool[], f64[3]")


def _refused(value: Tensor) -> Tensor:
    """A gradient that there is not, which depends on what this value does, so that others that follow from it are
    refused as well."""
    return RefusedGradient(value, reason=_NO_GRADIENT)


def _moved(body: Any, carry: list[Tensor], read: list[Tensor], moves: dict[int, Tensor]) -> list[Tensor]:
    """How the floats that a loop carries have moved in the end, where those that it takes move so, by their places."""
    floats = floats_of(carry)
    constant = {place: move for place, move in moves.items() if place >= len(carry)}

    def step(*values: Tensor) -> list[Tensor]:
        inner = [*values[: len(carry)], *read]
        directions = {**dict(zip(floats, values[len(carry) :], strict=True)), **constant}
        after, moved = body.directional(inner, directions)
        return [*after, *(moved[place] for place in floats)]

    return list(WhileLoop([*carry, *(moves[place] for place in floats)], body=step))[len(carry) :]


def _counting(_: Tensor, count: Tensor, first: Tensor, second: Tensor) -> list[Tensor]:
    """A step of samples: a few, in which two change places, one of them with another added."""
    left = count - Constant(value=np.array(1, np.int64))
    return [left > Constant(value=np.array(0, np.int64)), left, second, first + second]


def _at_slices(goes_on: Tensor, ndim: int) -> Tensor:
    return goes_on.reshape((*goes_on.shape, *(1,) * (ndim - 1)))

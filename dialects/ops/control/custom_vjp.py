"""Ops that know the gradient that their user has given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from blu.dialects.batching import Batched, Slices
from blu.dialects.core.dtypes import TensorType, bf16, f32, f64, i32
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.op import Captured, ErrorSample, ManyOperands, Op, Region, Sample
from blu.dialects.core.regions import RegionType, listed
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.control.scan import floats_of, or_zeros, spread
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError

# `saved` of an op whose gradient nobody has asked for yet.
UNSAVED = -1


class CustomVjp(Op, name="custom_vjp"):
    """What `function` gives, with a gradient of its own: `backward` takes what `forward` gives after the same results,
    then the gradients of the float results, and gives those of the float operands. Once gradients have been written,
    there are no such ops.

    With `saved` not -1, the op gives what `forward` does, of which the last `saved` are for `backward`.
    """

    takes_float8 = True
    operands: ManyOperands
    captured: Captured
    function: Region
    forward: Region
    backward: Region
    saved: int

    num_results = None
    result_slots = CAPTURED_SLOTS
    # What bodies read from above has no gradient that anyone has given.
    without_gradient: ClassVar[dict[str, str]] = {
        "captured": "its functions read from above what a gradient is asked for, and their rule gives none for that"
    }

    @staticmethod
    def region_arguments(operands: list[TensorType], saved: int) -> tuple[Any, ...]:
        def backward(known: dict[str, RegionType]) -> Sequence[TensorType]:
            results = known["function"].results
            floats = [type_ for type_ in results if type_.dtype.has_gradient]
            return [*known["forward"].results[len(results) :], *floats]

        return operands, operands, backward

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """The same of all slices, with the rule of all of them."""
        operands, captured = op.operands

        def of(name: str) -> Callable[..., list[Tensor]]:
            return lambda *values: op.bodies[name](*(Slices(value, True) for value in values), *captured)

        bodies = {name: of(name) for name in op.bodies}
        return list(CustomVjp([op.each(item) for item in operands], **bodies, **op.attributes))

    @staticmethod
    def infer(
        operands: list[TensorType], function: RegionType, forward: RegionType, backward: RegionType, saved: int
    ) -> tuple[TensorType, ...]:
        count = len(function.results)
        if forward.results[:count] != function.results:
            raise ShapeError(f"gives {listed(function.results)}, and its forward first {listed(forward.results)}")
        floats = tuple(type_ for type_ in operands if type_.dtype.has_gradient)
        if backward.results != floats:
            raise ShapeError(f"takes floats {listed(floats)}, and its backward gives {listed(backward.results)}")
        if saved not in (UNSAVED, len(forward.results) - count):
            raise ShapeError(f"saves {len(forward.results) - count} tensors, and not {saved}")
        return function.results if saved == UNSAVED else forward.results

    @staticmethod
    def reference(
        operands: list[np.ndarray],
        captured: list[np.ndarray],
        function: Callable[..., Any],
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        saved: int,
    ) -> tuple[np.ndarray, ...]:
        return tuple((function if saved == UNSAVED else forward)(*operands, *captured))

    @staticmethod
    def decompose(
        operands: list[Tensor], captured: list[Tensor], function: Any, forward: Any, backward: Any, saved: int
    ) -> tuple[Tensor, ...]:
        return (function if saved == UNSAVED else forward)(*operands, *captured)

    @staticmethod
    def saving(
        operands: list[Tensor], captured: list[Tensor], function: Any, forward: Any, backward: Any, saved: int
    ) -> Sequence[Tensor] | None:
        """The same by `forward`, which gives what `backward` reads as well."""
        if saved != UNSAVED:
            return None
        return CustomVjp(
            operands,
            function=lambda *values: function(*values, *captured),
            forward=lambda *values: forward(*values, *captured),
            backward=lambda *values: backward(*values, *captured),
            saved=forward.num_results - function.num_results,
        )

    @staticmethod
    def vjp(
        g: tuple[Tensor | None, ...],
        operands: list[Tensor],
        captured: list[Tensor],
        results: tuple[Tensor, ...],
        function: Any,
        forward: Any,
        backward: Any,
        saved: int,
    ) -> tuple[list[Tensor | None], list[None]]:
        count = len(results) - saved
        upstream = [or_zeros(g[place], results[place]) for place in floats_of(results[:count])]
        shares = backward(*results[count:], *upstream, *captured)
        return spread(list(shares), floats_of(operands), operands), [None] * len(captured)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in (f32, f64, bf16, i32):
            for shape in ((), (1,), (7,), (3, 5), (2, 3, 4), (0, 2)):
                backward = _RULE["backward"] if dtype.has_gradient else lambda residual: []
                yield Sample(([draw(rng, shape, dtype)],), {**_RULE, "backward": backward, "saved": UNSAVED})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        operands = [TensorType((3,), f32)]
        other = {**_RULE, "forward": lambda x: [x.astype(f64), x], "saved": UNSAVED}
        yield ErrorSample((operands,), other, "gives f32[3], and its forward first f64[3], f32[3]")
        none = {**_RULE, "backward": lambda residual, g: [], "saved": UNSAVED}
        yield ErrorSample((operands,), none, "takes floats f32[3], and its backward gives nothing")
        yield ErrorSample((operands,), {**_RULE, "saved": 3}, "saves 1 tensors, and not 3")


_RULE: dict[str, Any] = {
    "function": lambda x: [x * x],
    "forward": lambda x: [x * x, x],
    "backward": lambda residual, g: [g * (residual + residual)],
}

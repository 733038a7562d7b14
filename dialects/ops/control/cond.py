"""Ops that choose one of two bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from blu.dialects.batching import Batched
from blu.dialects.core.dtypes import TensorType, bool_, f32, f64, i32
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.op import Captured, ErrorSample, Op, Operand, Region, Sample
from blu.dialects.core.regions import RegionType, listed
from blu.dialects.ops.control.scan import floats_of, or_zeros, spread
from blu.dialects.tensor.tensor import Tensor
from blu.errors import DTypeError, ShapeError


class Cond(Op, name="cond"):
    """What `on_true` gives where the predicate is true, and else what `on_false` gives. Indices and divisors are looked
    at in the one that is chosen; both are computed."""

    takes_float8 = True
    predicate: Operand
    captured: Captured
    on_true: Region
    on_false: Region

    num_results = None
    result_slots = CAPTURED_SLOTS

    @staticmethod
    def region_arguments(predicate: TensorType) -> tuple[list[TensorType], list[TensorType]]:
        return [], []

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """Both bodies are done for all slices; each takes its results of one."""
        predicate, captured = op.operands
        bodies = {name: lambda body=body: body(*captured) for name, body in op.bodies.items()}
        if not predicate.is_batched:
            return list(Cond(predicate.tensor, **bodies))
        pairs = zip(*(op.bodies[name](*captured) for name in ("on_true", "on_false")), strict=True)
        chosen = [predicate.tensor.reshape((op.size, *(1,) * (one.ndim - 1))).where(one, two) for one, two in pairs]
        return chosen

    @staticmethod
    def infer(predicate: TensorType, on_true: RegionType, on_false: RegionType) -> tuple[TensorType, ...]:
        if predicate.dtype != bool_:
            raise DTypeError(f"chooses by a bool, not by {predicate}")
        if predicate.shape:
            raise ShapeError(f"chooses by one bool, not by {predicate}", advice="blu.where chooses for each element.")
        if on_true.results != on_false.results:
            raise ShapeError(f"gives {listed(on_true.results)} if true, and {listed(on_false.results)} if false")
        return on_true.results

    @staticmethod
    def reference(
        predicate: np.ndarray, captured: list[np.ndarray], on_true: Callable[..., Any], on_false: Callable[..., Any]
    ) -> tuple[np.ndarray, ...]:
        return tuple((on_true if predicate else on_false)(*captured))

    @staticmethod
    def saving(*operands: Any, **attributes: Any) -> None:
        """Its gradient reads what it has read."""

    @staticmethod
    def vjp(
        g: tuple[Tensor | None, ...],
        predicate: Tensor,
        captured: list[Tensor],
        results: tuple[Tensor, ...],
        on_true: Any,
        on_false: Any,
    ) -> tuple[None, list[Tensor | None]]:
        """The gradient of the body that is chosen."""
        floats = floats_of(captured)
        known = {place: share for place, share in enumerate(g) if share is not None}

        def back(body: Any) -> Callable[[], list[Tensor]]:
            def shares() -> list[Tensor]:
                found = body.gradients(captured, known)
                return [or_zeros(found[place], captured[place]) for place in floats]

            return shares

        found = list(Cond(predicate, on_true=back(on_true), on_false=back(on_false))) if floats else []
        return None, spread(found, floats, captured)

    @staticmethod
    def samples() -> Iterator[Sample]:
        def constants(scale: int) -> Callable[[], list[Tensor]]:
            return lambda: [_ones(dtype, shape) * scale for dtype in (f32, f64, i32) for shape in _SHAPES]

        for value in (True, False):
            yield Sample((np.array(value),), {"on_true": constants(2), "on_false": constants(3)})

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        same = {"on_true": lambda: [_ones(f32, (2,))], "on_false": lambda: [_ones(f32, (2,))]}
        yield ErrorSample((TensorType((), i32),), same, "chooses by a bool, not by i32[]")
        yield ErrorSample((TensorType((2,), bool_),), same, "chooses by one bool, not by bool[2]")
        other = {**same, "on_false": lambda: [_ones(f64, (2,))]}
        yield ErrorSample((TensorType((), bool_),), other, "gives f32[2] if true, and f64[2] if false")


_SHAPES = ((), (3,), (2, 0), (4, 5))


def _ones(dtype: Any, shape: tuple[int, ...]) -> Tensor:
    from blu.dialects.ops.creation import Constant

    return Constant(value=np.ones(shape, dtype.numpy))

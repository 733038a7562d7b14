"""Ops that are done once for each slice, and carry what they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from blu.dialects.batching import Batched, Slices
from blu.dialects.core.dtypes import DType, TensorType, bf16, computing_dtype, f32, f64, i32
from blu.dialects.core.fields import CAPTURED_SLOTS
from blu.dialects.core.op import Captured, ErrorSample, ManyOperands, Op, Region, Sample
from blu.dialects.core.regions import RegionType, listed
from blu.dialects.core.sample_values import draw
from blu.dialects.ops.creation import Constant
from blu.dialects.tensor.tensor import Tensor
from blu.errors import ShapeError


class Scan(Op, name="scan"):
    """A body done once for each slice of `xs` along their first dimension, `length` times, or from the last to the
    first. It takes what is carried and a slice of each, and gives what is carried on and a slice of each of the others
    that the op gives, stacked, after what is carried in the end.

    With `saved`, the last of those slices, as many, are what gradients read: what was carried into each step, and then
    what contractions in the body have given.
    """

    takes_float8 = True
    carry: ManyOperands
    xs: ManyOperands
    captured: Captured
    body: Region
    length: int
    reverse: bool
    saved: int

    deliberate: ClassVar[dict[str, str]] = {"lowering": "its body becomes a function of the host program"}
    num_results = None
    result_slots = CAPTURED_SLOTS

    @staticmethod
    def region_arguments(
        carry: list[TensorType], xs: list[TensorType], length: int, reverse: bool, saved: int
    ) -> tuple[list[TensorType]]:
        for type_ in xs:
            if not type_.shape or type_.shape[0] != length:
                raise ShapeError(f"takes {length} slices of each of xs, and one is {type_}")
        return ([*carry, *(TensorType(type_.shape[1:], type_.dtype) for type_ in xs)],)

    @staticmethod
    def batch(op: Batched) -> list[Tensor]:
        """One loop, whose steps are done for all slices."""
        carry, xs, captured = op.operands
        moved = [item.tensor.moveaxis(1, 0) if item.is_batched else item.tensor for item in xs]
        flags = [True] * len(carry) + [item.is_batched for item in xs]

        def step(*values: Tensor) -> list[Tensor]:
            return op.bodies["body"](*map(Slices, values, flags), *captured)

        found = list(Scan([op.each(item) for item in carry], moved, body=step, **op.attributes))
        return [*found[: len(carry)], *(item.moveaxis(0, 1) for item in found[len(carry) :])]

    @staticmethod
    def infer(
        carry: list[TensorType], xs: list[TensorType], body: RegionType, length: int, reverse: bool, saved: int
    ) -> tuple[TensorType, ...]:
        carried = body.results[: len(carry)]
        if list(carried) != list(carry):
            raise ShapeError(f"carries {listed(carry)}, and its body gives {listed(carried)}")
        if length < 0:
            raise ShapeError(f"is done {length} times")
        return (*carry, *(TensorType((length, *type_.shape), type_.dtype) for type_ in body.results[len(carry) :]))

    @staticmethod
    def reference(
        carry: list[np.ndarray],
        xs: list[np.ndarray],
        captured: list[np.ndarray],
        body: Callable[..., Any],
        length: int,
        reverse: bool,
        saved: int,
    ) -> tuple[np.ndarray, ...]:
        steps, rows = range(length)[:: -1 if reverse else 1], {}
        empty = body(*carry, *(np.zeros(item.shape[1:], item.dtype) for item in xs), *captured)[len(carry) :]
        for step in steps:
            given = body(*carry, *(item[step] for item in xs), *captured)
            carry, rows[step] = list(given[: len(carry)]), given[len(carry) :]
        ys = (np.zeros((length, *item.shape), item.dtype) for item in empty)
        return (*carry, *(_stacked(place, item, rows) for place, item in enumerate(ys)))

    @staticmethod
    def saving(
        carry: list[Tensor],
        xs: list[Tensor],
        captured: list[Tensor],
        body: Any,
        length: int,
        reverse: bool,
        saved: int,
    ) -> Sequence[Tensor] | None:
        """The same, which gives what is carried into each step as well, and what contractions give. None where it
        does, or where there is nothing of either."""
        if saved or not (carry or body.num_kept):
            return None

        def step(*values: Tensor) -> list[Tensor]:
            given, kept = body.with_kept(*values, *captured)
            return [*given, *values[: len(carry)], *kept]

        return Scan(carry, xs, body=step, length=length, reverse=reverse, saved=len(carry) + body.num_kept)

    @staticmethod
    def vjp(
        g: tuple[Tensor | None, ...],
        carry: list[Tensor],
        xs: list[Tensor],
        captured: list[Tensor],
        results: tuple[Tensor, ...],
        body: Any,
        length: int,
        reverse: bool,
        saved: int,
    ) -> tuple[list[Tensor | None], list[Tensor | None], list[Tensor | None]]:
        """A scan from the other end, whose steps take what was carried into those of this one, and what contractions
        gave there. It carries the gradients of what this one carries, and adds up those of what the body reads from
        above."""
        floats = floats_of(carry), floats_of(xs), floats_of(captured)
        ends = [or_zeros(g[place], carry[place]) for place in floats[0]]
        sums = [_zeros_of(captured[place], computing_dtype(captured[place].dtype)) for place in floats[2]]
        known = [place for place in range(len(carry), len(g)) if g[place] is not None]
        kept_slices = results[len(results) - saved :]
        before, contracted = kept_slices[: len(carry)], kept_slices[len(carry) :]

        def step(*values: Tensor) -> list[Tensor]:
            given = list(values)
            slopes, totals, upstream, inner, kept = (
                [given.pop(0) for _ in range(count)]
                for count in (len(ends), len(sums), len(known), len(carry) + len(xs), len(contracted))
            )
            by_result = dict(zip([*floats[0], *known], [*slopes, *upstream], strict=True))
            shares = body.gradients([*inner, *captured], by_result, kept)
            parts = shares[: len(carry)], shares[len(carry) : len(inner)], shares[len(inner) :]
            carried, rows, read = (
                [or_zeros(part[place], like[place]) for place in places]
                for part, like, places in zip(parts, (inner, inner[len(carry) :], captured), floats, strict=True)
            )
            added = [total + share.astype(total.dtype) for total, share in zip(totals, read, strict=True)]
            return [*carried, *added, *rows]

        slices = [*(g[place] for place in known), *before, *xs, *contracted]
        found = list(Scan([*ends, *sums], slices, body=step, length=length, reverse=not reverse, saved=0))
        carried, read, rows = ([found.pop(0) for _ in places] for places in (floats[0], floats[2], floats[1]))
        read = [share.astype(captured[place].dtype) for place, share in zip(floats[2], read, strict=True)]
        of_carry, of_rows = spread(carried, floats[0], carry), spread(rows, floats[1], xs)
        return of_carry, of_rows, spread(read, floats[2], captured)

    @staticmethod
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(0)
        for dtype in (f32, f64, bf16, i32):
            for shape in ((1, 1), (3, 5), (4, 16), (0, 2), (2, 0)):
                for body, carry in ((_running, 1), (_swapped, 2)):
                    carried = [draw(rng, shape[1:], dtype) for _ in range(carry)]
                    attributes = {"body": body, "length": shape[0], "reverse": carry == 2, "saved": 0}
                    yield Sample((carried, [draw(rng, shape, dtype)]), attributes)

    @staticmethod
    def error_samples() -> Iterator[ErrorSample]:
        carry, xs = [TensorType((3,), f32)], [TensorType((2, 3), f32)]
        settings = {"length": 2, "reverse": False, "saved": 0}
        wide = {"body": lambda carry, x: carry.astype(f64), **settings}
        yield ErrorSample((carry, xs), wide, "carries f32[3], and its body gives f64[3]")
        none = {"body": lambda carry, x: [], **settings}
        yield ErrorSample((carry, xs), none, "its body gives nothing")
        longer = {"body": _running, **settings, "length": 4}
        yield ErrorSample((carry, xs), longer, "takes 4 slices of each of xs, and one is f32[2, 3]")
        yield ErrorSample((carry, [TensorType((), f32)]), {"body": _running, **settings}, "takes 2 slices")


def _running(carry: Tensor, x: Tensor) -> list[Tensor]:
    """A step of samples: running sums, and what comes before them."""
    return [carry + x, carry, carry - x]


def _swapped(first: Tensor, second: Tensor, x: Tensor) -> list[Tensor]:
    """A step of samples: two that change places, one of them as it is."""
    return [second, first + x, x]


def _stacked(place: int, result: np.ndarray, rows: dict[int, Sequence[np.ndarray]]) -> np.ndarray:
    for step, row in rows.items():
        result[step] = row[place]
    return result


def floats_of(tensors: Sequence[Tensor]) -> list[int]:
    """The places of those that have gradients."""
    return [place for place, tensor in enumerate(tensors) if tensor.dtype.has_gradient]


def or_zeros(share: Tensor | None, like: Tensor) -> Tensor:
    """A share of a gradient; zeros where there is none."""
    return _zeros_of(like, like.dtype) if share is None else share


def _zeros_of(like: Tensor, dtype: DType) -> Tensor:
    scalar = Constant(value=np.zeros((), dtype.numpy))
    return scalar.broadcast_to(like.shape) if like.shape else scalar


def spread(found: list[Tensor], places: list[int], like: Sequence[Tensor]) -> list[Tensor | None]:
    """For each of the tensors what was found for its place, or None."""
    by_place = dict(zip(places, found, strict=True))
    return [by_place.get(place) for place in range(len(like))]

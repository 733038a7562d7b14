"""Functions of many slices at once: every op beside a loop over slices, axes, nestings, and gradients in and around."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.dialects.core.context import make_context
from blu.dialects.core.evaluation import evaluate
from blu.dialects.core.op import OPS, Effects, Op, Sample
from blu.errors import ArgumentError, BluError, ShapeError
from tests.support.programs.interpret import meaning_of
from tests.support.programs.op_programs import flat, regrouped
from tests.support.tolerances import assert_close

make_context()
SLICES = 3
LARGEST = 4000
MOST_SAMPLES = 6
# Ranks exchange what a program of one slice would; what has no operands has no slices.
BATCHED = [name for name, cls in OPS.items() if cls.effects is Effects.NONE and cls.operand_fields()]
NOT_BATCHED = [name for name, cls in OPS.items() if cls.effects is not Effects.NONE and cls.operand_fields()]
WARNS = ("floor_divide", "remainder")
X = np.linspace(-1, 2, 24).reshape(2, 3, 4)
W = np.linspace(-0.5, 0.5, 20).reshape(4, 5)


def slices_of(array: np.ndarray) -> list[np.ndarray]:
    """Other arrays that an op takes where it takes this one: the same numbers in other places."""
    if not array.ndim:
        return [array, array // 2 if array.dtype.kind in "iu" else array, array]
    axes = (-2, -1)[-array.ndim :]  # both, so that symmetric positive definite matrices stay such
    return [array, np.flip(array), np.roll(array, (1,) * len(axes), axis=axes)]


def masks_of(sample: Sample) -> Iterator[tuple[bool, ...]]:
    """Which operands there is one of for each slice: each alone, and all."""
    count = len(flat(sample.operands))
    yield from (tuple(place == other for other in range(count)) for place in range(count if count > 1 else 0))
    yield (True,) * count


@dataclass(frozen=True)
class BatchedSample:
    """A sample, and which of its operands there is one of for each slice. Slices lie along the first axis or, where
    all operands have some, along the last one."""

    cls: type[Op]
    sample: Sample
    mask: tuple[bool, ...]

    @property
    def axes(self) -> tuple[int | None, ...]:
        place = -1 if all(self.mask) else 0
        return tuple(place if is_batched else None for is_batched in self.mask)

    def arrays(self) -> list[np.ndarray]:
        """The operands of all slices."""
        pairs = zip(flat(self.sample.operands), self.axes, strict=True)
        return [item if axis is None else np.stack(slices_of(item), axis=axis) for item, axis in pairs]

    def apply(self, row: Sequence[Any]) -> list[Any]:
        """The op on all slices."""

        def one(*values: Any) -> Any:
            return self.cls(*regrouped(self.sample.operands, values), **self.sample.attributes)

        results = blu.vmap(one, in_axes=self.axes)(*row)
        return list(results) if isinstance(results, tuple) else [results]

    def expected(self) -> list[np.ndarray]:
        """The results of a loop over slices."""
        parts = list(zip(flat(self.sample.operands), self.mask, strict=True))
        rows = ([slices_of(item)[number] if batched else item for item, batched in parts] for number in range(SLICES))
        found = [
            evaluate(self.cls, tuple(regrouped(self.sample.operands, row)), self.sample.attributes) for row in rows
        ]
        return [np.stack(results) for results in zip(*found, strict=True)]

    def check(self, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
        """Hold results against those of a loop."""
        shapes = [array.shape for array in flat(self.sample.operands)]
        for place, (one, wanted) in enumerate(zip(found, expected, strict=True)):
            assert_close(self.cls.name, one, wanted, f"result {place} of {shapes} {self.sample.attributes} {self.mask}")


def cases_of(cls: type[Op]) -> list[BatchedSample]:
    small = [item for item in cls.samples() if sum(array.size for array in flat(item.operands)) < LARGEST]
    few = [item for item in small if flat(item.operands)]
    few = few[:: max(1, len(few) // MOST_SAMPLES)][: MOST_SAMPLES + 1]
    return [BatchedSample(cls, sample, mask) for sample in few for mask in masks_of(sample)]


@pytest.mark.parametrize("name", sorted(BATCHED))
def test_every_op_does_what_a_loop_over_slices_does(name: str) -> None:
    """By what programs mean, for all samples; compiled, for one: how well each op is compiled, other tests say."""
    cases = cases_of(OPS[name])
    few = cases[: len(list(masks_of(cases[0].sample)))]
    of_all = lambda rows: [case.apply(row) for case, row in zip(cases, rows, strict=True)]  # noqa: E731
    of_few = lambda rows: [case.apply(row) for case, row in zip(few, rows, strict=True)]  # noqa: E731
    with pytest.warns(RuntimeWarning, match="division by zero") if name in WARNS else nullcontext():
        meant = iter(meaning_of(of_all, [case.arrays() for case in cases]))
        compiled = blu.jit(of_few, name=f"vmap_{name}")([case.arrays() for case in few])
        expected = [case.expected() for case in cases]
    for case, wanted in zip(cases, expected, strict=True):
        case.check([next(meant) for _ in wanted], wanted)
    for case, found, wanted in zip(few, compiled, expected, strict=False):
        case.check([np.asarray(item) for item in found], wanted)
    assert next(meant, None) is None


@pytest.mark.parametrize("name", sorted(NOT_BATCHED))
def test_an_op_without_a_rule_is_named(name: str) -> None:
    cls = OPS[name]
    sample = next(iter(cls.samples()))

    def one(*values: Any) -> Any:
        return cls(*regrouped(sample.operands, values), **sample.attributes)

    rows = [np.stack([item, item]) for item in flat(sample.operands)]
    with pytest.raises(BluError, match=r"vmap: .*effects"):
        blu.jit(lambda *rows: blu.vmap(one)(*rows)).trace(*rows)


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
@pytest.mark.parametrize("jit", [True, False])
def test_axes_of_arguments_and_results(in_axis: int, out_axis: int, jit: bool) -> None:
    program = blu.vmap(lambda x: x * blu.cumsum(x, 0), in_axes=in_axis, out_axes=out_axis)
    wanted = torch.func.vmap(lambda x: x * torch.cumsum(x, 0), in_dims=in_axis, out_dims=out_axis)(torch.tensor(X))
    np.testing.assert_allclose((blu.jit(program) if jit else program)(X), wanted, rtol=1e-14)


def test_nested_axes() -> None:
    def function(parts: Any, scale: Any, w: Any) -> Any:
        return {"y": parts["x"] @ w * scale, "sum": blu.sum(w)}, parts["ids"]

    program = blu.vmap(function, in_axes=({"x": 1, "ids": None}, 0, None), out_axes=({"y": 1, "sum": None}, None))
    scale, ids = np.array([1.0, 2.0, 3.0]), np.arange(4)
    result, same = blu.jit(program)({"x": X, "ids": ids}, scale, W)
    np.testing.assert_allclose(result["y"], np.einsum("abc,cd->abd", X, W) * scale[None, :, None], rtol=1e-13)
    np.testing.assert_allclose(result["sum"], W.sum(), atol=1e-14)
    np.testing.assert_array_equal(same, ids)


def test_in_each_other() -> None:
    outer = blu.vmap(blu.vmap(lambda a, b: blu.sum(a * b), in_axes=(0, None)), in_axes=(None, 0))
    a, b = X[0], X[1]
    np.testing.assert_allclose(blu.jit(outer)(a, b), b @ a.T, rtol=1e-13)
    pairs = blu.vmap(blu.vmap(blu.matmul, in_axes=(0, None)), in_axes=(1, 2), out_axes=-1)
    right = np.linspace(0, 1, 40).reshape(4, 5, 2)[..., [0, 1, 1]]
    np.testing.assert_allclose(blu.jit(pairs)(X, right), np.einsum("abc,cdb->adb", X, right), rtol=1e-13, atol=1e-14)


def network(w: Any, x: Any) -> Any:
    return blu.sum(blu.softmax(blu.tanh(x @ w), axis=-1)[0] * 3 + blu.max(x))


def network_of_torch(w: Any, x: Any) -> Any:
    return (torch.softmax(torch.tanh(x @ w), -1)[0] * 3 + x.max()).sum()


def test_gradients_inside() -> None:
    """One for each example."""
    x = X.reshape(6, 4)
    found = blu.jit(blu.vmap(blu.grad(network, argnums=(0, 1)), in_axes=(None, 0)))(W, x)
    wanted = torch.func.vmap(torch.func.grad(network_of_torch, (0, 1)), in_dims=(None, 0))(
        torch.tensor(W), torch.tensor(x)
    )
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


def test_gradients_around_and_both() -> None:
    x = X.reshape(6, 4)

    def loss(w: Any, x: Any) -> Any:
        return blu.sum(blu.vmap(network, in_axes=(None, 0))(w, x) ** 2)

    def loss_of_torch(w: Any, x: Any) -> Any:
        return (torch.func.vmap(network_of_torch, in_dims=(None, 0))(w, x) ** 2).sum()

    wanted = torch.func.grad(loss_of_torch)(torch.tensor(W), torch.tensor(x))
    np.testing.assert_allclose(blu.jit(blu.grad(loss))(W, x), wanted, rtol=1e-11, atol=1e-13)
    twice = blu.vmap(blu.grad(lambda x: blu.sum(blu.vmap(lambda a: blu.sin(a) * a)(x))))
    np.testing.assert_allclose(blu.jit(twice)(x), np.cos(x) * x + np.sin(x), rtol=1e-13)


def test_directions_inside_and_around() -> None:
    x = X.reshape(6, 4)
    inside = blu.vmap(lambda x, t: blu.jvp(blu.sin, (x,), (t,))[1])
    around = lambda x, t: blu.jvp(blu.vmap(blu.sin), (x,), (t,))[1]  # noqa: E731
    for program in (inside, around):
        np.testing.assert_allclose(blu.jit(program)(x, x), np.cos(x) * x, rtol=1e-14)


def test_loops_and_choices() -> None:
    """Slices carry, walk along and choose on their own."""

    def steps(start: Any, xs: Any, w: Any) -> Any:
        last, rows = blu.scan(lambda c, x: (blu.tanh(c * w + x), c - x), start, xs)
        return blu.cond(last[0] > 0.5, lambda: last, lambda: last * 100), rows, blu.sum(rows)

    starts, xs = X[:, 0], X
    for in_axes in ((0, 0, None), (None, 0, None), (0, None, None), (None, None, 0)):
        w = X[:, 1] if in_axes[2] == 0 else X[0, 1]
        given = (starts if in_axes[0] == 0 else starts[0], xs if in_axes[1] == 0 else xs[0], w)
        found = blu.jit(blu.vmap(steps, in_axes=in_axes))(*given)
        for number in range(2):
            own = [item[number] if axis == 0 else item for item, axis in zip(given, in_axes, strict=True)]
            for one, other in zip(found, blu.jit(steps)(*own), strict=True):
                np.testing.assert_allclose(np.asarray(one)[number], other, rtol=1e-13)


def test_rules_of_users() -> None:
    @blu.custom_vjp
    def scaled(x: Any, w: Any) -> Any:
        return x * blu.sum(w)

    scaled.defvjp(lambda x, w: (scaled(x, w), (x, w)), lambda kept, g: (g * 10, kept[1] * 0 + blu.sum(g * kept[0])))
    x = X.reshape(6, 4)
    np.testing.assert_allclose(blu.vmap(scaled, in_axes=(0, None))(x, W), x * W.sum(), atol=1e-14)
    inside = blu.vmap(blu.grad(lambda x, w: blu.sum(scaled(x, w) * 2), argnums=(0, 1)), in_axes=(0, None))(x, W)
    np.testing.assert_allclose(inside[0], np.full(x.shape, 20.0), rtol=1e-14)
    np.testing.assert_allclose(inside[1], 2 * x.sum(1)[:, None, None] * np.ones_like(W), rtol=1e-13)
    around = blu.grad(lambda w: blu.sum(blu.vmap(scaled, in_axes=(0, None))(x, w)))(W)
    np.testing.assert_allclose(around, np.full(W.shape, x.sum()), rtol=1e-13)


@pytest.mark.parametrize("size", [0, 1, 33])
def test_any_number_of_slices(size: int) -> None:
    x = np.linspace(0, 1, size * 3).reshape(size, 3)
    found = blu.jit(blu.vmap(lambda row: blu.sum(row * row)))(x)
    np.testing.assert_allclose(found, (x * x).sum(1), rtol=1e-14)
    ones = blu.jit(lambda: blu.vmap(lambda: blu.ones((2,)), axis_size=size)())()
    assert ones.shape == (size, 2)


@pytest.mark.parametrize(
    ("program", "kind", "says"),
    [
        (
            lambda: blu.vmap(lambda x, y: x + y)(X, W),
            ShapeError,
            "number of slices is 2 by argument 0, 4 by argument 1",
        ),
        (lambda: blu.vmap(lambda x: x, in_axes=(0, 0))(X), ArgumentError, "in_axes has 2 entries for 1 arguments"),
        (lambda: blu.vmap(lambda x: x, in_axes=3)(X), ArgumentError, "has no slices along axis 3"),
        (lambda: blu.vmap(lambda x: x)(1.0), ArgumentError, "has no slices along axis 0"),
        (lambda: blu.vmap(lambda x: x, in_axes=None)(X), ArgumentError, "no argument says how many"),
        (lambda: blu.vmap(lambda x: x, in_axes=({"b": 0},))({"a": X}), ArgumentError, "in_axes has {'b': 0} where"),
        (lambda: blu.vmap(lambda x: x, out_axes=(0, 0))(X), ArgumentError, "out_axes has (0, 0) where there is no"),
        (lambda: blu.vmap(lambda x: blu.sum(x), out_axes=1)(X), ArgumentError, "out_axes is 1 for the result"),
        (lambda: blu.vmap(lambda x: x, out_axes=None)(X), BluError, "out_axes None, and is another for each slice"),
    ],
)
def test_what_does_not_fit_is_said(program: Any, kind: type[BluError], says: str) -> None:
    with pytest.raises(kind) as caught:
        program()
    assert says in caught.value.message

"""Draws a random program: each call is tried on tensors as it is drawn, so that shapes and dtypes are Blu's own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

import blu
from blu.errors import BluError

from .programs import Call, Input, Program

EXTENTS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 257, 1025, 5000)
MOST_ELEMENTS = 12_000
DTYPES = ("f32", "f64", "bf16", "f16", "i32", "i64", "i8", "i16", "u8", "bool")
FLOATS = ("f32", "f64", "bf16", "f16")


class Unsuitable(Exception):  # noqa: N818 - no error: another call is drawn
    """What is there does not fit the call that was drawn."""


@dataclass
class Draft:
    """A program being drawn: its inputs, calls, and all values so far, as tensors without numbers."""

    rng: np.random.Generator
    dtypes: Sequence[str]
    gradient: bool = False
    inputs: list[Input] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    results: list[list[blu.Tensor]] = field(default_factory=list)
    tensors: list[blu.Tensor] = field(default_factory=list)

    def one_of(self, items: Sequence[Any]) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def shape(self, most_dims: int = 6) -> tuple[int, ...]:
        """Any shape, mostly of few dimensions, of which one may be large."""
        dims = int(self.rng.choice(most_dims + 1, p=_shares(most_dims)))
        while True:
            found = tuple(int(self.one_of(EXTENTS[: 11 if self.chance(0.7) else None])) for _ in range(dims))
            if prod(found) <= MOST_ELEMENTS:
                return found

    def add(self, shape: Sequence[int], dtype: str | None = None, kind: str | None = None) -> int:
        """A new input, by number: negative while values are being added, see `number`."""
        odd = ("special" if self.chance(0.3) else "bits", "ties")  # nothing is smooth there
        if prod(shape) > MOST_ELEMENTS:  # others have a dimension of no elements where this one has 1
            raise Unsuitable
        kind = kind or self.one_of(("normal", "normal", "positive", *(() if self.gradient else odd)))
        layout = self.one_of(("rows", "rows", "columns", "spread", "backward"))
        dtype = dtype or self.one_of(self.dtypes)
        self.inputs.append(Input(tuple(shape), dtype, kind, layout, int(self.rng.integers(1 << 31))))
        self.tensors.append(blu.zeros(tuple(shape), dtype))
        return -len(self.inputs)

    def tensor(self, number: int) -> blu.Tensor:
        """The tensor of a value: inputs are -1, -2 and so on, results of calls count from 0."""
        if number < 0:
            return self.tensors[-1 - number]
        return [tensor for group in self.results for tensor in group][number]

    def pick(self, suits: Callable[[blu.Tensor], bool] = lambda _: True, dtype: str | None = None) -> int:
        """A value that suits, most likely a late one; a new input where there is none, or by chance."""
        flat = [tensor for group in self.results for tensor in group]
        if not self.chance(0.15):
            fitting = [number for number, tensor in enumerate(flat) if self._fits(tensor, suits, dtype)]
            if fitting:
                return fitting[-1] if self.chance(0.6) else self.one_of(fitting)
        if not self.chance(0.3):
            fitting = [-1 - number for number, item in enumerate(self.tensors) if self._fits(item, suits, dtype)]
            if fitting:
                return self.one_of(fitting)
        for _ in range(20):
            shape, kind = self.shape(), dtype or self.one_of(self.dtypes)
            if suits(blu.zeros(shape, kind)):
                return self.add(shape, kind)
        raise Unsuitable

    def _fits(self, tensor: blu.Tensor, suits: Callable[[blu.Tensor], bool], dtype: str | None) -> bool:
        return (dtype is None or tensor.dtype.name == dtype) and suits(tensor)

    def call(self, name: str, *operands: Any, **options: Any) -> None:
        """Add a call, if Blu takes it and its results are of a size to go on with."""
        call = Call(name, operands, options)
        try:
            found = call.apply(_ByNumber(self))
        except BluError as error:
            raise Unsuitable(str(error)) from None
        if any(prod(tensor.shape) > MOST_ELEMENTS for tensor in found):
            raise Unsuitable
        self.calls.append(call)
        self.counts.append(len(found))
        self.results.append(found)

    def finished(self, results: Sequence[int], gradient: bool) -> Program:
        """The program, its values renumbered: inputs first."""
        calls = tuple(Call(call.name, tuple(map(self._number, call.operands)), call.options) for call in self.calls)
        numbers = tuple(self._number(number) for number in results)
        return Program(tuple(self.inputs), calls, tuple(self.counts), numbers, gradient)

    def _number(self, item: Any) -> Any:
        if isinstance(item, list):
            return [self._number(entry) for entry in item]
        if not isinstance(item, int):
            return item
        return -1 - item if item < 0 else len(self.inputs) + item


class _ByNumber:
    """The values of a draft as a call asks for them."""

    def __init__(self, draft: Draft):
        self.draft = draft

    def __getitem__(self, number: int) -> blu.Tensor:
        return self.draft.tensor(number)


def _shares(most: int) -> np.ndarray:
    shares = np.array([1.0, 4, 6, 4, 2, 1, 1])[: most + 1]
    return shares / shares.sum()


def generate(seed: int, gradient: bool = False, calls: int = 6) -> Program:
    """The program of a seed: the same every time, as long as the tables of calls are what they are."""
    drawn: list[Program] = []

    def draw() -> blu.Tensor:
        drawn.append(_drawn(np.random.default_rng(seed), gradient, calls))
        return blu.zeros(())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of means of nothing
        blu.jit(draw).trace()
    return drawn[0]


def _drawn(rng: np.random.Generator, gradient: bool, calls: int) -> Program:
    from .calls import DIFFERENTIABLE, MAKERS

    dtypes = (
        [str(rng.choice(FLOATS, p=[0.3, 0.4, 0.15, 0.15]))]
        if gradient
        else [str(name) for name in rng.permutation(DTYPES)[:3]]
    )
    draft = Draft(rng, dtypes, gradient)
    makers = DIFFERENTIABLE if gradient else MAKERS
    wanted, tries = int(rng.integers(1, calls + 1)), 0
    while len(draft.calls) < wanted and tries < 200:
        tries += 1
        try:
            draft.one_of(makers)(draft)
        except Unsuitable:
            continue
    return draft.finished(_results(draft, gradient), gradient)


def _results(draft: Draft, gradient: bool) -> list[int]:
    """What nothing else takes, and now and then something in between."""
    used = {number for call in draft.calls for number in call.used()}
    flat = [tensor for group in draft.results for tensor in group]
    found = [number for number in range(len(flat)) if number not in used or draft.chance(0.1)]
    if gradient:
        return [number for number in found if flat[number].dtype.is_float]
    return found

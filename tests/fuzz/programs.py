"""A random program as data, inputs and calls of public functions on them: to be stored, read, traced and cut down."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

import blu
from blu.dialects.core.dtypes import as_dtype

Value = Any
"""A tensor while a program is traced."""


@dataclass(frozen=True)
class Input:
    """An array to draw: numbers of one kind, laid out in memory in one way. The seed makes it the same every time.

    `kind`: "normal", "positive", "ties" (few different numbers), "special" (with NaN, infinities, both zeros and the
    largest and smallest numbers), "bits" (all integers of the dtype), or "index N" (integers from -N to N - 1).
    `layout`: "rows", "columns" (as Fortran has them), "spread" (every other element), "backward".
    """

    shape: tuple[int, ...]
    dtype: str
    kind: str = "normal"
    layout: str = "rows"
    seed: int = 0

    def array(self) -> np.ndarray:
        numbers = _draw(self.kind, self.shape, self.dtype, np.random.default_rng(self.seed))
        return _laid_out(np.asarray(numbers, as_dtype(self.dtype).numpy), self.layout)


def _draw(kind: str, shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    if kind.startswith("index"):
        size = int(kind.split()[1])
        return rng.integers(-size, size, shape)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if not as_dtype(dtype).is_float:
        info = np.iinfo(as_dtype(dtype).numpy)
        if kind == "bits":
            return rng.integers(info.min, info.max, shape, dtype=info.dtype, endpoint=True)
        low, high = {"positive": (1, 9), "ties": (0, 3)}.get(kind, (max(info.min, -9), 9))
        return rng.integers(low, high, shape)
    if kind == "special":
        return _special(dtype, shape, rng)
    if kind == "ties":
        return rng.integers(-2, 3, shape) * 0.5
    return rng.uniform(0.25, 2.0, shape) if kind == "positive" else rng.standard_normal(shape)


def _special(dtype: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    info = ml_dtypes.finfo(as_dtype(dtype).numpy)
    ends = [float(item) for item in (info.max, info.tiny, info.smallest_subnormal)]
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, *ends, *(-item for item in ends)])
    return np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), rng.standard_normal(shape))


def _laid_out(array: np.ndarray, layout: str) -> np.ndarray:
    if not array.ndim or layout == "rows":
        return array
    if layout == "columns":
        return np.asfortranarray(array)
    if layout == "backward":
        return np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
    wide[..., ::2] = array
    return wide[..., ::2]


@dataclass(frozen=True)
class Call:
    """A public function applied to values by number: inputs first, then the results of calls in order.

    In `operands` an integer is a value, a list of integers several, None an absent one, {"float": 0.5} a Python number;
    everything else of a call is in `options`. `name` is a function of `blu`, or "index" for `x[...]` with the items of
    options["items"].
    """

    name: str
    operands: tuple[Any, ...]
    options: dict[str, Any]

    def apply(self, values: Sequence[Value]) -> list[Value]:
        """The results, one or several."""
        operands = [_picked(values, item) for item in self.operands]
        if self.name == "index":
            return [operands[0][tuple(_item(item, operands[1:]) for item in self.options["items"])]]
        found = getattr(blu, self.name)(*operands, **_plain(self.options))
        return list(found) if isinstance(found, tuple | list) else [found]

    def used(self) -> list[int]:
        """The numbers of all values it takes."""
        groups = [item if isinstance(item, list) else [item] for item in self.operands]
        return [number for group in groups for number in group if isinstance(number, int)]


def _picked(values: Sequence[Value], item: Any) -> Any:
    if isinstance(item, list):
        return [values[number] for number in item]
    if isinstance(item, dict):  # {"float": 0.5}, {"ints": [2, 3]} or {"text": "ij->ji"}
        [value] = item.values()
        return _fixed(value)
    return None if item is None else values[item]


def _item(item: Any, arrays: Sequence[Value]) -> Any:
    """One item of an index: a number, {"slice": [start, stop, step]}, "...", None or {"array": which operand}."""
    if isinstance(item, dict):
        return slice(*item["slice"]) if "slice" in item else arrays[item["array"]]
    return Ellipsis if item == "..." else item


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {name: _fixed(value) for name, value in options.items()}


def _fixed(value: Any) -> Any:
    return tuple(map(_fixed, value)) if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Program:
    """Inputs and calls; `results` are the numbers of the values it returns.

    Values are numbered: the inputs, then the results of each call, of which it has `counts[i]`. A program with
    `gradient` returns the gradients of a weighted sum of its results by its float inputs.
    """

    inputs: tuple[Input, ...]
    calls: tuple[Call, ...]
    counts: tuple[int, ...]
    results: tuple[int, ...]
    gradient: bool = False

    def values(self, inputs: Sequence[Value]) -> list[Value]:
        """All values by number."""
        values = list(inputs)
        for call in self.calls:
            values += call.apply(values)
        return values

    def apply(self, inputs: Sequence[Value]) -> list[Value]:
        """What the program returns."""
        if self.gradient:
            return self.gradients(inputs)
        values = self.values(inputs)
        return [values[number] for number in self.results]

    def total(self, inputs: Sequence[Value]) -> Value:
        """A weighted sum of all results, weights drawn anew for each."""
        values, total = self.values(inputs), None
        for number in self.results:
            weights = np.random.default_rng(number).uniform(0.5, 1.5, values[number].shape)
            part = blu.sum(values[number] * blu.astype(weights, values[number].dtype))
            total = part if total is None else total + blu.astype(part, total.dtype)
        return total

    def gradients(self, inputs: Sequence[Value]) -> list[Value]:
        """The gradients of `total` by all float inputs."""
        floats = self.floats()

        def by_floats(chosen: list[Value]) -> Value:
            filled = list(inputs)
            for place, value in zip(floats, chosen, strict=True):
                filled[place] = value
            return self.total(filled)

        return blu.grad(by_floats)([inputs[place] for place in floats])

    def floats(self) -> list[int]:
        return [place for place, item in enumerate(self.inputs) if as_dtype(item.dtype).is_float]

    def text(self) -> str:
        """The program as a line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of_text(cls, text: str) -> Program:
        content = json.loads(text)
        inputs = tuple(Input(**{**item, "shape": tuple(item["shape"])}) for item in content["inputs"])
        calls = tuple(Call(item["name"], tuple(item["operands"]), item["options"]) for item in content["calls"])
        return cls(inputs, calls, tuple(content["counts"]), tuple(content["results"]), content["gradient"])

    def first_of(self, call: int) -> int:
        """The number of a call's first result."""
        return len(self.inputs) + sum(self.counts[:call])

    def with_results(self, results: Sequence[int]) -> Program:
        return replace(self, results=tuple(results))

    def describe(self) -> str:
        """The program as Python, for people."""
        lines = [f"v{number} = {item}" for number, item in enumerate(self.inputs)]
        for place, call in enumerate(self.calls):
            names = ", ".join(f"v{self.first_of(place) + index}" for index in range(self.counts[place]))
            lines.append(f"{names} = {call.name}({', '.join(map(_named, call.operands))}, {call.options})")
        kind = "gradients of " if self.gradient else ""
        return "\n".join([*lines, f"return {kind}{', '.join(f'v{number}' for number in self.results)}"])


def _named(item: Any) -> str:
    if isinstance(item, list):
        return f"[{', '.join(map(_named, item))}]"
    return f"v{item}" if isinstance(item, int) else str(item)

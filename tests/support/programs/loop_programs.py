"""Loops and choices in each other: those of `blu.while_loop` that tests compile for all targets, and drawn ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import blu

X = np.arange(5, dtype=np.float32)
W = np.full((5, 5), 0.5, np.float32)


def grown(x: Any) -> Any:
    return blu.while_loop(lambda v: blu.max(v) < 100, lambda v: v * 3 + 1, x)


def multiplied(x: Any) -> Any:
    """What a step makes of a product lies elsewhere than what it reads, and is copied back."""
    return blu.while_loop(lambda v: v["n"] < 5, lambda v: {"x": v["x"] @ W, "n": v["n"] + 1}, {"x": x, "n": 0})


def swapped(x: Any) -> Any:
    return blu.while_loop(lambda v: blu.sum(v[0]) < 99, lambda v: (v[1], v[0] + v[1]), (x, x + 1))


def looked_up(x: Any) -> Any:
    return blu.while_loop(lambda v: v[0] < 4, lambda v: (v[0] + 1, v[1] + x[v[0]]), (0, 0.0))


def never(x: Any) -> Any:
    return blu.while_loop(lambda v: blu.sum(v) < 0, lambda v: v + 1, x)


def in_a_scan(x: Any) -> Any:
    def step(carry: Any, end: Any) -> Any:
        return blu.while_loop(lambda v: v < end, lambda v: v + 1.5, carry), carry

    return blu.scan(step, x[0], x[::-1])


def in_another(x: Any) -> Any:
    def tens(v: Any) -> Any:
        return blu.while_loop(lambda u: u % 10 != 0, lambda u: u + 1, v + 1)

    return blu.while_loop(lambda v: v < 47, tens, x[1].astype("i64"))


def with_a_scan(x: Any) -> Any:
    return blu.while_loop(lambda v: blu.sum(v) < 500, lambda v: blu.scan(lambda c, t: (c + t, None), v, x)[0], x)


WHILE_LOOPS = [grown, multiplied, swapped, looked_up, never, in_a_scan, in_another, with_a_scan]

Step = Callable[[Any], Any]
# What is around a step, of what it is given and a number that is known when the program runs.
AROUND: dict[str, Callable[[Step, Any, Any], Any]] = {
    "scan": lambda f, v, n: blu.scan(lambda c, t: (f(c + t), None), v, blu.linspace(0, 1, 3, dtype=v.dtype))[0],
    "stacked": lambda f, v, n: blu.sum(blu.scan(lambda c, _: ((r := f(c)), r), v, length=2)[1], axis=0),
    "fori": lambda f, v, n: blu.fori_loop(0, 3, lambda i, c: f(c) + i * c, v),
    "cond": lambda f, v, n: blu.cond(n % 2 == 0, f, lambda c: blu.sin(c), v),
    "switch": lambda f, v, n: blu.switch(n % 4, [lambda c: -c, f, lambda c: c * 0.5, lambda c: f(f(c))], v),
    "prefixes": lambda f, v, n: f(blu.associative_scan(lambda a, b: a * b + a + b, v * 0.1, axis=0)),
    "while": lambda f, v, n: blu.while_loop(lambda c: c[0] > 0, lambda c: (c[0] - 1, f(c[1])), (n, v))[1],
    # As often as 3n + 1 has steps to 1.
    "odd while": lambda f, v, n: blu.while_loop(
        lambda c: c[0] > 1, lambda c: (blu.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), f(c[1])), (n, v)
    )[1],
}
INNER: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda v, w: blu.tanh(v @ w),
    "elements": lambda v, w: blu.tanh(v + w[0]),
    "rows": lambda v, w: v / blu.sqrt(1 + blu.sum(v * v, axis=1, keepdims=True)) + w[0],
    "columns": lambda v, w: v - blu.mean(v, axis=0) * w[:, 0],
    "sorted": lambda v, w: blu.sort(v, axis=1) * 0.9,
}


@dataclass(frozen=True)
class DrawnLoops:
    """Two or three of `AROUND` in each other with one of `INNER` within, of a matrix of these sizes."""

    around: tuple[str, ...]
    inner: str
    rows: int
    columns: int
    dtype: str
    number: int
    gradient: bool
    seed: int

    @classmethod
    def of(cls, seed: int) -> DrawnLoops:
        """The program of a number."""
        rng = np.random.default_rng(seed)
        around = tuple(str(name) for name in rng.choice(list(AROUND), rng.integers(2, 4)))
        return cls(
            around=around,
            inner=str(rng.choice(list(INNER))),
            rows=int(rng.choice([1, 2, 7, 31, 32, 33, 129])),
            columns=int(rng.choice([1, 3, 16, 33, 64, 100, 257])),
            dtype=str(rng.choice(["f32", "f64"])),
            number=int(rng.integers(0, 6)),
            gradient=not any("while" in name for name in around) and bool(rng.integers(0, 2)),
            seed=seed,
        )

    @property
    def name(self) -> str:
        return f"{' of '.join(self.around)} of {self.inner}, {self.rows}x{self.columns} {self.dtype} ({self.seed})"

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The matrix, weights, and the number."""
        rng = np.random.default_rng(self.seed)
        shapes = (self.rows, self.columns), (self.columns, self.columns)
        dtype = {"f32": np.float32, "f64": np.float64}[self.dtype]
        x, w = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
        return x, (w / self.columns**0.5).astype(dtype), np.array(self.number, np.int32)

    def apply(self, x: Any, w: Any, number: Any) -> Any:
        """What the loops come to, or one number of that and its gradients."""
        if not self.gradient:
            return self._nested(self.around, x, w, number)
        return blu.value_and_grad(self._total, argnums=(0, 1))(x, w, number)

    def _total(self, x: Any, w: Any, number: Any) -> Any:
        return blu.sum(blu.sin(self._nested(self.around, x, w, number)))

    def _nested(self, around: tuple[str, ...], x: Any, w: Any, number: Any) -> Any:
        if not around:
            return INNER[self.inner](x, w)
        return AROUND[around[0]](lambda v: self._nested(around[1:], v, w, number), x, number)

"""Random loops: recurrent steps that add up products and slices, alone or in another loop, and their gradients.

    python -m tests.fuzz.loops 1000 50        # 50 programs from number 1000 on; exits with 1 where one is wrong
    python -m tests.fuzz.loops 1000 50 cuda   # on this machine's GPU

Programs are computed in f64, and compared with what their ops mean, one step after the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import blu
from tests.support.programs.interpret import interpret

Part = Callable[[Any, Any, Any], Any]
# What a step adds to a sum, of its slice, and the states before and after it.
SHARES: dict[str, Part] = {
    "a product of rows": lambda x, h, after: x.T @ after,
    "turned around": lambda x, h, after: (x.T @ after).T,
    "of another shape": lambda x, h, after: (x.T @ after).reshape(-1),
    "scaled": lambda x, h, after: (x.T @ after) * 0.5,
    "of what is carried": lambda x, h, after: h.T @ after,
    "with itself": lambda x, h, after: after.T @ after,
    "of a slice that is computed": lambda x, h, after: (x * 2.0).T @ after,
    "two products": lambda x, h, after: x.T @ after + (x + 1.0).T @ after,
    "a column": lambda x, h, after: after.T @ blu.sum(x, axis=1, keepdims=True),
    "sums down": lambda x, h, after: blu.sum(after, axis=0),
    "sums across": lambda x, h, after: blu.sum(x, axis=1),
    "sums that stay matrices": lambda x, h, after: blu.sum(after, axis=0, keepdims=True),
    "one number": lambda x, h, after: blu.sum(after * after),
}
# What it gives, of its slice, what it has added up, and the states after it.
GIVES: dict[str, Part] = {
    "states": lambda x, sums, after: after,
    "slices": lambda x, sums, after: x,
    "numbers": lambda x, sums, after: after[0, 0],
    "both": lambda x, sums, after: (after, x * 2.0),
    "products": lambda x, sums, after: x.T @ after,
    "sums": lambda x, sums, after: sums[0],
}


@dataclass(frozen=True)
class LoopProgram:
    """Sizes of the slices and of the states, how often the loops are done, and what a step adds up and gives."""

    steps: int
    sizes: tuple[int, int, int]
    shares: tuple[str, ...]
    gives: str
    is_recurrent: bool
    reverse: bool
    outer: int
    gradient: bool
    seed: int

    @classmethod
    def of(cls, seed: int) -> LoopProgram:
        """The program of a number."""
        rng = np.random.default_rng(seed)
        batch, width, states = (int(rng.choice(choices)) for choices in ([1, 2, 3], [1, 5, 17], [1, 8, 40]))
        is_recurrent, reverse, gradient = (bool(flag) for flag in rng.integers(0, 2, 3))
        return cls(
            steps=int(rng.choice([0, 1, 2, 3, 5])),
            sizes=(batch, width, states),
            shares=tuple(str(name) for name in rng.choice(list(SHARES), rng.integers(2, 6))),
            gives=str(rng.choice(list(GIVES))),
            is_recurrent=is_recurrent,
            reverse=reverse,
            outer=int(rng.choice([0, 0, 0, 2])),
            gradient=gradient,
            seed=seed,
        )

    def arrays(self) -> list[np.ndarray]:
        """Slices, two weights and the first state."""
        (batch, width, states), rng = self.sizes, np.random.default_rng(self.seed)
        shapes = ((self.steps, batch, width), (width, states), (states, states), (batch, states))
        return [0.3 * rng.standard_normal(shape) for shape in shapes]

    def results(self, xs: Any, w: Any, u: Any, h: Any) -> list[Any]:
        """What the loop comes to, or that in the other loop does."""
        if not self.outer:
            return self._loop(xs, w, u, h)

        def step(carry: Any, _: None) -> Any:
            total, before = carry
            after, *rest = self._loop(xs, w, u, before)
            return (total + after.T @ after, blu.tanh(after)), self._total(rest)

        (total, last), numbers = blu.scan(step, (blu.zeros(u.shape, u.dtype), h), length=self.outer)
        return [total, last, numbers]

    def _loop(self, xs: Any, w: Any, u: Any, h: Any) -> list[Any]:
        shares = [SHARES[name] for name in self.shares]

        def step(carry: Any, x: Any) -> Any:
            before, sums = carry
            after = blu.tanh(x @ w + before @ u if self.is_recurrent else x @ w)
            sums = [total + share(x, before, after) for total, share in zip(sums, shares, strict=True)]
            return (after, sums), GIVES[self.gives](x, sums, after)

        first = blu.zeros(xs.shape[1:], xs.dtype)
        starts = [blu.ones(share(first, h, h).shape, h.dtype) for share in shares]
        (last, sums), given = blu.scan(step, (h, starts), xs, reverse=self.reverse)
        return [last, *sums, *(given if isinstance(given, tuple) else (given,))]

    def _total(self, results: list[Any]) -> Any:
        return sum(blu.sum(blu.sin(result)) for result in results)

    def apply(self, *arrays: Any) -> Any:
        """The results, or one number of them and its gradients."""
        if not self.gradient:
            return self.results(*arrays)
        return blu.value_and_grad(lambda *given: self._total(self.results(*given)), argnums=(0, 1, 2, 3))(*arrays)

    def wrong(self, target: str = "cpu") -> str:
        """A sentence that says which result is wrong on a target; "" if none is."""
        arrays = self.arrays()
        traced = blu.jit(self.apply).trace(*arrays)
        given = [*arrays, *traced.traced.captured]
        module = traced.lower("cpu", stop="blu-inline").module if self.gradient else traced.traced.module
        found = traced.lower(target).compile().program.run(given)
        for number, (result, expected) in enumerate(zip(found, interpret(module, given), strict=True)):
            apart = np.abs(np.asarray(result) - expected).max(initial=0)
            if not apart <= 1e-10 * (1 + np.abs(expected).max(initial=0)):
                return f"result {number} is off by {apart:.3g} in {self}"
        return ""


def main(first: str, count: str, target: str = "cpu") -> int:
    """Compare so many programs; 1 if any is wrong."""
    programs = map(LoopProgram.of, range(int(first), int(first) + int(count)))
    sentences = [sentence for program in programs if (sentence := program.wrong(target))]
    print("\n".join([*sentences, f"{count} programs from number {first} on: {len(sentences)} wrong"]))
    return int(bool(sentences))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

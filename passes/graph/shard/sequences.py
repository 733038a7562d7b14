"""Which queries and keys look at each other when ranks have parts of a sequence: one object for each step.

In step j a rank has the keys of the rank j before it. Where each rank has one part of the sequence, in order, a causal
mask hides all of these from the first j ranks, and the last rank has work in every step. Where a rank has two parts,
one from the front and the mirrored one from the back (`Split.mirrored`), every rank has the same work in each step:

| keys are of an earlier rank | front queries see front keys | back queries see front keys |
|---|---|---|
| keys are of a later rank    | back queries see back keys   | back queries see front keys |

which is two blocks without a mask (Brandon et al., "Striped attention"; zigzag ring attention).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blu.dialects.core.dtypes import i32
from blu.dialects.tensor.arithmetic import where
from blu.dialects.tensor.arrangement import broadcast_to, concatenate, stack
from blu.dialects.tensor.promotion import as_tensor
from blu.dialects.tensor.tensor import Tensor

Logged = tuple[Tensor, Tensor]
"""A result [.., T, Dv], and logarithms of sums of weights [.., T, 1]."""


@dataclass(frozen=True)
class Whole:
    """A step in which all queries of a rank are at all keys that it has."""

    causal: bool = False
    offset: Tensor | None = None

    def queries(self, rows: Tensor) -> Tensor:
        """The rows that take part, of what has rows of queries."""
        return rows

    def keys(self, rows: Tensor) -> Tensor:
        """The rows that take part, of what has rows of keys."""
        return rows

    def results(self, result: Tensor, logarithms: Tensor) -> list[Logged]:
        """What a piece has found, for all queries."""
        return [(result, logarithms)]

    def query_gradient(self, rows: Tensor) -> Tensor:
        """The gradient of all queries, from that of those that took part."""
        return rows

    def key_gradient(self, rows: Tensor) -> Tensor:
        """The gradient of all keys."""
        return rows


@dataclass(frozen=True)
class Halves(Whole):
    """A step of ranks that have two parts of the sequence: two blocks of a quarter of the scores, along dimension 0."""

    is_earlier: Tensor = None  # type: ignore[assignment]
    """Whether the keys are of an earlier rank."""

    def queries(self, rows: Tensor) -> Tensor:
        front, back = _halves(rows)
        return stack([back, where(self.is_earlier, front, back)])

    def keys(self, rows: Tensor) -> Tensor:
        front, back = _halves(rows)
        return stack([front, where(self.is_earlier, front, back)])

    def results(self, result: Tensor, logarithms: Tensor) -> list[Logged]:
        hidden = as_tensor(-np.inf, logarithms.dtype)
        first, second = logarithms[0], logarithms[1]
        nothing = broadcast_to(hidden, first.shape)
        of_front, of_back = where(self.is_earlier, second, hidden), where(self.is_earlier, hidden, second)
        return [
            (_joined(result[1], result[0]), _joined(of_front, first)),
            (_joined(result[1], result[1]), _joined(nothing, of_back)),
        ]

    def query_gradient(self, rows: Tensor) -> Tensor:
        zero = as_tensor(0, rows.dtype)
        of_front, of_back = where(self.is_earlier, rows[1], zero), where(self.is_earlier, zero, rows[1])
        return _joined(of_front, rows[0] + of_back)

    def key_gradient(self, rows: Tensor) -> Tensor:
        zero = as_tensor(0, rows.dtype)
        of_front, of_back = where(self.is_earlier, rows[1], zero), where(self.is_earlier, zero, rows[1])
        return _joined(rows[0] + of_front, of_back)


def step_of(number: int, index: Tensor, rows: int, *, causal: bool, is_mirrored: bool) -> Whole:
    """Step `number` of the rank `index`, whose part of the sequence has `rows` positions."""
    if not causal:
        return Whole()
    if number == 0:
        return Whole(causal=True)  # its own parts are in order
    if is_mirrored:
        return Halves(is_earlier=index >= number)
    all_or_none = where(index >= number, as_tensor(rows, i32), as_tensor(-rows, i32))
    return Whole(causal=True, offset=all_or_none)


def _halves(rows: Tensor) -> tuple[Tensor, Tensor]:
    """The front and the back of dimension -2."""
    half = rows.shape[-2] // 2
    return rows[..., :half, :], rows[..., half:, :]


def _joined(front: Tensor, back: Tensor) -> Tensor:
    return concatenate([front, back], axis=-2)

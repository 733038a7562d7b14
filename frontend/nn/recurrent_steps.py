"""One step of recurrent layers, of which layers of many steps and cells are made."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from blu.errors import ArgumentError
from blu.frontend.functional import functional as ops
from blu.frontend.nn.module import Module
from blu.frontend.nn.parameter import uniform

States = tuple[Any, ...]


class RecurrentStep(Module):
    """What steps have in common: `GATES` products of width H, and `STATES` that are carried from one to the next."""

    GATES: ClassVar[int]
    STATES: ClassVar[int]
    hidden_size: int
    bias: bool

    def _check(self, **sizes: int) -> None:
        for name, size in sizes.items():
            if size < 1:
                raise ArgumentError(f"{type(self).__name__}: {name} must be at least 1, got {size}")

    def _add(self, own: str, inputs: int, dtype: object) -> None:
        """The parameters of a step, whose names end with `own`."""
        bound, wide = 1 / math.sqrt(self.hidden_size), self.GATES * self.hidden_size
        setattr(self, "weight_ih" + own, uniform((wide, inputs), bound, dtype))
        setattr(self, "weight_hh" + own, uniform((wide, self.hidden_size), bound, dtype))
        if self.bias:
            setattr(self, "bias_ih" + own, uniform((wide,), bound, dtype))
            setattr(self, "bias_hh" + own, uniform((wide,), bound, dtype))

    def _step(self, states: States, given: Any, recurrent: Any) -> States:
        """The states [B, H] after a step, of products [B, GATES * H] with what is given and with the first state."""
        raise NotImplementedError

    def _after(self, states: States, given: Any, own: str) -> States:
        """The states after a step, in their dtypes, of products with what is given."""
        after = self._step(states, given, self._product(states[0], "hh" + own))
        return tuple(ops.astype(new, old.dtype) for new, old in zip(after, states, strict=True))

    def _zeros(self, batch: tuple[int, ...], dtype: object) -> States:
        return (ops.zeros((*batch, self.hidden_size), dtype),) * self.STATES

    def _product(self, x: Any, own: str) -> Any:
        y = ops.matmul(x, ops.transpose(getattr(self, "weight_" + own)))
        return y + getattr(self, "bias_" + own) if self.bias else y

    def _parts(self, products: Any) -> list[Any]:
        width = self.hidden_size
        return [products[..., gate * width : (gate + 1) * width] for gate in range(self.GATES)]


class LSTMStep(RecurrentStep):
    """A step of `nn.LSTM`."""

    GATES = 4
    STATES = 2

    def _step(self, states: States, given: Any, recurrent: Any) -> States:
        i, f, g, o = self._parts(given + recurrent)
        c = ops.sigmoid(f) * states[1] + ops.sigmoid(i) * ops.tanh(g)
        return ops.sigmoid(o) * ops.tanh(c), c


class GRUStep(RecurrentStep):
    """A step of `nn.GRU`."""

    GATES = 3
    STATES = 1

    def _step(self, states: States, given: Any, recurrent: Any) -> States:
        (r_x, z_x, n_x), (r_h, z_h, n_h) = self._parts(given), self._parts(recurrent)
        z = ops.sigmoid(z_x + z_h)
        n = ops.tanh(n_x + ops.sigmoid(r_x + r_h) * n_h)
        return ((1 - z) * n + z * states[0],)


class RNNStep(RecurrentStep):
    """A step of `nn.RNN`."""

    GATES = 1
    STATES = 1
    nonlinearity: str

    def _choose(self, nonlinearity: str) -> None:
        if nonlinearity not in ("tanh", "relu"):
            raise ArgumentError(f"{type(self).__name__}: nonlinearity must be 'tanh' or 'relu', got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def _step(self, states: States, given: Any, recurrent: Any) -> States:
        return ((ops.tanh if self.nonlinearity == "tanh" else ops.relu)(given + recurrent),)

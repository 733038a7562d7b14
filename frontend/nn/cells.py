"""Single steps of recurrent layers, with torch's arguments and parameters: what a decoder runs one at a time.

Shapes: B batch, I inputs, H hidden.
"""

from __future__ import annotations

from typing import Any

from blu.errors import ShapeError
from blu.frontend.functional import functional as ops
from blu.frontend.nn.recurrent_steps import GRUStep, LSTMStep, RecurrentStep, RNNStep, States


class _Cell(RecurrentStep):
    """What cells have in common: `weight_ih`, `weight_hh`, and `bias_ih` and `bias_hh` unless made without."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: object = "f32"):
        self._check(input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._add("", input_size, dtype)

    def _forward(self, x: Any, states: States | None) -> States:
        if len(x.shape) not in (1, 2) or x.shape[-1] != self.input_size:
            wanted = f"[B, {self.input_size}] or [{self.input_size}]"
            raise ShapeError(f"{type(self).__name__}: x must be {wanted}, got {list(x.shape)}")
        given = self._product(x, "ih")
        wanted = (*x.shape[:-1], self.hidden_size)
        if states is None:
            return self._after(self._zeros(wanted[:-1], given.dtype), given, "")
        if [tuple(state.shape) for state in states] != [wanted] * self.STATES:
            got = ", ".join(str(list(state.shape)) for state in states)
            raise ShapeError(f"{type(self).__name__}: the state is {self.STATES} of shape {list(wanted)}; got {got}")
        return self._after(tuple(ops.astype(state, given.dtype) for state in states), given, "")


class LSTMCell(LSTMStep, _Cell):
    """One step of `nn.LSTM`, with `weight_ih` [4 H, I] and torch's other parameters."""

    def forward(self, x: Any, state: States | None = None) -> States:
        """(h, c) after a step, each [B, H], of x [B, I] and of (h, c) before, zeros if they are not given; or all
        without B. ShapeError for other shapes."""
        return self._forward(x, state)


class GRUCell(GRUStep, _Cell):
    """One step of `nn.GRU`, with `weight_ih` [3 H, I] and torch's other parameters."""

    def forward(self, x: Any, state: Any = None) -> Any:
        """h [B, H] after a step, of x [B, I] and of h before, zeros if it is not given; or both without B. ShapeError
        for other shapes."""
        return self._forward(x, None if state is None else (state,))[0]


class RNNCell(RNNStep, _Cell):
    """One step of `nn.RNN`, with `weight_ih` [H, I] and torch's other parameters."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        dtype: object = "f32",
    ):
        self._choose(nonlinearity)
        super().__init__(input_size, hidden_size, bias, dtype)

    def forward(self, x: Any, state: Any = None) -> Any:
        """As of `GRUCell`."""
        return self._forward(x, None if state is None else (state,))[0]

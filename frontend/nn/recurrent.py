"""Recurrent layers, with torch's arguments and parameters: RNN, LSTM and GRU, whose steps are a `blu.scan`.

Shapes: T steps, B batch, I inputs, H hidden, L layers, D directions (2 if bidirectional, else 1).
"""

from __future__ import annotations

from typing import Any

from blu.errors import ArgumentError, ShapeError
from blu.frontend import random
from blu.frontend.functional import functional as ops
from blu.frontend.functional.neural import check_dropout_rate
from blu.frontend.loops import scan
from blu.frontend.nn.recurrent_steps import GRUStep, LSTMStep, RecurrentStep, RNNStep, States


class _Recurrent(RecurrentStep):
    """What recurrent layers have in common: steps one after the other, in layers and directions."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        dtype: object = "f32",
        dropout: float = 0.0,
    ):
        check_dropout_rate(dropout)
        self._check(input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout, self.training = float(dropout), True
        for place in range(num_layers * self._directions):
            inputs = input_size if place < self._directions else hidden_size * self._directions
            self._add(self._suffix(place), inputs, dtype)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    def _suffix(self, place: int) -> str:
        layer, direction = divmod(place, self._directions)
        return f"_l{layer}" + ("_reverse" if direction else "")

    def _forward(self, x: Any, states: States | None, key: Any) -> tuple[Any, States]:
        if len(x.shape) not in (2, 3) or x.shape[-1] != self.input_size:
            order = "B, T" if self.batch_first else "T, B"
            message = f"{type(self).__name__}: x must be [{order}, {self.input_size}] or [T, {self.input_size}]"
            raise ShapeError(f"{message}, got {list(x.shape)}")
        is_batched = len(x.shape) == 3
        if not is_batched:
            x = ops.expand_dims(x, 1)
        elif self.batch_first:
            x = ops.transpose(x, (1, 0, 2))
        begun = None if states is None else self._checked(states, x.shape[1], is_batched)
        y, ended = self._layers(x, begun, key)
        if not is_batched:
            return ops.squeeze(y, 1), tuple(ops.squeeze(state, 1) for state in ended)
        return ops.transpose(y, (1, 0, 2)) if self.batch_first else y, ended

    def _checked(self, states: States, batch: int, is_batched: bool) -> States:
        shape = (self.num_layers * self._directions, *([batch] if is_batched else []), self.hidden_size)
        found = [tuple(state.shape) for state in states]
        if found != [shape] * self.STATES:
            wanted = f"{self.STATES} of shape {list(shape)}, that of each layer and direction"
            got = ", ".join(str(list(one)) for one in found)
            raise ShapeError(f"{type(self).__name__}: the state is {wanted}; got {got}")
        return states if is_batched else tuple(ops.expand_dims(state, 1) for state in states)

    def _layers(self, x: Any, begun: States | None, key: Any) -> tuple[Any, States]:
        """What the last layer gives, [T, B, D * H], and the states after the last step, each [L * D, B, H]."""
        ended: list[States] = []
        for layer in range(self.num_layers):
            x = self._dropped(x, layer, key) if layer else x
            results = []
            for direction in range(self._directions):
                place = len(ended)
                first = None if begun is None else tuple(state[place] for state in begun)
                last, y = self._run(x, self._suffix(place), first, reverse=direction == 1)
                ended.append(last)
                results.append(y)
            x = ops.concatenate(results, -1) if len(results) > 1 else results[0]
        return x, tuple(ops.stack(list(column)) for column in zip(*ended, strict=True))

    def _dropped(self, x: Any, layer: int, key: Any) -> Any:
        """What a layer after the first is given, of which elements are dropped while training."""
        if not self.training or not self.dropout:
            return x
        if key is None:
            kind = type(self).__name__
            advice = f"Call {kind} with key=blu.random.key(0), or the model's eval() where it is not trained."
            raise ArgumentError(f"{kind}(dropout={self.dropout:g}) is told no key to draw by", advice=advice)
        return ops.dropout(x, self.dropout, random.fold_in(key, layer))

    def _run(self, x: Any, own: str, first: States | None, reverse: bool) -> tuple[States, Any]:
        """One layer in one direction: products with what is given are one product for all steps."""
        given = self._product(x, "ih" + own)
        begun = first or self._zeros(x.shape[1:2], given.dtype)

        def step(states: States, given: Any) -> tuple[States, Any]:
            after = self._after(states, given, own)
            return after, after[0]

        return scan(step, tuple(ops.astype(state, given.dtype) for state in begun), given, reverse=reverse)


class LSTM(LSTMStep, _Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber): with i, f, o = sigmoid and g = tanh of W x + U h + b,
    c = f c + i g and h = o tanh(c). Several layers each take what the one before gives.

    `weight_ih_l0` [4 H, I] and its neighbours have torch's names and order of gates: i, f, g, o.
    """

    def forward(self, x: Any, state: States | None = None, key: Any = None) -> tuple[Any, States]:
        """(h of all steps of the last layer [T, B, D * H], the last (h, c) of all layers, each [L * D, B, H]).

        x is [T, B, I], or [B, T, I] with `batch_first` (and the result alike), or [T, I] without a batch anywhere.
        The state before the first step is zeros if it is not given. ShapeError for other shapes. Where the module has a
        `dropout` rate, what each layer but the last gives is dropped while training, by `key`.
        """
        return self._forward(x, state, key)


class GRU(GRUStep, _Recurrent):
    """Gated recurrent units (Cho et al.): with r, z = sigmoid of W x + U h + b, n = tanh(W x + b + r (U h + c)) and
    h = (1 - z) n + z h. Several layers each take what the one before gives.

    `weight_ih_l0` [3 H, I] and its neighbours have torch's names and order of gates: r, z, n.
    """

    def forward(self, x: Any, state: Any = None, key: Any = None) -> tuple[Any, Any]:
        """(h of all steps of the last layer [T, B, D * H], the last h of all layers [L * D, B, H]).

        x is [T, B, I], or [B, T, I] with `batch_first` (and the result alike), or [T, I] without a batch anywhere.
        The state before the first step is zeros if it is not given. ShapeError for other shapes. Where the module has a
        `dropout` rate, what each layer but the last gives is dropped while training, by `key`.
        """
        y, (h,) = self._forward(x, None if state is None else (state,), key)
        return y, h


class RNN(RNNStep, _Recurrent):
    """h = tanh(W x + b + U h + b'), or relu of that (Elman). Several layers each take what the one before gives.

    `weight_ih_l0` [H, I] and its neighbours have torch's names.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
        dtype: object = "f32",
        dropout: float = 0.0,
    ):
        self._choose(nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, bidirectional, dtype, dropout)

    def forward(self, x: Any, state: Any = None, key: Any = None) -> tuple[Any, Any]:
        """As of `GRU`."""
        y, (h,) = self._forward(x, None if state is None else (state,), key)
        return y, h

"""An LSTM that foretells waves: at each step, the value of the next one.

    python examples/lstm.py --steps 150 --size small

A wave is the sum of two sines of random speeds and phases, which it makes itself. However long sequences are, the
program has one step of the network, and is compiled in the same time.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import blu
from blu import nn, optim


@dataclass(frozen=True)
class Size:
    width: int
    layers: int
    length: int
    batch: int
    rate: float


SIZES = {
    "small": Size(width=32, layers=1, length=40, batch=16, rate=1e-2),
    "medium": Size(width=128, layers=2, length=128, batch=16, rate=3e-3),
}


class Forecast(nn.Module):
    def __init__(self, size: Size):
        self.lstm = nn.LSTM(1, size.width, num_layers=size.layers, batch_first=True)
        self.head = nn.Linear(size.width, 1)

    def forward(self, values):
        """What follows each of the values [B, T, 1]."""
        states, _ = self.lstm(values)
        return values + self.head(states)


def build(size: Size) -> Forecast:
    return Forecast(size)


def draw(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Waves and the same one step later [B, T, 1]."""
    speeds, phases = rng.uniform(0.2, 0.8, (2, size.batch, 1)), rng.uniform(0, 2 * np.pi, (2, size.batch, 1))
    waves = np.sin(speeds * np.arange(size.length + 1) + phases).sum(0).astype(np.float32)[..., None]
    return waves[:, :-1], waves[:, 1:]


def loss(model: Forecast, values, targets):
    return blu.mse_loss(model(values), targets)


optimizer = optim.AdamW(weight_decay=0.0)


@blu.jit(donate=("model", "state"))
def train_step(model, state, batch, rate):
    value, gradients = blu.value_and_grad(loss)(model, *batch)
    gradients, _ = optim.clip_by_global_norm(gradients, 1.0)
    model, state = optimizer.update(model, gradients, state, rate)
    return model, state, value


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--size", choices=SIZES, default="small")
    options = parser.parse_args(arguments)
    size, rng, losses = SIZES[options.size], np.random.default_rng(0), []
    model = build(size).initialize(0)
    state = optimizer.init(model)
    for step in range(options.steps):
        rate = optim.cosine_schedule(step, peak=size.rate, final=size.rate / 10, warmup=10, total=options.steps)
        model, state, value = train_step(model, state, draw(rng, size), rate)
        losses.append(float(value))
        if step % 25 == 0 or step == options.steps - 1:
            print(f"step {step + 1} | loss {losses[-1]:.4f}")
    values, targets = draw(rng, size)
    print(f"the last value of a new wave is {targets[0, -1, 0]:.3f}, foretold {float(model(values)[0, -1, 0]):.3f}")
    return float(np.mean(losses[-10:]))


if __name__ == "__main__":
    main()

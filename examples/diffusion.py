"""A diffusion model of points in the plane: a network that tells noise from data, and draws new points by taking noise
away step by step.

    python examples/diffusion.py --steps 600 --size small

The data are two interleaved half moons, which it makes itself. (Ho et al., "Denoising diffusion probabilistic models";
the steps back are those of Song et al., "Denoising diffusion implicit models".)
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import blu
from blu import nn, optim

TIMES = 100


@dataclass(frozen=True)
class Size:
    width: int
    layers: int
    batch: int
    rate: float


SIZES = {
    "small": Size(width=128, layers=3, batch=256, rate=3e-3),
    "medium": Size(width=512, layers=4, batch=1024, rate=1e-3),
}


def kept_shares() -> np.ndarray:
    """The share of the data's variance at each time [TIMES]: nearly all at the first, nearly none at the last."""
    times = np.arange(1, TIMES + 1) / TIMES
    return (np.cos(0.5 * np.pi * times * 0.99) ** 2).astype(np.float32)


SHARES = kept_shares()


class Denoiser(nn.Module):
    def __init__(self, size: Size):
        self.point = nn.Linear(2, size.width)
        self.time = nn.Embedding(TIMES, size.width)
        self.hidden = nn.ModuleList([nn.Linear(size.width, size.width) for _ in range(size.layers)])
        self.output = nn.Linear(size.width, 2)

    def forward(self, points, times):
        """The noise in points [N, 2] at times [N]."""
        x = self.point(points) + self.time(times)
        for layer in self.hidden:
            x = x + layer(blu.silu(x))
        return self.output(blu.silu(x))


def build(size: Size) -> Denoiser:
    return Denoiser(size)


def draw(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points of the data [N, 2], a time for each [N], and the noise that each gets [N, 2]."""
    upper, angle = rng.integers(0, 2, size.batch), rng.uniform(0, np.pi, size.batch)
    sign = 2 * upper - 1
    moons = np.stack([np.cos(angle) * sign - upper + 0.5, np.sin(angle) * sign - 0.5 * upper + 0.25], axis=-1)
    times = rng.integers(0, TIMES, size.batch).astype(np.int32)
    return moons.astype(np.float32), times, rng.standard_normal((size.batch, 2), np.float32)


def loss(model: Denoiser, points, times, noise):
    kept = blu.expand_dims(blu.take(SHARES, times, axis=0), -1)
    noisy = blu.sqrt(kept) * points + blu.sqrt(1 - kept) * noise
    return blu.mse_loss(model(noisy, times), noise)


optimizer = optim.AdamW(weight_decay=0.0)


@blu.jit(donate=("model", "state"))
def train_step(model, state, batch, rate):
    value, gradients = blu.value_and_grad(loss)(model, *batch)
    gradients, _ = optim.clip_by_global_norm(gradients, 1.0)
    model, state = optimizer.update(model, gradients, state, rate)
    return model, state, value


@blu.jit(static_argnames="count")
def sample(model, key, count):
    """New points [count, 2]: noise, of which a step takes away what leads to the time before it."""
    shares = blu.asarray(np.append(1.0, SHARES).astype(np.float32))

    def back(points, time):
        kept, before = shares[time + 1], shares[time]
        noise = model(points, blu.broadcast_to(time, (count,)))
        clean = (points - blu.sqrt(1 - kept) * noise) / blu.sqrt(kept)
        return blu.sqrt(before) * clean + blu.sqrt(1 - before) * noise, None

    points, _ = blu.scan(back, blu.random.normal(key, (count, 2)), blu.arange(TIMES), reverse=True)
    return points


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--size", choices=SIZES, default="small")
    options = parser.parse_args(arguments)
    size, rng, losses = SIZES[options.size], np.random.default_rng(0), []
    model = build(size).initialize(0)
    state = optimizer.init(model)
    for step in range(options.steps):
        rate = optim.cosine_schedule(step, peak=size.rate, final=size.rate / 10, warmup=10, total=options.steps)
        model, state, value = train_step(model, state, draw(rng, size), rate)
        losses.append(float(value))
        if step % 100 == 0 or step == options.steps - 1:
            print(f"step {step + 1} | loss {losses[-1]:.3f}")
    points = np.asarray(sample(model, blu.random.key(0), 200))
    apart = np.linalg.norm(points[:, None] - draw(rng, size)[0], axis=-1).min(axis=1)
    print(f"new points are {np.median(apart):.3f} apart from the nearest of the data")
    return float(np.mean(losses[-10:]))


if __name__ == "__main__":
    main()

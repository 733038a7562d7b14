"""A small vision transformer that tells in which direction stripes run.

    python examples/vit.py --steps 150 --size small

Images are stripes of random widths in one of eight directions, under noise, which it makes itself.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import blu
from blu import nn, optim

CLASSES = 8


@dataclass(frozen=True)
class Size:
    """Images of `pixels` x `pixels`, in patches of `patch` x `patch`."""

    pixels: int
    patch: int
    width: int
    layers: int
    heads: int
    batch: int
    rate: float


SIZES = {
    "small": Size(pixels=16, patch=4, width=32, layers=2, heads=2, batch=32, rate=4e-3),
    "medium": Size(pixels=64, patch=8, width=192, layers=4, heads=6, batch=16, rate=1e-3),
}


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.project(x).reshape((batch, length, 3, self.heads, width // self.heads))
        query, key, value = blu.unstack(blu.transpose(parts, (2, 0, 3, 1, 4)))
        seen = blu.attention(query, key, value)
        return self.output(blu.swapaxes(seen, 1, 2).reshape((batch, length, width)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm = nn.LayerNorm(width)
        self.widen = nn.Linear(width, 4 * width)
        self.narrow = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(blu.gelu(self.widen(self.norm(x))))


class VisionTransformer(nn.Module):
    def __init__(self, size: Size):
        patches = (size.pixels // size.patch) ** 2
        self.patches = nn.Conv2d(3, size.width, size.patch, stride=size.patch, channels_last=True)
        self.class_token = nn.Parameter((1, 1, size.width))
        self.positions = nn.Parameter((1, patches + 1, size.width))
        self.blocks = nn.ModuleList([Block(size.width, size.heads) for _ in range(size.layers)])
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, CLASSES)

    def forward(self, images):
        """Logits [N, classes] for images [N, H, W, 3]."""
        x = self.patches(images)
        batch, rows, columns, width = x.shape
        first = blu.broadcast_to(self.class_token, (batch, 1, width))
        x = blu.concatenate([first, x.reshape((batch, rows * columns, width))], axis=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


def build(size: Size) -> VisionTransformer:
    return VisionTransformer(size)


def draw(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, H, W, 3] and the directions of their stripes [N]."""
    labels = rng.integers(0, CLASSES, size.batch)
    angles = (np.pi / CLASSES * labels)[:, None, None]
    row, column = np.mgrid[: size.pixels, : size.pixels]
    lengths, phases = rng.uniform(4, 8, (size.batch, 1, 1)), rng.uniform(0, 2 * np.pi, (size.batch, 1, 1))
    waves = np.sin(2 * np.pi / lengths * (np.cos(angles) * row + np.sin(angles) * column) + phases)
    images = waves[..., None] + 0.3 * rng.standard_normal((*waves.shape, 3))
    return images.astype(np.float32), labels.astype(np.int32)


def loss(model: VisionTransformer, images, labels):
    return blu.cross_entropy(model(images), labels)


optimizer = optim.AdamW(weight_decay=0.01)


@blu.jit(donate=("model", "state"))
def train_step(model, state, batch, rate):
    value, gradients = blu.value_and_grad(loss)(model, *batch)
    gradients, _ = optim.clip_by_global_norm(gradients, 1.0)
    model, state = optimizer.update(model, gradients, state, rate)
    return model, state, value


@blu.jit
def accuracy(model, images, labels):
    return blu.mean(blu.astype(blu.argmax(model(images), axis=-1) == labels, "f32"))


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
            print(f"step {step + 1} | loss {losses[-1]:.3f}")
    print(f"right on new images: {float(accuracy(model, *draw(rng, size))):.0%}")
    return float(np.mean(losses[-10:]))


if __name__ == "__main__":
    main()

"""A small residual convolutional network that tells discs, squares, crosses and rings apart.

    python examples/convnet.py --steps 150 --size small

Images have one shape each, of random place, size and colour, under noise; it makes them itself. The channels are the
last dimension, as convolutions are computed.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import blu
from blu import nn, optim

CLASSES = 4


@dataclass(frozen=True)
class Size:
    """Images of `pixels` x `pixels`; each stage after the first has half of the pixels and its own width."""

    pixels: int
    widths: tuple[int, ...]
    blocks: int
    batch: int
    rate: float


SIZES = {
    "small": Size(pixels=16, widths=(16, 32), blocks=1, batch=32, rate=3e-3),
    "medium": Size(pixels=32, widths=(64, 128, 256), blocks=2, batch=16, rate=2e-3),
}


class Convolution(nn.Module):
    """A convolution that keeps the size (divided by the stride), and its normalization."""

    def __init__(self, inputs: int, outputs: int, window: int = 3, stride: int = 1):
        self.weights = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False, channels_last=True)
        self.norm = nn.BatchNorm(outputs, channels_last=True)

    def forward(self, x):
        return self.norm(self.weights(x))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        self.first = Convolution(inputs, outputs, stride=stride)
        self.second = Convolution(outputs, outputs)
        self.shortcut = None if inputs == outputs else Convolution(inputs, outputs, 1, stride)

    def forward(self, x):
        kept = x if self.shortcut is None else self.shortcut(x)
        return blu.relu(kept + self.second(blu.relu(self.first(x))))


class ResidualNet(nn.Module):
    def __init__(self, size: Size):
        self.stem = Convolution(3, size.widths[0])
        before = (size.widths[0], *size.widths)
        self.stages = nn.Sequential()
        for number, width in enumerate(size.widths):
            for block in range(size.blocks):
                stride = 2 if number and not block else 1
                self.stages.append(Residual(width if block else before[number], width, stride))
        self.head = nn.Linear(size.widths[-1], CLASSES)

    def forward(self, images):
        """Logits [N, classes] for images [N, H, W, 3]."""
        x = self.stages(blu.relu(self.stem(images)))
        return self.head(blu.mean(x, axis=(1, 2)))


def build(size: Size) -> ResidualNet:
    return ResidualNet(size)


def draw(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, H, W, 3] and the shapes that they show [N]."""
    labels = rng.integers(0, CLASSES, size.batch)
    radius = rng.uniform(0.2, 0.35, size.batch)[:, None, None] * size.pixels
    centre = rng.uniform(0.35, 0.65, (2, size.batch, 1, 1)) * size.pixels
    row, column = np.abs(np.mgrid[: size.pixels, : size.pixels][:, None] - centre)
    distance, larger, smaller = np.hypot(row, column), np.maximum(row, column), np.minimum(row, column)
    shapes = (
        distance < radius,
        larger < 0.9 * radius,
        (smaller < 0.3 * radius) & (larger < radius),
        np.abs(distance - radius) < 0.3 * radius,
    )
    colours = rng.uniform(0.5, 1.5, (size.batch, 1, 1, 3))
    images = np.choose(labels[:, None, None], shapes)[..., None] * colours
    images = images + 0.2 * rng.standard_normal(images.shape)
    return images.astype(np.float32), labels.astype(np.int32)


def loss(model: ResidualNet, images, labels):
    return blu.cross_entropy(model(images), labels)


optimizer = optim.AdamW(weight_decay=0.01)


@blu.jit(donate=("model", "state"))
def train_step(model, state, batch, rate):
    value, gradients = blu.value_and_grad(loss)(model, *batch)
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
    print(f"right on new images: {float(accuracy(model.eval(), *draw(rng, size))):.0%}")
    return float(np.mean(losses[-10:]))


if __name__ == "__main__":
    main()

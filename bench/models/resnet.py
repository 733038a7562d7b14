"""A network like ResNet-50 (He et al., "Deep residual learning for image recognition"), channels last, with the names
that the models of examples/ have. Its images are noise: it is there to be measured."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import blu
from blu import nn, optim

WIDER = 4
"""How many times as many channels come out of a block as its window of 3x3 has."""


@dataclass(frozen=True)
class Size:
    """Images of `pixels` x `pixels`; stage i has `blocks[i]` blocks of windows with 2^i `width` channels."""

    pixels: int
    width: int
    blocks: tuple[int, ...]
    classes: int
    batch: int
    rate: float


SIZES = {
    "small": Size(pixels=32, width=8, blocks=(2, 1), classes=10, batch=4, rate=1e-3),
    "large": Size(pixels=224, width=64, blocks=(3, 4, 6, 3), classes=1000, batch=128, rate=1e-3),
}


def stages_of(size: Size) -> list[list[tuple[int, int, int]]]:
    """Of the blocks of each stage the channels that go in, those of the window, and the stride."""
    before, stages = size.width, []
    for number, count in enumerate(size.blocks):
        width = size.width << number
        first = (before, width, 2 if number else 1)
        stages.append([first, *[(WIDER * width, width, 1)] * (count - 1)])
        before = WIDER * width
    return stages


class Convolution(nn.Module):
    """A convolution that keeps the size (divided by the stride), and its normalization."""

    def __init__(self, inputs: int, outputs: int, window: int, stride: int = 1):
        self.weights = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False, channels_last=True)
        self.norm = nn.BatchNorm(outputs, channels_last=True)

    def forward(self, x):
        return self.norm(self.weights(x))


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int):
        self.narrow = Convolution(inputs, width, 1)
        self.window = Convolution(width, width, 3, stride)
        self.widen = Convolution(width, WIDER * width, 1)
        same = inputs == WIDER * width and stride == 1
        self.shortcut = None if same else Convolution(inputs, WIDER * width, 1, stride)

    def forward(self, x):
        kept = x if self.shortcut is None else self.shortcut(x)
        inside = blu.relu(self.window(blu.relu(self.narrow(x))))
        return blu.relu(kept + self.widen(inside))


class ResNet(nn.Module):
    def __init__(self, size: Size):
        self.stem = Convolution(3, size.width, 7, 2)
        self.pool = nn.MaxPool2d(3, 2, 1, channels_last=True)
        blocks = [Bottleneck(*shape) for stage in stages_of(size) for shape in stage]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(WIDER * size.width << (len(size.blocks) - 1), size.classes)

    def forward(self, images):
        """Logits [N, classes] for images [N, H, W, 3]."""
        x = self.blocks(self.pool(blu.relu(self.stem(images))))
        return self.head(blu.mean(x, axis=(1, 2)))


def build(size: Size) -> ResNet:
    return ResNet(size)


def draw(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Images [N, H, W, 3] and labels [N]."""
    images = rng.standard_normal((size.batch, size.pixels, size.pixels, 3), np.float32)
    return images, rng.integers(0, size.classes, size.batch).astype(np.int32)


def loss(model: ResNet, images, labels):
    return blu.cross_entropy(model(images), labels)


optimizer = optim.AdamW(weight_decay=0.01)

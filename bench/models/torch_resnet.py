"""`resnet.ResNet` in PyTorch, with the same names of parameters: a loss of batches."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from bench.models.resnet import WIDER, Size, stages_of
from tests.support.training.torch_models import Convolution


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        self.narrow = Convolution(inputs, width, 1)
        self.window = Convolution(width, width, 3, stride)
        self.widen = Convolution(width, WIDER * width, 1)
        same = inputs == WIDER * width and stride == 1
        self.shortcut = None if same else Convolution(inputs, WIDER * width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.shortcut is None else self.shortcut(x)
        inside = functional.relu(self.window(functional.relu(self.narrow(x))))
        return functional.relu(kept + self.widen(inside))


class ResNet(nn.Module):
    def __init__(self, size: Size):
        super().__init__()
        self.stem, self.pool = Convolution(3, size.width, 7, 2), nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(*(Bottleneck(*shape) for stage in stages_of(size) for shape in stage))
        self.head = nn.Linear(WIDER * size.width << (len(size.blocks) - 1), size.classes)
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.blocks(self.pool(functional.relu(self.stem(images.permute(0, 3, 1, 2)))))
        return functional.cross_entropy(self.head(x.mean((2, 3))), labels)

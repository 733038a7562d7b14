"""The models of examples/ in PyTorch, with the same names of parameters: `MODELS[name](size)` gives a loss of batches.

Only for those who have PyTorch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from examples import convnet, diffusion, llama, lstm, vit


class LlamaAttention(nn.Module):
    def __init__(self, size: llama.Size):
        super().__init__()
        self.size, depth = size, size.width // size.heads
        self.query = nn.Linear(size.width, size.heads * depth, bias=False)
        self.key = nn.Linear(size.width, size.groups * depth, bias=False)
        self.value = nn.Linear(size.width, size.groups * depth, bias=False)
        self.output = nn.Linear(size.heads * depth, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        def heads(y: Tensor, count: int) -> Tensor:
            return y.unflatten(-1, (count, -1)).transpose(1, 2)

        def rotate(y: Tensor) -> Tensor:
            first, second = y.chunk(2, -1)
            return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

        query, key = rotate(heads(self.query(x), self.size.heads)), rotate(heads(self.key(x), self.size.groups))
        value = heads(self.value(x), self.size.groups)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(seen.transpose(1, 2).flatten(2))


class LlamaBlock(nn.Module):
    def __init__(self, size: llama.Size):
        super().__init__()
        hidden = 8 * size.width // 3
        self.attention_norm, self.norm = nn.RMSNorm(size.width, 1e-6), nn.RMSNorm(size.width, 1e-6)
        self.attention = LlamaAttention(size)
        self.gate, self.up = (nn.Linear(size.width, hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(hidden, size.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), cos, sin)
        y = self.norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, size: llama.Size):
        super().__init__()
        self.embedding = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList([LlamaBlock(size) for _ in range(size.layers)])
        self.norm = nn.RMSNorm(size.width, 1e-6)
        self.head = nn.Linear(size.width, size.words, bias=False)
        for name, turn in zip(("cos", "sin"), llama.rotary_turns(size.length, size.width // size.heads), strict=True):
            self.register_buffer(name, torch.from_numpy(turn), persistent=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


class VitAttention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.project, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        return self.output(functional.scaled_dot_product_attention(*parts.unbind()).transpose(1, 2).flatten(2))


class VitBlock(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = VitAttention(width, heads)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(functional.gelu(self.widen(self.norm(x))))


class VisionTransformer(nn.Module):
    def __init__(self, size: vit.Size):
        super().__init__()
        patches = (size.pixels // size.patch) ** 2
        self.patches = nn.Conv2d(3, size.width, size.patch, stride=size.patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, size.width))
        self.positions = nn.Parameter(torch.empty(1, patches + 1, size.width))
        self.blocks = nn.ModuleList([VitBlock(size.width, size.heads) for _ in range(size.layers)])
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, vit.CLASSES)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.patches(images.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.positions
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x[:, 0])), labels)


class Convolution(nn.Module):
    def __init__(self, inputs: int, outputs: int, window: int = 3, stride: int = 1):
        super().__init__()
        self.weights = nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.weights(x))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.first, self.second = Convolution(inputs, outputs, stride=stride), Convolution(outputs, outputs)
        self.shortcut = None if inputs == outputs else Convolution(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        kept = x if self.shortcut is None else self.shortcut(x)
        return functional.relu(kept + self.second(functional.relu(self.first(x))))


class ResidualNet(nn.Module):
    def __init__(self, size: convnet.Size):
        super().__init__()
        before, self.stem, stages = size.widths[0], Convolution(3, size.widths[0]), []
        for number, width in enumerate(size.widths):
            for block in range(size.blocks):
                stages.append(Residual(before, width, 2 if number and not block else 1))
                before = width
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(before, convnet.CLASSES)
        self.to(memory_format=torch.channels_last)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        x = self.stages(functional.relu(self.stem(images.permute(0, 3, 1, 2))))
        return functional.cross_entropy(self.head(x.mean((2, 3))), labels)


class Forecast(nn.Module):
    def __init__(self, size: lstm.Size):
        super().__init__()
        self.lstm = nn.LSTM(1, size.width, num_layers=size.layers, batch_first=True)
        self.head = nn.Linear(size.width, 1)

    def forward(self, values: Tensor, targets: Tensor) -> Tensor:
        return functional.mse_loss(values + self.head(self.lstm(values)[0]), targets)


class Denoiser(nn.Module):
    def __init__(self, size: diffusion.Size):
        super().__init__()
        self.point, self.time = nn.Linear(2, size.width), nn.Embedding(diffusion.TIMES, size.width)
        self.hidden = nn.ModuleList([nn.Linear(size.width, size.width) for _ in range(size.layers)])
        self.output = nn.Linear(size.width, 2)
        for name, share in (("kept", diffusion.SHARES), ("gone", 1 - diffusion.SHARES)):  # PyTorch's root is not exact
            self.register_buffer(name, torch.from_numpy(np.sqrt(share)), persistent=False)

    def forward(self, points: Tensor, times: Tensor, noise: Tensor) -> Tensor:
        kept, gone = self.kept[times].unsqueeze(-1), self.gone[times].unsqueeze(-1)
        x = self.point(kept * points + gone * noise) + self.time(times)
        for layer in self.hidden:
            x = x + layer(functional.silu(x))
        return functional.mse_loss(self.output(functional.silu(x)), noise)


MODELS: dict[str, Any] = {
    "convnet": ResidualNet,
    "diffusion": Denoiser,
    "llama": Llama,
    "lstm": Forecast,
    "vit": VisionTransformer,
}


def twin_of(name: str, size: Any, state: dict[str, Any], dtype: torch.dtype = torch.float32) -> nn.Module:
    """The model of an example with the numbers of a Blu model's state dict, in training."""
    model = MODELS[name](size).to(dtype)
    model.load_state_dict(
        {key: torch.tensor(array).to(dtype if array.ndim else torch.int64) for key, array in state.items()}
    )
    return model.train()


def tensors_of(batch: tuple[Any, ...], dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """A batch of arrays, floats in `dtype` and integers as PyTorch's indices."""
    return tuple(torch.tensor(array, dtype=dtype if array.dtype.kind == "f" else torch.int64) for array in batch)

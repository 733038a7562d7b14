"""A small decoder like Llama (RMSNorm, rotary positions, grouped heads, SwiGLU) that learns to add from text.

    python examples/llama.py --steps 400 --size small

Its text is lines such as "3+4=07", which it makes itself. After training it completes some of them, always with the
likeliest character.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import blu
from blu import nn, optim

CHARACTERS = "0123456789+=\n"


@dataclass(frozen=True)
class Size:
    """`heads` of queries share `groups` of keys and values; `words` are as many as there are characters, or more."""

    width: int
    layers: int
    heads: int
    groups: int
    length: int
    batch: int
    rate: float
    words: int = len(CHARACTERS)


SIZES = {
    "small": Size(width=48, layers=2, heads=4, groups=2, length=28, batch=16, rate=6e-3),
    "medium": Size(width=256, layers=4, heads=8, groups=2, length=128, batch=8, rate=1e-3),
}


class Attention(nn.Module):
    def __init__(self, size: Size):
        self.heads, self.groups, self.depth = size.heads, size.groups, size.width // size.heads
        self.query = nn.Linear(size.width, size.heads * self.depth, bias=False)
        self.key = nn.Linear(size.width, size.groups * self.depth, bias=False)
        self.value = nn.Linear(size.width, size.groups * self.depth, bias=False)
        self.output = nn.Linear(size.heads * self.depth, size.width, bias=False)

    def forward(self, x, turns):
        batch, length, width = x.shape
        query = rotate(split_heads(self.query(x), self.heads), turns)
        key = rotate(split_heads(self.key(x), self.groups), turns)
        value = split_heads(self.value(x), self.groups)
        seen = blu.attention(query, key, value, causal=True)
        return self.output(blu.swapaxes(seen, 1, 2).reshape((batch, length, width)))


def split_heads(x, heads: int):
    """[B, T, heads * D] as [B, heads, T, D]."""
    batch, length, width = x.shape
    return blu.swapaxes(x.reshape((batch, length, heads, width // heads)), 1, 2)


def rotary_turns(length: int, depth: int):
    """cos and sin [T, D / 2] of the angles by which pairs of numbers turn at each position."""
    speeds = 10000.0 ** (-np.arange(0, depth, 2) / depth)
    angles = np.arange(length)[:, None] * speeds
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotate(x, turns):
    """Turn the pairs (x[i], x[i + D / 2]) of [B, heads, T, D]."""
    cos, sin = turns
    first, second = blu.split(x, 2, axis=-1)
    return blu.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)


class Block(nn.Module):
    def __init__(self, size: Size):
        hidden = 8 * size.width // 3
        self.attention_norm = nn.RMSNorm(size.width)
        self.attention = Attention(size)
        self.norm = nn.RMSNorm(size.width)
        self.gate = nn.Linear(size.width, hidden, bias=False)
        self.up = nn.Linear(size.width, hidden, bias=False)
        self.down = nn.Linear(hidden, size.width, bias=False)

    def forward(self, x, turns):
        x = x + self.attention(self.attention_norm(x), turns)
        y = self.norm(x)
        return x + self.down(blu.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, size: Size):
        self.depth = size.width // size.heads
        self.embedding = nn.Embedding(size.words, size.width)
        self.blocks = nn.ModuleList([Block(size) for _ in range(size.layers)])
        self.norm = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.words, bias=False)

    def forward(self, tokens):
        """Logits [B, T, V] for tokens [B, T]."""
        turns = rotary_turns(tokens.shape[1], self.depth)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, turns)
        return self.head(self.norm(x))


def build(size: Size) -> Llama:
    return Llama(size)


def draw(rng: np.random.Generator, size: Size) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and the ones that follow them [B, T]; the sums begin anywhere in their lines."""
    count = size.batch * (size.length // 7 + 2)
    lines = "".join(f"{a}+{b}={a + b:02}\n" for a, b in rng.integers(0, 10, (count, 2)))
    text = np.array([CHARACTERS.index(character) for character in lines], np.int32).reshape(size.batch, -1)
    starts = rng.integers(0, 7, (size.batch, 1)) + np.arange(size.length + 1)
    windows = np.take_along_axis(text, starts, axis=1)
    return windows[:, :-1], windows[:, 1:]


def loss(model: Llama, tokens, targets):
    return blu.cross_entropy(model(tokens), targets)


optimizer = optim.AdamW(weight_decay=0.01)


@blu.jit(donate=("model", "state"))
def train_step(model, state, batch, rate):
    value, gradients = blu.value_and_grad(loss)(model, *batch)
    gradients, _ = optim.clip_by_global_norm(gradients, 1.0)
    model, state = optimizer.update(model, gradients, state, rate)
    return model, state, value


@blu.jit
def likeliest(model, tokens, position):
    """The token that most likely follows the one at a position."""
    return blu.argmax(blu.take(model(tokens)[0], position, axis=0))


def complete(model: Llama, text: str, count: int) -> str:
    """A text with `count` more characters. What stands behind a position does not change what follows it."""
    tokens = np.zeros((1, len(text) + count), np.int32)
    tokens[0, : len(text)] = [CHARACTERS.index(character) for character in text]
    for position in range(len(text), len(text) + count):
        tokens[0, position] = int(likeliest(model, tokens, position - 1))
    return "".join(CHARACTERS[token] for token in tokens[0])


def main(arguments: list[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--size", choices=SIZES, default="small")
    options = parser.parse_args(arguments)
    size, rng, losses = SIZES[options.size], np.random.default_rng(0), []
    model = build(size).initialize(0)
    state = optimizer.init(model)
    for step in range(options.steps):
        rate = optim.cosine_schedule(step, peak=size.rate, final=size.rate / 10, warmup=20, total=options.steps)
        model, state, value = train_step(model, state, draw(rng, size), rate)
        losses.append(float(value))
        if step % 50 == 0 or step == options.steps - 1:
            print(f"step {step + 1} | loss {losses[-1]:.3f}")
    for question in ("1+1=", "3+4=", "9+8="):
        print(complete(model, question, 2))
    return float(np.mean(losses[-10:]))


if __name__ == "__main__":
    main()

"""Small checkpoints for the tests that save and load them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

from blu.frontend.io.checkpoints.checkpoint import save

CONFIG = {"model_type": "gpt2", "n_layer": 2, "n_head": 3, "n_embd": 24, "vocab_size": 101, "n_positions": 16}


@dataclass
class Moments:
    """An optimizer state of some depth."""

    first: dict[str, np.ndarray]
    count: int


def model_state(value: float = 1.0) -> dict[str, np.ndarray]:
    return {"h.0.w": np.full((2, 3), value, np.float32), "b": np.array(value, ml_dtypes.bfloat16)}


def optimizer_state(value: float = 1.0) -> Moments:
    return Moments({"h.0.w": np.full((2, 3), value, np.float64), "b": np.array([], np.int32)}, 7)


def save_steps(directory: Path, *steps: int, **options) -> None:
    for step in steps:
        save(directory, step, model_state(step), optimizer_state(step), {"step": step}, **options)


def names(directory: Path) -> list[str]:
    """What a run's directory holds, but for the lock."""
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")

"""What a training run tells those who watch it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from blu.dataclass import dataclass


@dataclass(frozen=True)
class StepDone:
    """One step: `step` counts from 1. Loss and norm are those before the update, memory is in bytes, times in seconds.

    `utilization` is the share of the machine's peak arithmetic, None where that is not known. A step that was `skipped`
    changed nothing.
    """

    step: int
    steps: int
    loss: float
    norm: float
    learning_rate: float
    tokens: int
    seconds: float
    tokens_per_second: float
    utilization: float | None
    memory: int
    epoch: float
    remaining_seconds: float
    skipped: bool = False


@dataclass(frozen=True)
class Validated:
    """The mean loss on the validation data after `step`."""

    step: int
    loss: float
    seconds: float


@dataclass(frozen=True)
class Sampled:
    """What the model writes after `step`: text, or token numbers where there is no tokenizer."""

    step: int
    text: str


@dataclass(frozen=True)
class Saved:
    """The checkpoint of `step` is on the disk."""

    step: int
    directory: Path


@dataclass(frozen=True)
class Note:
    """A sentence for the user."""

    text: str


Event = StepDone | Validated | Sampled | Saved | Note
Observer = Callable[[Event], None]

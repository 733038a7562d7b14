"""Functions of `blu.linalg`, PyTorch's and NumPy's counterparts, and the matrices that they are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import blu

RNG = np.random.default_rng(3)


def general(*shape: int) -> np.ndarray:
    """Matrices with singular values that differ."""
    return RNG.uniform(-0.5, 0.5, shape) + np.diag(np.arange(2.0, 2 + max(shape[-2:])))[: shape[-2], : shape[-1]]


def positive(*shape: int) -> np.ndarray:
    """Symmetric positive definite matrices."""
    factor = general(*shape)
    return factor @ factor.mT


@dataclass(frozen=True)
class Case:
    """A function of one result, or of several; `name` says more where there are several of it."""

    name: str
    ours: Callable[..., Any]
    torchs: Callable[..., Any]
    numpys: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]

    def __str__(self) -> str:
        return f"{self.name}-{'-'.join('x'.join(map(str, item.shape)) for item in self.arrays)}"


def named(name: str, *arrays: np.ndarray, **options: Any) -> Case:
    """A function that has one name everywhere."""
    return Case(name, *(_called(getattr(module, name), options) for module in MODULES), arrays)


MODULES = (blu.linalg, torch.linalg, np.linalg)


def _called(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    return lambda *arrays: function(*arrays, **options)


SQUARES = ((1, 1), (4, 4), (2, 3, 3), (2, 1, 2, 2))
CASES = [
    *(named(name, general(*shape)) for name in ("inv", "det", "slogdet") for shape in SQUARES),
    *(named("cholesky", positive(*shape), upper=upper) for shape in SQUARES for upper in (False, True)),
    named("solve", general(3, 3), RNG.normal(size=3)),
    named("solve", general(3, 3), RNG.normal(size=(3, 2))),
    named("solve", general(2, 1, 3, 3), RNG.normal(size=(4, 3, 2))),
]


def leaves(found: Any) -> list[Any]:
    """The results in a row."""
    return list(found) if isinstance(found, tuple) else [found]

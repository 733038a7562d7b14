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


def squared(name: str, *arrays: np.ndarray, **options: Any) -> Case:
    """The same with squares of what it gives: signs of vectors are any."""
    calls = [_called(getattr(module, name), options) for module in MODULES]
    return Case(name, *(_squared(call) for call in calls), arrays)


def _squared(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: tuple(item * item for item in call(*arrays))


def _condition(module: Any, p: Any) -> Callable[..., Any]:
    """PyTorch's has no gradient in these orders."""
    if module is torch.linalg:
        return lambda x: module.matrix_norm(x, p) * module.matrix_norm(module.inv(x), p)
    return lambda x: module.cond(x, p)


def _called(function: Callable[..., Any], options: dict[str, Any]) -> Callable[..., Any]:
    return lambda *arrays: function(*arrays, **options)


OTHERS = ((4, 2), (2, 4), (2, 3, 1), (1, 3))
SQUARES = ((1, 1), (4, 4), (2, 3, 3), (2, 1, 2, 2))
CASES = [
    *(named(name, general(*shape)) for name in ("inv", "det", "slogdet") for shape in SQUARES),
    *(named("cholesky", positive(*shape), upper=upper) for shape in SQUARES for upper in (False, True)),
    *(named("qr", general(*shape)) for shape in (*SQUARES, *OTHERS)),
    *(squared("svd", general(*shape), full_matrices=False) for shape in ((1, 1), (2, 3, 3), *OTHERS)),
    *(squared("eigh", positive(*shape)) for shape in SQUARES),
    *(named(name, general(*shape)) for name in ("svdvals", "pinv") for shape in (*SQUARES, *OTHERS)),
    *(named("eigvalsh", positive(*shape)) for shape in SQUARES),
    *(named("matrix_power", general(2, 3, 3), n=n) for n in (-2, 0, 1, 5)),
    *(named("matrix_norm", general(2, 3, 4), ord=ord) for ord in (2, -2, "nuc", "fro", 1, float("inf"))),
    *(named("cond", general(3, 3), p=p) for p in (None, 2, -2)),
    *(Case("cond", *(_condition(module, p) for module in MODULES), (general(3, 3),)) for p in (1, "fro")),
    *(named("norm", general(3, 4), ord=ord) for ord in (None, 2, "nuc", 1)),
    named("norm", general(3, 4)[0]),
    named("norm", general(3, 4)[0], ord=3),
    named("solve", general(3, 3), RNG.normal(size=3)),
    named("solve", general(3, 3), RNG.normal(size=(3, 2))),
    named("solve", general(2, 1, 3, 3), RNG.normal(size=(4, 3, 2))),
]


def leaves(found: Any) -> list[Any]:
    """The results in a row."""
    return list(found) if isinstance(found, tuple) else [found]

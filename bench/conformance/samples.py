"""A sample of an operator of torch.testing, computed by PyTorch and by Blu, with gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

import blu
from bench.conformance.spelling import Spelling

FORWARD, BACKWARD = (1e-7, 1e-9), (1e-6, 1e-8)  # relative and absolute, of float64
SHORT = {"bfloat16": "bf16"}


@dataclass(frozen=True)
class Leaf:
    """The place of a tensor in a sample's arguments."""

    index: int


@dataclass(frozen=True)
class Wrong:
    """What is not PyTorch's: at "forward", "gradient" or "error", and how."""

    stage: str
    message: str


class Sample:
    """Arguments of an operator: the tree of them, its tensors, and which of these have gradients."""

    def __init__(self, operator: Any, found: Any, spelling: Spelling):
        self.operator, self.found, self.spelling = operator, found, spelling
        self.tensors: list[torch.Tensor] = []
        self.tree = self._leaves([found.input, *found.args]), self._leaves(found.kwargs)
        self.arrays = [on_host(item) for item in self.tensors]
        self.learned = [at for at, item in enumerate(self.tensors) if item.requires_grad]

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            return {key: self._leaves(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            made = [self._leaves(item) for item in value]
            return tuple(made) if isinstance(value, tuple) else made
        if isinstance(value, torch.dtype):
            name = str(value).removeprefix("torch.")
            return SHORT.get(name, name)
        return value

    def _tensor(self, value: torch.Tensor) -> Any:
        if self.spelling.concrete and not value.requires_grad:
            return on_host(value)
        self.tensors.append(value)
        return Leaf(len(self.tensors) - 1)

    def describe(self) -> str:
        shapes = [f"{str(item.dtype).removeprefix('torch.')}{list(item.shape)}" for item in self.tensors]
        arguments, keywords = self.tree
        text = f"{filled(arguments, shapes)} {filled(keywords, shapes) or ''}"
        return text if len(text) < 200 else text[:197] + "..."

    def pack(self, target: str) -> Wrong | None:
        """Compile it for a target, of which there may be none here, into the compile cache."""
        try:
            self._function(*self._expected()[1:], target).trace(*self.arrays).compile()
        except Exception as error:
            return told(error)
        return None

    def _expected(self) -> tuple[list[Any], list[int], list[np.ndarray]]:
        """PyTorch's results, which of them have gradients, and what weighs them."""
        expected = results_of(self.operator(self.found.input, *self.found.args, **self.found.kwargs))
        expected = expected[: self.spelling.results]
        learned = [at for at, item in enumerate(expected) if item.requires_grad] if self.learned else []
        rng = np.random.default_rng(0)
        return expected, learned, [_weights(rng, item) for item in expected]

    def beside(self, target: str | None) -> Wrong | None:
        """What is wrong with Blu's results and gradients, compiled for a target."""
        expected, learned, cotangents = self._expected()
        try:
            found, slopes = self._function(learned, cotangents, target)(*self.arrays)
            found, slopes = ([np.asarray(item) for item in items] for items in (found, slopes))
        except Exception as error:
            return told(error)
        wanted = [on_host(item) for item in expected]
        wanted_slopes = self._slopes(expected, learned, cotangents)
        exact = not self.spelling.is_random(self.found.kwargs)
        return _difference("forward", found, wanted, FORWARD, exact) or _difference(
            "gradient", slopes, wanted_slopes, BACKWARD, exact
        )

    def _function(self, learned: Sequence[int], cotangents: Sequence[np.ndarray], target: str | None) -> Any:
        """The compiled function of results and gradients."""

        def forward(tensors: Sequence[Any]) -> list[Any]:
            arguments, keywords = filled(self.tree, tensors)
            return results_of(self.spelling.function(*arguments, **keywords))

        def both(*tensors: Any) -> Any:
            if not learned:
                return forward(tensors), []
            return _with_gradients(forward, list(tensors), self.learned, learned, cotangents)

        return blu.jit(both) if target is None else blu.jit(both, target=target)

    def _slopes(
        self, expected: Sequence[torch.Tensor], learned: Sequence[int], cotangents: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        if not learned:
            return []
        inputs = [self.tensors[at] for at in self.learned]
        given = [torch.as_tensor(cotangents[at]).to(expected[at]) for at in learned]
        found = torch.autograd.grad([expected[at] for at in learned], inputs, given, allow_unused=True)
        return [
            np.zeros(tuple(item.shape)) if slope is None else on_host(slope)
            for item, slope in zip(inputs, found, strict=True)
        ]


def _with_gradients(
    forward: Callable[[Sequence[Any]], list[Any]],
    tensors: list[Any],
    inputs: Sequence[int],
    outputs: Sequence[int],
    cotangents: Sequence[np.ndarray],
) -> tuple[list[Any], list[Any]]:
    """All results, and gradients with respect to the inputs of what the outputs' cotangents weigh."""

    def inner(learned: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        replaced = list(tensors)
        for at, item in zip(inputs, learned, strict=True):
            replaced[at] = item
        found = forward(replaced)
        return [found[at] for at in outputs], found

    _, pull_back, found = blu.vjp(inner, [tensors[at] for at in inputs], has_aux=True)
    given = [blu.asarray(cotangents[at]).astype(found[at].dtype) for at in outputs]
    (slopes,) = pull_back(given)
    return found, list(slopes)


def _weights(rng: np.random.Generator, result: torch.Tensor) -> np.ndarray:
    """What a result is weighed by, which is complex where that is."""
    shape = tuple(result.shape)
    return rng.uniform(0.5, 1.5, shape) + (1j * rng.uniform(0.5, 1.5, shape) if result.is_complex() else 0)


def on_host(tensor: torch.Tensor) -> np.ndarray:
    """Its numbers: where there is a GPU, some samples of PyTorch's are there."""
    return tensor.detach().resolve_conj().resolve_neg().cpu().numpy()


def told(error: Exception) -> Wrong:
    """An error of a sample, after which the others go on."""
    return Wrong("error", f"{type(error).__name__}: {str(error).partition(chr(10))[0]}")


def results_of(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def filled(tree: Any, tensors: Sequence[Any]) -> Any:
    """The tree with tensors at their places."""
    if isinstance(tree, Leaf):
        return tensors[tree.index]
    if isinstance(tree, dict):
        return {key: filled(item, tensors) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(filled(item, tensors) for item in tree)
    return tree


def _difference(
    stage: str,
    found: Sequence[np.ndarray],
    wanted: Sequence[np.ndarray],
    tolerance: tuple[float, float],
    exact: bool,
) -> Wrong | None:
    """The first of the results that is another; without `exact`, in shape only, or not finite."""
    if len(found) != len(wanted):
        return Wrong(stage, f"{len(found)} in place of {len(wanted)}")
    for own, other in zip(found, wanted, strict=True):
        if own.shape != other.shape:
            return Wrong(stage, f"shape {list(own.shape)} in place of {list(other.shape)}")
        if not exact and not np.isfinite(own).all():
            return Wrong(stage, "not finite")
        if exact and not np.allclose(own, other, *tolerance, equal_nan=True):
            at = np.unravel_index(np.argmin(np.isclose(own, other, *tolerance, equal_nan=True)), own.shape)
            where = [int(index) for index in at]
            return Wrong(stage, f"{own[at]!r} in place of {other[at]!r} at {where}")
    return None

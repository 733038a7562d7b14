"""Why f32 gradients of a network of ReLUs behind BatchNorm are far from float64's: how much of it are signs that turn.

    python bench/models/relu_signs.py [--only convnet resnet] [--size medium] [--batch N] [--save FILE]

A ReLU passes on what is positive. Numbers near 0 have another sign in f32 than in float64, and its gradient another
path: however small the difference of the numbers, that of the gradients is as large as what the path carries. For each
model, on the processor: the largest error of an f32 gradient, relative to the norm of float64's,

* as it is, against float64's;
* against float64's where each ReLU passes on what it passes on in f32: what f32 rounds, alone;

and how many signs differ. Signs are those of the program that forms the f32 gradient.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import blu
from bench.models.sizes import MODELS

Gate = Callable[[int, Any], Any]
"""What a ReLU passes on: given its number and what it is given, True where that goes on."""


@contextmanager
def relus(gate: Gate) -> Iterator[None]:
    """Let `blu.relu` pass on what a gate says."""
    count = iter(range(1 << 20))

    def gated(x: Any) -> Any:
        return x * blu.astype(gate(next(count), x), x.dtype)

    with mock.patch.object(blu, "relu", gated):
        yield


def gradients_and_signs(module: Any, model: Any, batch: Any) -> tuple[dict[str, np.ndarray], list[Any]]:
    """The gradients by name, and which numbers each ReLU passed on."""

    def loss(model: Any, *batch: Any) -> Any:
        signs: list[Any] = []

        def gate(_: int, x: Any) -> Any:
            signs.append(x > 0)
            return signs[-1]

        with relus(gate):
            return module.loss(model, *batch), tuple(signs)

    (_, signs), gradients = blu.jit(blu.value_and_grad(loss, has_aux=True))(model, *batch)
    return _by_name(gradients), list(signs)


def gradients_with(module: Any, model: Any, batch: Any, signs: list[Any]) -> dict[str, np.ndarray]:
    """The gradients by name, where ReLUs pass on what they are told to."""

    def loss(model: Any, signs: list[Any], *batch: Any) -> Any:
        with relus(lambda number, _: signs[number]):
            return module.loss(model, *batch)

    return _by_name(blu.jit(blu.grad(loss))(model, signs, *batch))


def _by_name(gradients: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(array).astype(np.float64) for name, array in gradients.named_parameters()}


def largest_error(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> dict[str, Any]:
    """Of a gradient, relative to its norm, and whose it is."""
    errors = {
        name: float(np.linalg.norm(found[name] - item) / max(np.linalg.norm(item), 1e-300))
        for name, item in expected.items()
    }
    name = max(errors, key=lambda name: errors[name])
    return {"largest": errors[name], "of": name, "median": float(np.median(list(errors.values())))}


def compare(name: str, size: str, batch_size: int | None) -> dict[str, Any]:
    """The figures of a model."""
    module = MODELS[name].module
    chosen = module.SIZES[size]
    chosen = replace(chosen, batch=batch_size or chosen.batch)
    model, batch = module.build(chosen).initialize(0), module.draw(np.random.default_rng(0), chosen)
    exact, exact_batch = model.astype("f64"), tuple(_wide(array) for array in batch)
    narrow, signs = gradients_and_signs(module, model, batch)
    wide, exact_signs = gradients_and_signs(module, exact, exact_batch)
    turned = [int((np.asarray(a) != np.asarray(b)).sum()) for a, b in zip(signs, exact_signs, strict=True)]
    return {
        "against float64": largest_error(narrow, wide),
        "against float64 with the signs of f32": largest_error(
            narrow, gradients_with(module, exact, exact_batch, signs)
        ),
        "float64 with the signs of f32 against float64": largest_error(
            gradients_with(module, exact, exact_batch, signs), wide
        ),
        "signs that differ": sum(turned),
        "signs": sum(np.asarray(item).size for item in signs),
        "batch": chosen.batch,
    }


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype == np.float32 else array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=("convnet", "resnet"), default=["convnet"])
    parser.add_argument("--size", default="medium")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    found = {name: compare(name, arguments.size, arguments.batch) for name in arguments.only}
    text = json.dumps(found, indent=1)
    print(text)
    if arguments.save:
        arguments.save.write_text(text + "\n")


if __name__ == "__main__":
    main()

"""Drawn cases of norms within products, whose blocks have whole rows together or make them, and of rows of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import blu
from bench.checks.draws import ERRORS, Draws, drawn_case
from bench.gpu.case import Case
from bench.gpu.stored import draw

HALVES = ("bf16", "f16")
Shapes = Sequence[tuple[tuple[int, ...], str]]
"""Shapes of arrays, and their dtypes."""


def _large(name: str, function: Callable, shapes: Shapes, error: float, exact: Callable) -> Case:
    """A case of arrays that are drawn again where they are needed, and of what NumPy finds of them in float64."""
    text = " ".join("x".join(map(str, shape)) for shape, _ in shapes)
    specs = tuple(blu.spec(shape, dtype) for shape, dtype in shapes)
    return Case(f"{name} {text}", function, specs, error, reference=partial(_drawn_again, exact, shapes))


def _drawn_again(exact: Callable, shapes: Shapes) -> Sequence[np.ndarray]:
    arrays = [draw(place, list(shape), dtype, 1.0) for place, (shape, dtype) in enumerate(shapes)]
    return exact(*(item.astype(np.float64) for item in arrays))


def _norms_in_products(draws: Draws) -> Iterator[Case]:
    """A residual to which a product is added, and its layer norm; few rows that are normalized and multiplied."""
    for dtype in HALVES:
        for columns in (384, 768):
            rows, depth = draws.size(32768, 33500), 8 * draws.size(8, 40)
            shapes = [((rows, depth), dtype), ((depth, columns), dtype), ((rows, columns), "f32")]
            shapes += [((columns,), "f32")] * 3
            error = 4 * ERRORS[dtype]
            yield _large(f"residual {dtype}", partial(_residual, dtype), shapes, error, _exact_residual)
        for kind in (_layer_norm, _root_mean_square):
            for _ in range(3):
                rows, depth, columns = draws.size(1, 8), 8 * draws.size(8, 160), 8 * draws.size(1, 100)
                shapes = ((rows, depth), (depth,), (depth,), (depth, columns), (columns,))
                arrays = [draws.array(shape, dtype) for shape in shapes]
                yield drawn_case(f"{kind.__name__[1:]} {dtype}", partial(_multiplied, kind), arrays, 4 * ERRORS[dtype])


def _residual(dtype: str, a: Any, w: Any, residual: Any, bias: Any, scale: Any, shift: Any) -> tuple:
    with blu.autocast(dtype):
        total = residual + (blu.matmul(a, w.astype("f32")) + bias)
    centred = total - total.mean(-1, keepdims=True)
    standard = centred / blu.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return total, standard.astype(dtype), (standard * scale + shift).astype(dtype)


def _exact_residual(a: Any, w: Any, residual: Any, bias: Any, scale: Any, shift: Any) -> list[np.ndarray]:
    total = residual + (a @ w + bias)
    centred = total - total.mean(-1, keepdims=True)
    standard = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return [total, standard, standard * scale + shift]


def _multiplied(kind: Callable, x: Any, scale: Any, shift: Any, weight: Any, bias: Any) -> Any:
    return kind(x, scale, shift) @ weight + bias


def _layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    return blu.layer_norm(x, scale, shift)


def _root_mean_square(x: Any, scale: Any, shift: Any) -> Any:
    return blu.rms_norm(x, scale) + shift


def _rows_of_clusters(draws: Draws) -> Iterator[Case]:
    """Rows that no block has in its registers: more than twice the processors, and fewer."""
    for dtype in ("f32", *HALVES):
        for least, most in ((265, 330), (65, 260)):
            shape = draws.size(least, most), 8 * draws.size(1500, 5000)
            rows, error = [(shape, dtype)], ERRORS[dtype]
            yield _large(f"sums {dtype}", _sums, rows, error, lambda x: [x.sum(1), (x * x).sum(1)])
            yield _large(f"softmax {dtype}", lambda x: blu.softmax(x, axis=1), rows, error, _exact_softmax)
            weights = [(shape[1:], dtype)] * 2
            yield _large(f"layer_norm {dtype}", blu.layer_norm, rows + weights, 3 * error, _exact_norm)


def _sums(x: Any) -> tuple:
    return blu.sum(x, axis=1), blu.sum(x * x, axis=1)


def _exact_softmax(x: np.ndarray) -> list[np.ndarray]:
    weights = np.exp(x - x.max(axis=1, keepdims=True))
    return [weights / weights.sum(axis=1, keepdims=True)]


def _exact_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> list[np.ndarray]:
    centred = x - x.mean(axis=1, keepdims=True)
    return [centred / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5) * scale + shift]


NORMS: dict[str, Callable[[Draws], Iterator[Case]]] = {
    "norms in products": _norms_in_products,
    "rows of clusters": _rows_of_clusters,
}
"""Each draws cases."""

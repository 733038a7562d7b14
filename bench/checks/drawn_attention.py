"""Drawn cases of attention with masks, and of so many long rows of 128 columns that one launch finds all gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

import blu
from bench.checks.draws import Draws
from bench.gpu.case import Case
from bench.gpu.check_attention import DTYPES, TOLERANCES, gradients_of

REPEATS = 32
"""How often long rows' heads are there: blocks that wait for each other must be many."""


def _masked(draws: Draws) -> Iterator[Case]:
    """Of each kind of mask; a row whose keys are all as far below as can be has equal weights."""
    for dtype in DTYPES:
        for kind in ("rows at -1e9", "rows at the lowest", "added", "flags"):
            shared, groups, batch = draws.size(1, 3), draws.size(1, 3), draws.size(1, 3)
            queries, causal = draws.size(2, 400), draws.flag()  # of one key alone, gradients are nothing
            keys = queries if causal else draws.size(2, 400)
            width = int(draws.rng.choice([32, 64, 128])) if draws.flag() else draws.size(1, 160)
            query, key = (batch, shared * groups, queries, width), (batch, shared, keys, width)
            shape = (1 if draws.flag() else batch, 1, queries, keys)
            operands = [draws.array(shape, dtype) for shape in (query, key, key)]
            mask, g = _mask(draws, kind, shape), draws.array(query, dtype)
            name = f"{dtype} {'causal ' * causal}{kind}"
            yield from _both(name, dtype, operands, g, [mask], causal=causal)


def _mask(draws: Draws, kind: str, shape: Sequence[int]) -> np.ndarray:
    """Flags, of which the first key's and the last row's are True; or what is added: to some keys, and to all keys of
    some rows."""
    some = draws.rng.random(shape) < 0.3
    some[..., 0], some[..., -1, :] = False, False
    if kind == "flags":
        return ~some
    if kind == "added":
        return draws.array(shape, "f32")
    number = np.float32(-1e9) if kind == "rows at -1e9" else np.finfo(np.float32).min
    rows = draws.rng.random(shape[:-1]) < 0.3
    rows[..., 0], rows[..., -1] = True, True
    return np.where(some | rows[..., None], number, np.float32(0))


def _both(
    name: str, dtype: str, operands: list[np.ndarray], g: np.ndarray, mask: list[np.ndarray], *, causal: bool
) -> Iterator[Case]:
    """The result, and the gradients of query, key and value."""
    attend = partial(_attend, dtype, causal)
    shapes = " ".join("x".join(map(str, item.shape)) for item in (*operands[:2], *mask))
    bound, found = 2 * TOLERANCES[dtype], partial(_in_float64, operands, g, mask, causal)
    forward = Case(f"{name} {shapes}", attend, (*operands, *mask), bound, reference=lambda: found()[:1])

    def backward(query: Any, key: Any, value: Any, g: Any, *mask: Any) -> tuple:
        return gradients_of(lambda *items: attend(*items, *mask), query, key, value, g)

    yield forward
    yield Case(f"gradient {name} {shapes}", backward, (*operands, g, *mask), 2 * bound, reference=lambda: found()[1:])


def _attend(dtype: str, causal: bool, *operands: Any) -> Any:
    return blu.attention(*operands, causal=causal, precision="tf32" if dtype == "tf32" else "highest")


def _in_float64(
    operands: Sequence[np.ndarray], g: np.ndarray, masks: Sequence[np.ndarray], causal: bool
) -> list[np.ndarray]:
    """Attention and its gradients. Masks of f32 are added to scores in f32: beside -1e9, nothing is left of these."""
    query, key, value, g = (item.astype(np.float64) for item in (*operands, g))
    batch, heads, groups = *key.shape[:2], query.shape[1] // key.shape[1]
    keys, values = (np.repeat(item, groups, axis=1) for item in (key, value))
    scale = query.shape[-1] ** -0.5
    scores = (query @ keys.swapaxes(2, 3) * scale).astype(np.float32)
    for mask in masks:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[2:], dtype=np.bool_), scores, -np.inf)
    weights = np.exp(scores.astype(np.float64) - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    result = weights @ values
    slopes = weights * (g @ values.swapaxes(2, 3) - (g * result).sum(axis=-1, keepdims=True)) * scale
    of_keys = [item.swapaxes(2, 3) @ other for item, other in ((slopes, query), (weights, g))]
    shape = (batch, heads, groups, *key.shape[2:])
    return [result, slopes @ keys, *(item.reshape(shape).sum(axis=2) for item in of_keys)]


def _long(draws: Draws) -> Iterator[Case]:
    """Heads that are repeated by the program, for each of some numbers that are 1."""
    for dtype in ("bf16", "f16"):
        groups, queries, keys = draws.size(1, 2), draws.size(2048, 2200), draws.size(2048, 2200)
        query, key = (1, 4, queries, 128), (1, 4 // groups, keys, 128)
        operands = [draws.array(shape, dtype) for shape in (query, key, key, query)]
        ones = np.ones((REPEATS, 1, 1, 1), operands[0].dtype)
        name = f"{dtype} {REPEATS} of {'x'.join(map(str, query))} {'x'.join(map(str, key))}"
        bound = 4 * TOLERANCES[dtype]
        yield Case(name, _repeated_gradients, (*operands, ones), bound, reference=partial(_repeated, operands))


def _repeated_gradients(query: Any, key: Any, value: Any, g: Any, ones: Any) -> tuple:
    return gradients_of(blu.attention, *(item * ones for item in (query, key, value, g)))


def _repeated(operands: Sequence[np.ndarray]) -> list[np.ndarray]:
    *factors, g = operands
    return [np.repeat(item, REPEATS, axis=0) for item in _in_float64(factors, g, [], False)[1:]]


ATTENTION: dict[str, Callable[[Draws], Iterator[Case]]] = {"masked attention": _masked, "long attention": _long}
"""Each draws cases."""

"""Drawn cases of attention, convolution, sorts, scans, gathers and scatters, loops and optimizers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import blu
from bench.checks.draws import ERRORS, FLOATS, Draws, drawn_case
from bench.gpu import check_attention, check_rows
from bench.gpu.case import Case

SORTED = (*FLOATS, "i32", "i64", "u8")


def _attention(draws: Draws) -> Iterator[Case]:
    for kind in check_attention.DTYPES:
        precision, error = "tf32" if kind == "tf32" else "highest", 2 * check_attention.TOLERANCES[kind]
        for number in range(6):
            width = draws.size(1, 200) if number % 2 else int(draws.rng.choice([64, 128]))
            shared, groups, batch = draws.size(1, 3), draws.size(1, 3), draws.size(1, 3)
            queries, keys = draws.size(1, 500), draws.size(1, 500)
            query = (batch, shared * groups, queries, width)
            key, options = (batch, shared, keys, width), {"causal": draws.flag() and keys >= queries}
            arrays = [draws.array(shape, kind) for shape in (query, key, key)]
            attend, exact = (partial(blu.attention, **options, precision=item) for item in (precision, "highest"))
            name = f"{kind} {'causal' if options['causal'] else 'full'}"
            yield drawn_case(name, attend, arrays, error, exact)
            gradients = [partial(check_attention.gradients_of, item) for item in (attend, exact)]
            yield drawn_case(
                f"gradient {name}", gradients[0], [*arrays, draws.array(query, kind)], 2 * error, gradients[1]
            )


def _convolutions(draws: Draws) -> Iterator[Case]:
    for kind in ("f32", "bf16", "f16"):
        for _ in range(2):
            batch, channels, made, size = draws.size(1, 4), draws.size(1, 40), draws.size(1, 40), draws.size(5, 30)
            arrays = [draws.array(shape, kind) for shape in ((batch, channels, size, size), (made, channels, 3, 3))]
            convolve = partial(blu.conv, stride=draws.size(1, 2), padding=1)
            yield drawn_case(kind, convolve, arrays, 2 * ERRORS[kind])


def _sorts(draws: Draws) -> Iterator[Case]:
    for kind in SORTED:
        for most in (200, 3000, 20000):
            x = draws.array(draws.shape(100_000, (1, 200), (1, most)), kind)
            yield drawn_case(f"sort {kind}", _sorted, [x], 0.0)
            yield drawn_case(f"top_k {kind}", partial(blu.top_k, k=draws.size(1, min(x.shape[1], 100))), [x], 0.0)


def _sorted(x: Any) -> tuple:
    return blu.sort(x, axis=1), blu.argsort(x, axis=1, descending=True)


def _scans(draws: Draws) -> Iterator[Case]:
    for kind in (*FLOATS, "i32", "i64"):
        for most in (300, 3000, 60000):
            shape = draws.shape(300_000, (1, 300), (1, most))
            x, error = draws.array(shape, kind), ERRORS.get(kind, 0.0)
            yield drawn_case(f"sums {kind}", lambda x: blu.cumsum(x, axis=1), [x], 4 * error)
            yield drawn_case(f"most {kind}", lambda x: (blu.cummax(x, axis=1), blu.cumsum(x, axis=0)), [x], 4 * error)


def _places(draws: Draws) -> Iterator[Case]:
    """Gathers, and sums at places that are the same for many."""
    for kind in FLOATS:
        for _ in range(4):
            rows, columns = draws.shape(300_000, (1, 5000), (1, 1000))
            x, index = draws.array((rows, columns), kind), draws.indices(draws.size(1, 2000), rows)
            updates = draws.array((len(index), columns), kind)
            yield drawn_case(f"take {kind}", lambda x, i: blu.take(x, i, axis=0), [x, index], 0.0)
            yield drawn_case(f"add {kind}", blu.scatter_add, [x, index, updates], 3 * ERRORS[kind])


def _loops(draws: Draws) -> Iterator[Case]:
    for kind in ("f32", "f64"):
        for _ in range(2):
            x = draws.array((draws.size(1, 300), draws.size(1, 300)), kind)
            yield drawn_case(f"while {kind}", _while_small, [x], ERRORS[kind])
            yield drawn_case(f"scan {kind}", _running, [x], 4 * ERRORS[kind])


def _while_small(x: Any) -> Any:
    return blu.while_loop(lambda v: blu.max(blu.absolute(v)) < 100, lambda v: v * 2 + 1, x)


def _running(x: Any) -> Any:
    return blu.scan(lambda total, row: (0.5 * total + row, blu.exp(-total * total)), x[0] * 0, x)


def _updates(draws: Draws) -> Iterator[Case]:
    for _ in range(4):
        shape = (draws.size(1, 300_000),)
        p, g, m, v = (draws.array(shape, "f32") for _ in range(4))
        yield drawn_case("adamw", check_rows.adamw, [p, g, m, abs(v), np.float32(1e-3)], ERRORS["f32"])


OTHERS: dict[str, Callable[[Draws], Iterator[Case]]] = {
    "attention": _attention,
    "convolution": _convolutions,
    "sorts": _sorts,
    "scans": _scans,
    "places": _places,
    "loops": _loops,
    "updates": _updates,
}
"""Each draws cases."""

"""Ops of every kind, loops and choices in each other, and GPT-2 small."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import blu
from bench.gpu.case import Case
from blu import nn
from blu.frontend.nn import gpt2_steps
from tests.support.programs.loop_programs import WHILE_LOOPS, DrawnLoops, X

RANDOM = np.random.default_rng(0)
DRAWN = range(60)
SIZES = ((3,), (7, 33), (64, 1024), (4, 5, 6, 7))


def _numbers(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, dtype=np.float32)


def cases() -> Iterator[Case]:
    """All cases of this file."""
    yield from _pointwise()
    yield from _rows()
    yield from _products()
    yield from _moves()
    yield from _scans()
    yield from _orders()
    yield from _loops()
    yield from _gpt2()


def _pointwise() -> Iterator[Case]:
    for shape in SIZES:
        name = "x".join(map(str, shape))
        yield Case(f"add_{name}", lambda x, y: x + y * 2.0, (_numbers(*shape), _numbers(*shape)), 0.0)
        yield Case(f"gelu_{name}", lambda x: blu.gelu(x), (_numbers(*shape),), 2e-6)
    yield Case("exp_log_large", lambda x: blu.log(blu.exp(x) + 1.0), (blu.spec((1024, 4096)),), 2e-6)
    yield Case("broadcast", lambda x, y: x * y + 1.0, (_numbers(37, 1, 65), _numbers(5, 1)), 0.0)
    yield Case("cast", lambda x: x.astype("bf16").astype("f32"), (_numbers(99, 101),), 0.0)


def _rows() -> Iterator[Case]:
    for rows, columns in ((1, 1), (5, 33), (128, 768), (64, 4097), (8, 50257)):
        x, weight, bias = blu.spec((rows, columns)), blu.spec((columns,)), blu.spec((columns,))
        name = f"{rows}x{columns}"
        yield Case(f"softmax_{name}", lambda x: blu.softmax(x, axis=-1), (x,), 2e-6)
        yield Case(f"layer_norm_{name}", lambda x, w, b: blu.layer_norm(x, w, b), (x, weight, bias), 1e-5)
        yield Case(f"sum_{name}", lambda x: blu.sum(x, axis=-1), (x,), 1e-5)
    yield Case("sum_rows", lambda x: blu.sum(x, axis=0), (blu.spec((1000, 768)),), 1e-5)
    yield Case("max_all", lambda x: blu.max(x), (blu.spec((300, 301)),), 0.0)
    yield Case("argmax", lambda x: blu.argmax(x, axis=-1), (blu.spec((33, 50257)),), 0.0)


def _products() -> Iterator[Case]:
    for m, k, n in ((1, 1, 1), (17, 33, 65), (128, 768, 2304), (1, 768, 3072), (1024, 1024, 1024)):
        x, w = blu.spec((m, k)), blu.spec((k, n))
        yield Case(f"matmul_{m}x{k}x{n}", lambda x, w: x @ w, (x, w), 1e-5)
        yield Case(f"matmul_transposed_{m}x{k}x{n}", lambda x, w: x @ w.T, (x, blu.spec((n, k))), 1e-5)
    yield Case("matmul_batched", lambda x, w: x @ w, (blu.spec((12, 65, 64)), blu.spec((12, 64, 65))), 1e-5)
    yield Case(
        "matmul_bias_gelu",
        lambda x, w, b: blu.gelu(x @ w + b),
        (blu.spec((128, 768)), blu.spec((768, 3072)), blu.spec((3072,))),
        1e-5,
    )


def _moves() -> Iterator[Case]:
    indices = RANDOM.integers(0, 1000, (64, 32))
    yield Case("gather", lambda table, i: blu.take(table, i, axis=0), (blu.spec((1000, 768)), indices), 0.0)
    yield Case("sort", lambda x: blu.sort(x, axis=-1), (_numbers(9, 1000),), 0.0)
    yield Case("transpose", lambda x: blu.transpose(x, (0, 2, 1)) + 0.0, (blu.spec((7, 65, 129)),), 0.0)
    yield Case("concatenate", lambda x, y: blu.concatenate([x, y], axis=1), (_numbers(5, 7), _numbers(5, 9)), 0.0)


def _scans() -> Iterator[Case]:
    """Rows of a warp, of a block and of several blocks, and columns."""
    shapes = ((1, 1), (100000, 9), (300, 1025), (3, 50257), (1 << 17,), (1 << 22,))
    for shape, axis in (*((shape, len(shape) - 1) for shape in shapes), ((4097, 65), 0), ((7, 3001, 3), 1)):
        name = "x".join(map(str, shape))
        yield Case(f"cumsum_{name}", _cumsum(axis), (blu.spec(shape),), 2e-6)
    for dtype, bound in (("f16", 1e-3), ("bf16", 8e-3), ("f64", 1e-14)):
        yield Case(f"cumsum_{dtype}", _cumsum(1), (blu.spec((2, 20000), dtype),), bound)
    yield Case("cumsum_i64", _cumsum(1), (RANDOM.integers(-(2**63), 2**63 - 1, (2, 20000)),), 0.0)


def _cumsum(axis: int) -> Callable:
    return lambda x: blu.cumsum(x, axis=axis)


def _orders() -> Iterator[Case]:
    """Rows that share a tile, of one tile, and of more tiles than are merged at a time."""
    for shape in ((1000, 7), (9, 2047), (9, 2049), (3, 50257), (1, 1 << 20)):
        name = "x".join(map(str, shape))
        yield Case(f"argsort_{name}", lambda x: blu.argsort(x, axis=-1), (blu.spec(shape),), 0.0)
        for count in (1, 7, 300, 3000):
            if count <= shape[1]:
                yield Case(f"top_k_{count}_of_{name}", _top_k(count), (blu.spec(shape),), 0.0)
    integers = RANDOM.integers(-9, 9, (5, 20001))
    for dtype in (np.int8, np.int64, np.float16, np.float64):
        name = f"sort_{np.dtype(dtype).name}"
        yield Case(name, lambda x: blu.sort(x, axis=-1, descending=True), (integers.astype(dtype),), 0.0)


def _top_k(count: int) -> Callable:
    return lambda x: blu.top_k(x, count)


def _gpt2() -> Iterator[Case]:
    for layers, batch, length in ((1, 1, 16), (12, 1, 64)):
        model = nn.GPT2({"n_layer": layers})
        tokens = RANDOM.integers(0, 50257, (batch, length)).astype(np.int32)
        yield Case(f"gpt2_{layers}_layers", gpt2_steps.forward, (model, tokens), 1e-4, scale=0.1)


def _loops() -> Iterator[Case]:
    """Those of the tests, and drawn ones, with gradients where there are any."""
    bounds = {"f32": 3e-5, "f64": 1e-12}
    for program in WHILE_LOOPS:
        yield Case(f"while_loop {program.__name__}", program, (X,), bounds)
    for loops in map(DrawnLoops.of, DRAWN):
        yield Case(f"loops {loops.name}", loops.apply, loops.arrays(), bounds, least=1.0)

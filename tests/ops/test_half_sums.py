"""Sums of f16 and bf16, wherever a program adds up more than two of them: accumulated in f32, rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.pipelines import cpu
from blu.dialects.core.evaluation import evaluate
from blu.dialects.ops.indexing import ScatterAdd
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.graph.decompose import Decompose
from tests.support.kernels.gpu_program import compile_program

BF16 = ml_dtypes.bfloat16
HALVES = [np.float16, BF16]
TERMS = 2000


def terms(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Numbers around 1/4 of both signs: sums of thousands of them are far from where every term counts in 16 bits."""
    return (np.random.default_rng(seed).standard_normal(shape) + 0.25).astype(dtype)


def opposed(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The same, raised in the first half of the rows and lowered in the second: the sum is small beside its parts."""
    x = terms(shape, np.float64)
    x[: shape[0] // 2] += 1
    x[shape[0] // 2 :] -= 1.5
    return x.astype(dtype)


def assert_rounded_once(found: Any, exact: Any, dtype: Any, name: str = "") -> None:
    """Within half of a unit in the last place of `dtype`, and a little for what f32 loses on the way."""
    found, exact = np.asarray(found), np.asarray(exact, np.float64)
    assert found.dtype == dtype and found.shape == exact.shape
    unit = np.spacing(np.abs(exact).astype(dtype)).astype(np.float64)
    worst = float((np.abs(found.astype(np.float64) - exact) / unit).max())
    assert worst <= 0.52, f"{name} is off by {worst} units"


# What a program of x [TERMS, 6] gives, and the same in f64.
SUMS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "sum of columns": (lambda x: blu.sum(x, axis=0), lambda x: x.sum(0)),
    "sum of rows": (lambda x: blu.sum(x.T, axis=1), lambda x: x.sum(0)),
    "sum of all": (lambda x: blu.sum(blu.concatenate([x, x])), lambda x: 2 * x.sum()),
    "sum of all of a matrix": (
        lambda x: blu.sum(blu.broadcast_to(x.reshape(-1, 1), (TERMS * 6, 4)).reshape(4, -1)),
        lambda x: 4 * x.sum(),
    ),
    "mean": (lambda x: blu.mean(x, axis=0), lambda x: x.mean(0)),
    "mean of all": (lambda x: blu.mean(blu.broadcast_to(x, (2, TERMS, 6))), lambda x: x.mean()),
    "variance": (lambda x: blu.var(x, axis=0), lambda x: x.var(0)),
    "deviation": (lambda x: blu.std(x, axis=0), lambda x: x.std(0)),
    "deviation of what has no square in f16": (lambda x: blu.std(x * 1024, axis=0), lambda x: x.std(0) * 1024),
    "running sum": (lambda x: blu.cumsum(x, axis=0), lambda x: x.cumsum(0)),
    "matrix product": (lambda x: x.T @ x, lambda x: x.T @ x),
    "inner product": (lambda x: x[:, 0] @ x[:, 1], lambda x: x[:, 0] @ x[:, 1]),
    "product with a vector": (lambda x: x.T @ x[:, 0], lambda x: x.T @ x[:, 0]),
    "rows added at one index": (
        lambda x: blu.scatter_add(blu.ones((3, 6), x.dtype), np.full(TERMS, 1), x),
        lambda x: np.stack([np.ones(6), 1 + x.sum(0), np.ones(6)]),
    ),
    "elements added at one index": (
        lambda x: blu.scatter_add(blu.ones((6, 3), x.dtype), np.full(TERMS, -1), x.T, axis=1),
        lambda x: np.stack([np.ones(6), np.ones(6), 1 + x.sum(0)], axis=1),
    ),
    "rows added at indices of two dimensions": (
        lambda x: blu.scatter_add(
            blu.zeros((2, 2, 3), x.dtype),
            np.arange(TERMS).reshape(-1, 4) % 2,
            x.T.reshape(2, 3, -1, 4).transpose(0, 2, 3, 1),
            axis=1,
        ),
        lambda x: x.T.reshape(2, 3, -1, 2).sum(2).transpose(0, 2, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES)
def test_reductions_and_updates(dtype: Any) -> None:
    x = terms((TERMS, 6), dtype)
    results = blu.jit(lambda x: [compute(x) for compute, _ in SUMS.values()])(x)
    for (name, (_, expected)), found in zip(SUMS.items(), results, strict=True):
        assert_rounded_once(found, expected(x.astype(np.float64)), dtype, name)


# Of w [5, 6] and upstream gradients g [TERMS, 6]: a use of w, whose gradient is a sum over TERMS.
USES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "take": (lambda w: blu.take(w, np.full(TERMS, 3), axis=0), lambda g: _row(3, g.sum(0))),
    "indexing": (lambda w: w[np.full(TERMS, 3)], lambda g: _row(3, g.sum(0))),
    "take_along_axis": (
        lambda w: blu.take_along_axis(w, np.full((TERMS, 6), 2), axis=0),
        lambda g: _row(2, g.sum(0)),
    ),
    "broadcast": (lambda w: blu.broadcast_to(w[0], (TERMS, 6)), lambda g: _row(0, g.sum(0))),
    "bias": (lambda w: blu.zeros((TERMS, 6), w.dtype) + w[1:2], lambda g: _row(1, g.sum(0))),
    "many uses": (
        lambda w: blu.concatenate([w[4:5]] * 20 + [blu.zeros((TERMS - 20, 6), w.dtype)]),
        lambda g: _row(4, g[:20].sum(0)),
    ),
}  # fmt: skip


def _row(number: int, values: np.ndarray) -> np.ndarray:
    rows = np.zeros((5, 6))
    rows[number] = values
    return rows


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients(dtype: Any) -> None:
    g = terms((TERMS, 6), dtype, 1)

    def loss(weights: Any, g: Any) -> Any:
        uses = [compute(w) * g for (compute, _), w in zip(USES.values(), weights, strict=True)]
        return sum(blu.sum(use.astype("f32")) for use in uses)

    gradients = blu.jit(blu.grad(loss))([np.ones((5, 6), dtype)] * len(USES), g)
    for (name, (_, expected)), found in zip(USES.items(), gradients, strict=True):
        assert_rounded_once(found, expected(g.astype(np.float64)), dtype, name)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_gradient_of_a_value_with_many_users(dtype: Any) -> None:
    """One share from each user: their sum is rounded once, as any other."""
    factors = terms((24, 6), dtype)

    def loss(w: Any) -> Any:
        return blu.sum(blu.concatenate([w * factor for factor in factors]).astype("f32"))

    assert_rounded_once(blu.jit(blu.grad(loss))(np.ones(6, dtype)), factors.astype(np.float64).sum(0), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_product_of_many(dtype: Any) -> None:
    x = (1 + terms((300, 6), np.float64) / 64).astype(dtype)
    assert_rounded_once(blu.jit(lambda x: blu.prod(x, axis=0))(x), x.astype(np.float64).prod(0), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_reference_of_scatter_add(dtype: Any) -> None:
    updates = terms((TERMS, 6), dtype)
    (found,) = evaluate(ScatterAdd, (np.zeros((2, 6), dtype), np.full(TERMS, 1), updates), {"axis": 0})
    assert_rounded_once(found[1], updates.astype(np.float64).sum(0), dtype)


@pytest.mark.parametrize("dtype", HALVES)
def test_the_eager_sum_of_updates(dtype: Any) -> None:
    updates = terms((TERMS, 6), dtype)
    found = blu.scatter_add(np.zeros((2, 6), dtype), np.full(TERMS, 1), updates)
    assert_rounded_once(np.asarray(found)[1], updates.astype(np.float64).sum(0), dtype)


def test_rows_that_are_multiplied_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weight's gradient is a sum over all rows, whichever of them are computed together."""
    rng = np.random.default_rng(0)
    x, w = opposed((512, 4), BF16), rng.standard_normal((4, 64)).astype(BF16)

    def loss(w: Any, x: Any) -> Any:
        return blu.sum(blu.relu((x @ w).astype("f32") + 100) * 0.25)

    monkeypatch.setattr(cpu, "PIPELINE", cpu.PIPELINE.inserting(ChunkRows(512 * 64 * 2 // 4), before=Decompose))
    traced = blu.jit(blu.grad(loss)).trace(w, x)
    assert "tensor<512x64x" not in traced.lower(stop="blu-chunk-rows").text
    exact = np.repeat(x.astype(np.float64).sum(0)[:, None] * 0.25, 64, 1)
    assert_rounded_once(traced.compile()(w, x), exact, BF16)


@pytest.mark.parametrize(
    ("dtype", "lengths"),
    [
        (np.float16, (40, 1, 3)),
        (BF16, (300, 40, 2)),
        (BF16, (2, 0, 1)),
        (BF16, (1, 0)),
        (np.float32, (70, 1, 3)),
    ],
)
def test_runs_of_equal_indices(dtype: Any, lengths: tuple[int, ...]) -> None:
    """Some updates of each of some rows, in any order, and rows that none is added to, on a GPU and a processor."""
    rng = np.random.default_rng(0)
    indices = rng.permutation(np.repeat(np.arange(len(lengths)), lengths)).astype(np.int32)
    updates = (4 * terms((len(indices), 5), np.float64)).astype(dtype)
    updates = np.rint(updates) if dtype == np.float32 else updates  # sums of whole numbers are exact
    table = rng.integers(-9, 9, (len(lengths) + 2, 5)).astype(dtype)
    exact = table.astype(np.float64)
    np.add.at(exact, indices, updates.astype(np.float64))

    def add(table: Any, indices: Any, updates: Any) -> Any:
        return blu.scatter_add(table, indices, updates)

    (on_gpu,) = compile_program(add, table, indices, updates).interpret(table, indices, updates)
    for found in (on_gpu, blu.jit(add)(table, indices, updates)):
        assert_rounded_once(found, exact, dtype)


def test_the_sum_of_a_large_tensor_on_gpus() -> None:
    x = opposed((130, 127), BF16)
    (found,) = compile_program(blu.sum, x).interpret(x)
    assert_rounded_once(found, x.astype(np.float64).sum(), BF16)

"""Values too large to be had whole: some rows at a time give the same numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu import nn
from blu.compiler.pipelines import cpu, sm90
from blu.dialects.core.mlir import ir
from blu.frontend.tracing.tree import flatten
from blu.passes.gpu.rows.chunk_rows import ChunkRows
from blu.passes.graph.decompose import Decompose
from blu.passes.graph.exponentials_in_products import ExponentialsInProducts

SIZES = {"n_layer": 1, "n_embd": 24, "n_head": 2, "vocab_size": 331, "n_positions": 40}
LOGITS = 4 * 32 * 331 * 4


@pytest.fixture
def chunked(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Has the processor's pipeline cut values of more than so many bytes."""
    monkeypatch.setenv("BLU_CACHE_LIMIT", "0")  # the cache knows Blu by its source, not by what a test plants
    plain = cpu.PIPELINE

    def cut(largest_bytes: int) -> None:
        monkeypatch.setattr(cpu, "PIPELINE", plain.inserting(ChunkRows(largest_bytes), before=Decompose))

    return cut


def gradients_by(policy: str) -> Callable[..., Any]:
    """The loss and its gradients, of a model, tokens and targets."""

    def gradients(model: Any, tokens: Any, targets: Any) -> Any:
        with blu.autocast(policy):
            return blu.value_and_grad(nn.gpt2_loss)(model, tokens, targets)

    return gradients


def gpt2_arguments() -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    model = nn.GPT2(SIZES)
    model.initialize(1)
    tokens, targets = (rng.integers(0, 331, (4, 32)).astype(np.int32) for _ in range(2))
    targets[0, :5] = -100
    return model, tokens, targets


@pytest.mark.parametrize("policy", ["f32", "bf16"])
def test_the_loss_and_its_gradients_are_the_same(policy: str, chunked: Callable[[int], None]) -> None:
    arguments = gpt2_arguments()
    whole = blu.jit(gradients_by(policy)).trace(*arguments).compile()(*arguments)
    chunked(LOGITS // 4)
    traced = blu.jit(gradients_by(policy)).trace(*arguments)
    assert "tensor<128x331xf32>" not in traced.lower(stop="blu-chunk-rows").text
    parts = traced.compile()(*arguments)
    assert float(parts[0]) == float(whole[0])
    for one, other in zip(flatten(parts[1])[0], flatten(whole[1])[0], strict=True):
        one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
        assert np.linalg.norm(one - other) <= 1e-6 * np.linalg.norm(other) + 1e-12


@pytest.mark.parametrize(("policy", "bytes_each"), [("f32", 4), ("bf16", 2)])
def test_gpus_have_one_part_at_a_time(policy: str, bytes_each: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a part comes before the next part: what it needs of the loss is there before all of them.

    So does what rounds it for the product before it, in bf16.
    """
    logits = 16 * 128 * 4096 * bytes_each
    whole, parts = (_planned(monkeypatch, ChunkRows(limit), policy) for limit in (logits, logits // 4))
    assert parts < 0.6 * whole


def test_a_loss_and_its_gradient_read_the_rows_of_a_part_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One kernel picks the targets' logits, another reads all of them once for both results."""
    module = _lowered(monkeypatch, ChunkRows(16 * 128 * 4096), "linalg")
    readers = re.findall(r"call @(rows_\d+)\(.*?: \([^)]*tensor<512x4096xf32>[^)]*\) -> ", str(module))
    assert len(readers) == 2 * 4


def test_exponentials_lie_where_logits_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part's product makes them in halves, and what settles rows writes over them."""
    plain, rows, sizes = sm90.PIPELINE, 16 * 128, {**SIZES, "n_embd": 128, "vocab_size": 4096, "n_positions": 128}
    planned = []
    for smallest_bytes in (1 << 40, 1):
        monkeypatch.setattr(sm90, "PIPELINE", plain.replacing(ExponentialsInProducts(smallest_bytes)))
        module = _lowered(monkeypatch, ChunkRows(rows * 4096 // 2), "memref", "bf16", sizes)
        assert str(module).count("call @settle_rows") == (4 if smallest_bytes == 1 else 0)
        planned.append(_arena_bytes(module))
    assert planned[1] <= planned[0] + 16 * rows


def _planned(monkeypatch: pytest.MonkeyPatch, pass_: ChunkRows, policy: str) -> int:
    """The bytes of intermediate results."""
    return _arena_bytes(_lowered(monkeypatch, pass_, "memref", policy))


def _arena_bytes(module: ir.Module) -> int:
    with module.context:
        return ir.IntegerAttr(module.operation.attributes["blu.arena_bytes"]).value


def _lowered(
    monkeypatch: pytest.MonkeyPatch, pass_: ChunkRows, stop: str, policy: str = "f32", sizes: Any = None
) -> ir.Module:
    """Gradients for 16 times 128 tokens of 4096, at the end of a stage."""
    monkeypatch.setattr(sm90, "PIPELINE", sm90.PIPELINE.replacing(pass_))
    sizes = sizes or {**SIZES, "vocab_size": 4096, "n_positions": 128}
    model, tokens = nn.GPT2(sizes), blu.spec((16, 128), "i32")
    return blu.jit(gradients_by(policy)).trace(model, tokens, tokens).lower("sm_90a", stop=stop).module


def test_what_needs_all_rows_is_left_whole(chunked: Callable[[int], None]) -> None:
    def normed(x: Any, w: Any) -> Any:
        y = x @ w
        return y / blu.max(y)

    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((8, 2)).astype(np.float32), rng.standard_normal((2, 64)).astype(np.float32)
    expected = np.asarray(blu.jit(normed)(x, w))
    chunked(256)
    np.testing.assert_array_equal(np.asarray(blu.jit(normed)(x, w)), expected)

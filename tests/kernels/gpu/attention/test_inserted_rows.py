"""Attention of few queries that puts new keys and values into the cache: one kernel, which does what three would."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

import blu
from blu.compiler.codegen.cubins import find_ptxas
from blu.dialects.ops.attention import Attention
from tests.support.kernels.gpu_program import GpuProgram, compile_program

DTYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32}
TOLERANCES = {"bf16": 2**-8, "f16": 2**-10, "f32": 1e-6}


@dataclass(frozen=True)
class CachedStep:
    """`queries` tokens of `heads` heads, `kv_heads` of which have keys in a cache of `keys` rows."""

    name: str
    dtype: str
    batch: int
    heads: int
    kv_heads: int
    queries: int
    keys: int
    columns: int
    places: tuple[int, ...]
    packed: bool = False

    @property
    def new(self) -> tuple[int, ...]:
        return (self.batch, self.kv_heads, self.queries, self.columns)

    def arrays(self) -> list[np.ndarray]:
        """New queries, keys and values, packed as one product makes them, and the caches."""
        rng = np.random.default_rng(len(self.name))
        width = (self.heads + 2 * self.kv_heads) * self.columns
        shapes = [(self.batch, self.queries, width), *[(self.batch, self.kv_heads, self.keys, self.columns)] * 2]
        return [rng.standard_normal(shape).astype(DTYPES[self.dtype]) for shape in shapes]

    def split(self, qkv):
        """[B, H, T, D] of queries, keys and values."""
        ends = [self.heads, self.heads + self.kv_heads, self.heads + 2 * self.kv_heads]
        parts = zip([0, *ends[:-1]], ends, strict=True)
        rows = (qkv[..., start * self.columns : end * self.columns] for start, end in parts)
        return [item.reshape((self.batch, self.queries, -1, self.columns)).swapaxes(1, 2) for item in rows]

    def compute(self, qkv, keys, values, at):
        query, key, value = self.split(qkv)
        keys = blu.dynamic_update_slice(keys, key, (0, 0, at, 0))
        values = blu.dynamic_update_slice(values, value, (0, 0, at, 0))
        return blu.attention(query, keys, values, causal=True, offset=at), keys, values

    def program(self, **options) -> GpuProgram:
        return compile_program(self.compute, *self.arrays(), np.int32(0), donate=("keys", "values"), **options)

    def expected(self, qkv, keys, values, at: int) -> list[np.ndarray]:
        query, key, value = self.split(qkv)
        place = slice(start := min(max(at, 0), self.keys - self.queries), start + self.queries)
        keys, values = keys.copy(), values.copy()
        keys[:, :, place], values[:, :, place] = key, value
        seen = max(0, min(self.keys, at + self.queries))  # of others, which may be anything, nobody sees any
        wide = [item.astype(np.float64) for item in (query, keys[:, :, :seen], values[:, :, :seen])]
        scale = self.columns**-0.5
        return [Attention.reference(*wide, None, at, True, scale) if seen else np.zeros(query.shape), keys, values]


STEPS = [
    CachedStep("eight blocks to a head", "bf16", 1, 2, 2, 1, 520, 64, (0, 1, 63, 300, 519, 600, -1)),
    CachedStep("a block to a head", "bf16", 12, 12, 12, 1, 70, 64, (0, 69)),
    CachedStep("several blocks to a processor", "f16", 30, 12, 12, 1, 40, 64, (7,)),
    CachedStep("grouped heads, three tokens", "f16", 2, 4, 2, 3, 200, 80, (0, 100, 197)),
    CachedStep("a lane without columns", "f32", 1, 3, 3, 2, 90, 24, (5, 88)),
    CachedStep("rows one by one", "f32", 1, 2, 1, 1, 70, 256, (33,)),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_one_kernel_puts_rows_in_and_attends_to_them(step: CachedStep) -> None:
    qkv, keys, values = step.arrays()
    program = step.program()
    assert list(program.ptx) == ["attention_0"] and len(program.plan["launches"]) == 1
    assert [item["input"] for item in program.plan["outputs"]] == [None, 1, 2]
    if find_ptxas() is not None:
        assert not program.spills()
    for at in step.places:
        # What was in the place of the new rows, and what lies behind them, is not seen.
        first = min(max(at, 0), step.keys - step.queries)
        for cache in (keys, values):
            cache[:, :, first:] = np.nan
        found, expected = program.interpret(qkv, keys, values, np.int32(at)), step.expected(qkv, keys, values, at)
        difference = np.linalg.norm(found[0].astype(np.float64) - expected[0])
        assert difference <= TOLERANCES[step.dtype] * np.linalg.norm(expected[0])
        for one, other in zip(found[1:], expected[1:], strict=True):
            assert one.tobytes() == other.tobytes()
        keys, values = step.arrays()[1:]


def test_a_cache_that_is_read_later_is_copied_first() -> None:
    step = STEPS[3]

    def compute(qkv, keys, values, at):
        return (*step.compute(qkv, keys, values, at), keys + 1)

    qkv, keys, values = step.arrays()
    program = compile_program(compute, qkv, keys, values, np.int32(0), donate=("keys",))
    assert "attention_0" in program.ptx and not program.kernels("update")
    found = program.interpret(qkv, keys, values, np.int32(9))
    for one, other in zip(found[1:3], step.expected(qkv, keys, values, 9)[1:], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(found[3], keys + np.ones((), keys.dtype))


def _of_two_places(step: CachedStep, qkv, keys, values, at):
    query, key, value = step.split(qkv)
    keys = blu.dynamic_update_slice(keys, key, (0, 0, at, 0))
    values = blu.dynamic_update_slice(values, value, (0, 0, at + 1, 0))
    return blu.attention(query, keys, values, causal=True, offset=at)


def _of_a_part_of_rows(step: CachedStep, qkv, keys, values, at):
    query, key, value = step.split(qkv)
    keys, values = (
        blu.dynamic_update_slice(cache, new[..., : step.columns // 2], (0, 0, at, 0))
        for cache, new in ((keys, key), (values, value))
    )
    return blu.attention(query, keys, values, causal=True, offset=at)


def _read_before(step: CachedStep, qkv, keys, values, at):
    query, key, value = step.split(qkv)
    keys = blu.dynamic_update_slice(keys, key, (0, 0, at, 0))
    values = blu.dynamic_update_slice(values, value, (0, 0, at, 0))
    return blu.attention(query + blu.sum(keys), keys, values, causal=True, offset=at)


@pytest.mark.parametrize("function", [_of_two_places, _of_a_part_of_rows, _read_before])
def test_other_updates_stay_as_they_are(function) -> None:
    step = STEPS[3]
    arrays = [*step.arrays(), np.int32(0)]
    program = compile_program(lambda qkv, keys, values, at: function(step, qkv, keys, values, at), *arrays)
    assert program.kernels("update")

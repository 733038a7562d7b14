"""Attention on GPUs: results of its kernels in an interpreter of PTX, and what ptxas makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from gpu_program import DTYPES, compile_program

import blu
from blu.compiler.cubins import find_ptxas
from blu.dialects.attention import Attention, reference_weights

# Twice the rounding of one stored result: weights are rounded too, of which many are summed.
TOLERANCES = {"bf16": 5e-3, "f16": 6e-4, "f32": 1e-6}


@dataclass(frozen=True)
class Problem:
    """Shapes and masks of one attention."""

    name: str
    dtype: str
    query: tuple[int, ...]
    key: tuple[int, ...]
    width: int
    causal: bool = False
    scale: float = 0.25
    mask: tuple[int, ...] | None = None
    mask_dtype: str = "bool"
    offset: int | None = None

    def arrays(self) -> list[np.ndarray]:
        """Query, key, value, the gradient of the result; then the mask and the offset where there are such."""
        rng = np.random.default_rng(0)
        shapes = (self.query, self.key, (*self.key[:-1], self.width), (*self.query[:-1], self.width))
        arrays = [rng.standard_normal(shape).astype(DTYPES[self.dtype]) for shape in shapes]
        if self.mask is not None and self.mask_dtype == "bool":
            flags = rng.integers(0, 2, self.mask).astype(np.bool_)
            flags[..., -1, :] &= self.mask[-2] == 1  # the last query sees no key
            arrays.append(flags)
        elif self.mask is not None:
            arrays.append(rng.standard_normal(self.mask).astype(DTYPES[self.mask_dtype]))
        return arrays if self.offset is None else [*arrays, np.array(self.offset, np.int32)]

    def split(self, rest: list) -> tuple:
        """The mask and the offset among the last arguments, or None."""
        rest = list(rest)
        mask = rest.pop(0) if self.mask is not None else None
        return mask, rest.pop(0) if self.offset is not None else None

    def forward(self) -> Callable:
        def function(query, key, value, _, *rest):
            mask, offset = self.split(rest)
            return blu.attention(query, key, value, mask, causal=self.causal, offset=offset, scale=self.scale)

        return function

    def backward(self) -> Callable:
        def function(query, key, value, g, *rest):
            _, pull = blu.vjp(lambda *operands: self.forward()(*operands, g, *rest), query, key, value)
            return pull(g)

        return function

    def references(self) -> list[np.ndarray]:
        """The result and the three gradients, in f64."""
        arrays = self.arrays()
        query, key, value, g = (item.astype(np.float64) for item in arrays[:4])
        mask, offset = self.split(arrays[4:])
        mask = mask.astype(np.float64) if mask is not None and mask.dtype != np.bool_ else mask
        groups = query.shape[-3] // key.shape[-3]
        keys, values = (np.repeat(heads, groups, axis=-3) for heads in (key, value))
        weights = reference_weights(query, keys, mask, offset, self.causal, self.scale)
        result = weights @ values
        slopes = weights * (g @ values.swapaxes(-1, -2) - (g * result).sum(axis=-1, keepdims=True)) * self.scale
        of_key, of_value = (
            heads.reshape(*key.shape[:-2], groups, *heads.shape[-2:]).sum(axis=-3)
            for heads in (slopes.swapaxes(-1, -2) @ query, weights.swapaxes(-1, -2) @ g)
        )
        return [result, slopes @ keys, of_key, of_value]


PROBLEMS = [
    Problem("two strips", "bf16", (1, 1, 96, 64), (1, 1, 96, 64), 64, causal=True),
    Problem("full", "f16", (1, 2, 20, 32), (1, 2, 70, 32), 32),
    Problem("grouped heads of odd lengths", "f16", (1, 4, 37, 48), (1, 2, 75, 48), 40, causal=True),
    Problem("rows that see nothing", "bf16", (1, 1, 40, 16), (1, 1, 24, 16), 16, causal=True),
    Problem("unaligned rows", "bf16", (2, 9, 5), (1, 13, 5), 7, scale=-0.5),
    Problem("long rows", "bf16", (1, 18, 256), (1, 40, 256), 256, scale=0.06),
    Problem("key mask", "bf16", (2, 2, 18, 16), (2, 2, 30, 16), 16, mask=(2, 1, 1, 30)),
    Problem("full mask", "f16", (2, 18, 16), (2, 30, 16), 16, mask=(2, 18, 30)),
    Problem("added mask", "f16", (2, 18, 16), (2, 30, 16), 16, causal=True, mask=(18, 30), mask_dtype="f16"),
    Problem("a mask of one number", "f16", (2, 18, 16), (2, 30, 16), 16, mask=(), mask_dtype="f16"),
    Problem("a cache", "bf16", (4, 12, 32), (2, 150, 32), 32, causal=True, offset=70),
    Problem("long rows of queries that see nothing", "bf16", (1, 66, 136), (1, 2, 136), 136, causal=True, scale=0.08),
    Problem("a first query before all keys", "bf16", (2, 20, 16), (2, 20, 16), 16, causal=True, offset=-5),
]


# f32 is multiplied as three products of tf32.
WIDE = [
    Problem("f32", "f32", (1, 2, 37, 32), (1, 1, 45, 32), 32, causal=True),
    Problem("f32 in unaligned rows", "f32", (2, 20, 5), (1, 33, 5), 7, scale=-0.5),
    Problem("f32 in rows of half a block", "f32", (2, 20, 4), (1, 33, 4), 12),
    Problem("f32 among many keys", "f32", (1, 16, 16), (1, 512, 16), 16),
    Problem("f32 in long rows", "f32", (1, 18, 128), (1, 20, 128), 96, scale=0.08),
]

# Few queries have a kernel of their own.
DECODING = [
    Problem("one query", "bf16", (1, 4, 1, 64), (1, 2, 200, 64), 64, causal=True, offset=130),
    Problem("f32", "f32", (2, 1, 64), (2, 300, 64), 64, causal=True, offset=299),
    Problem("some queries", "f16", (2, 4, 80), (2, 70, 80), 80, causal=True),
    Problem("long rows", "f32", (1, 2, 256), (1, 70, 256), 256),
    Problem("nothing to see", "f32", (1, 2, 32), (1, 70, 32), 32, causal=True, offset=-1),
    Problem("mask", "f32", (2, 3, 8), (2, 70, 8), 8, mask=(2, 3, 70), scale=-0.3),
]


def _error(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("problem", PROBLEMS + WIDE, ids=lambda problem: problem.name)
def test_results_and_gradients_are_those_of_the_formula(problem: Problem) -> None:
    arrays, (result, *gradients) = problem.arrays(), problem.references()
    program = compile_program(problem.forward(), *arrays)
    (found,) = program.interpret(*arrays)
    assert _error(found, result) < TOLERANCES[problem.dtype]
    if problem.causal or problem.mask:
        assert not found[np.all(result == 0, axis=-1)].any()
    program = compile_program(problem.backward(), *arrays)
    for name, found, expected in zip("qkv", program.interpret(*arrays), gradients, strict=True):
        assert _error(found, expected) < 2 * TOLERANCES[problem.dtype], name


@pytest.mark.parametrize("problem", DECODING, ids=lambda problem: problem.name)
def test_few_queries_are_done_one_by_one(problem: Problem) -> None:
    arrays = problem.arrays()
    program = compile_program(problem.forward(), *arrays)
    (found,) = program.interpret(*arrays)
    assert _error(found, problem.references()[0]) < TOLERANCES[problem.dtype]
    assert "mma" not in program.ptx["attention_0"]
    if find_ptxas() is not None:
        assert program.assembled("attention")["attention_0"].spill_bytes == 0


def test_packed_operands_are_read_in_place() -> None:
    packed = np.random.default_rng(0).standard_normal((1, 70, 3, 2, 32)).astype(DTYPES["bf16"])

    def function(packed):
        return blu.attention(*(packed[:, :, place].swapaxes(1, 2) for place in range(3)), causal=True)

    program = compile_program(function, packed)
    assert list(program.ptx) == ["attention_0"]
    operands = [packed[:, :, place].swapaxes(1, 2).astype(np.float64) for place in range(3)]
    expected = Attention.reference(*operands, None, None, True, 32**-0.5)
    assert _error(program.interpret(packed)[0], expected) < TOLERANCES["bf16"]


def test_other_dtypes_have_no_kernel_of_their_own() -> None:
    operands = [np.zeros((2, 20, 16), np.float64)] * 3
    assert not any(name.startswith("attention") for name in compile_program(blu.attention, *operands).ptx)


@pytest.mark.skipif(find_ptxas() is None, reason="assembling GPU code needs ptxas")
@pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90a"])
@pytest.mark.parametrize(("dtype", "width"), [("bf16", 64), ("f16", 128), ("bf16", 256), ("f32", 64)])
def test_nothing_is_spilled(target: str, dtype: str, width: int) -> None:
    shape = (2, 4, 1024, width)
    problem = Problem("", dtype, shape, shape, width, causal=True)
    program = compile_program(problem.backward(), *problem.arrays(), target=target)
    names = ["attention_0", "attention_gradient_0_query", "attention_gradient_0_key"]
    assert set(names) <= set(program.assembled("attention"))
    for name, cubin in program.assembled("attention").items():
        text = program.ptx[name]
        assert (cubin.spill_bytes, cubin.stack_bytes) == (0, 0), name
        product = "m16n8k8.row.col.f32.tf32" if dtype == "f32" else f"m16n8k16.row.col.f32.{dtype}.{dtype}.f32"
        assert f"mma.sync.aligned.{product}" in text
        assert "cp.async.cg.shared.global" in text
        assert ("ldmatrix.sync.aligned.m8n8.x4.trans" in text) == (dtype != "f32")
    for launch in program.plan["launches"]:
        assert launch["shared_bytes"] <= {"sm_80": 163, "sm_89": 99, "sm_90a": 227}[target] * 1024


def test_products_of_a_tile_are_counted() -> None:
    """For 32 x 64 scores a warp and 64 columns: 64 instructions for scores and 64 for results, masked and not."""
    problem = Problem("", "bf16", (1, 1, 256, 64), (1, 1, 256, 64), 64, causal=True)
    program = compile_program(problem.backward(), *problem.arrays())
    counts = {name: text.count("mma.sync") for name, text in program.ptx.items() if "attention" in name}
    assert counts == {"attention_0": 256, "attention_gradient_0_query": 192, "attention_gradient_0_key": 256}

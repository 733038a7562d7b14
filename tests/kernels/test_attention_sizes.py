"""Attention and its gradients on both targets, where sizes meet those of tiles, by shape, dtype and mask."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import blu
from tests.support.kernels.attention_problems import Problem, random_problem
from tests.support.kernels.gpu_program import compile_program

# Blocks have 64 or 128 rows, tiles 32 or 64; up to 8 queries have a kernel of their own on GPUs.
PROBLEMS = [
    Problem("no queries", "f16", (1, 2, 0, 16), (1, 1, 20, 16), 16, causal=True),
    Problem("no keys", "f16", (2, 20, 16), (1, 0, 16), 8),
    Problem("one of all", "bf16", (1, 1, 1), (1, 1, 1), 1),
    Problem("tiles without their last key", "f16", (1, 20, 8), (1, 63, 8), 8),
    Problem("a tile's last key that the first query does not see", "f16", (1, 66, 16), (1, 129, 16), 16, causal=True,
            offset=62),
    Problem("one query more than a block", "bf16", (2, 129, 24), (1, 65, 24), 24, scale=0.2),
    Problem("nine queries of 80 columns", "f16", (2, 2, 9, 80), (2, 1, 31, 80), 80, causal=True, offset=5),
    Problem("odd columns", "bf16", (1, 33, 33), (1, 17, 33), 5, causal=True, mask=(33, 17), mask_dtype="f32"),
    Problem("128 columns", "f16", (1, 17, 128), (1, 33, 128), 128, scale=0.09, mask=(1, 33), mask_dtype="f16"),
    Problem("f32 of 80 columns", "f32", (2, 2, 9, 80), (2, 1, 17, 80), 80, causal=True, mask=(2, 1, 1, 17)),
    Problem("f64", "f64", (4, 9, 8), (2, 17, 8), 24, causal=True, mask=(9, 1)),
    Problem("elements far apart", "f16", (1, 20, 16), (1, 33, 16), 16, step=8),
]  # fmt: skip

OF_CPU = [
    Problem("several tiles", "f16", (1, 4, 200, 64), (1, 2, 330, 64), 64, causal=True, scale=0.125),
    Problem("bf16 in long rows", "bf16", (1, 2, 40, 128), (1, 1, 150, 128), 128, scale=0.09),
    Problem("f64 in tiles", "f64", (2, 65, 64), (2, 129, 64), 64, causal=True, scale=0.125, offset=64),
    Problem("elements far apart in f32", "f32", (2, 20, 24), (2, 33, 24), 24, step=8),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_gpus(problem: Problem) -> None:
    arrays = problem.arrays()
    problem.check(compile_program(problem.backward(), *arrays).interpret(*arrays))


@pytest.mark.parametrize("seed", [3, 17])
def test_gpus_with_random_shapes(seed: int) -> None:
    test_gpus(random_problem(seed))


@pytest.mark.parametrize("problem", PROBLEMS + OF_CPU, ids=lambda problem: problem.name)
def test_cpus(problem: Problem) -> None:
    found = blu.jit(problem.backward())(*problem.arrays())
    problem.check([np.asarray(item) for item in found])


@pytest.mark.parametrize("seed", range(12))
def test_cpus_with_random_shapes(seed: int) -> None:
    test_cpus(random_problem(seed))


@pytest.mark.parametrize(("offset", "near"), [(2**31 - 1, 100), (-(2**31), -100)])
def test_offsets_far_beyond_all_keys_where_attention_is_written_as_products(offset: int, near: int) -> None:
    """As the gradient of an added mask is."""
    rng = np.random.default_rng(0)
    query, key, mask = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 3, 8), (1, 5, 8), (3, 5)))

    def loss(mask: blu.Tensor, query: blu.Tensor, key: blu.Tensor, offset: blu.Tensor) -> blu.Tensor:
        return blu.sum(blu.attention(query, key, key, mask, causal=True, offset=offset) ** 2)

    run = blu.jit(blu.grad(loss))
    found, expected = (np.asarray(run(mask, query, key, np.array(place, np.int32))) for place in (offset, near))
    np.testing.assert_array_equal(found, expected)
    assert found.all() == (near > 0)


@pytest.mark.parametrize("problem", [PROBLEMS[-1], OF_CPU[-1]], ids=lambda problem: problem.dtype)
def test_few_queries_with_elements_far_apart(problem: Problem) -> None:
    """Queries by twos, and keys and values, in every eighth element of a row."""
    few = replace(problem, query=(*problem.query[:-2], 2, problem.query[-1]))
    arrays = few.arrays()
    few.check(compile_program(few.forward(), *arrays).interpret(*arrays))

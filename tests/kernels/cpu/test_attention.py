"""The CPU attention emitter against the op's meaning in float64."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import pytest

from blu.dialects.ops.attention import Attention
from blu.dialects.targets.cpu import CpuTarget
from blu.passes.kernels.schedules import Fields
from tests.support.kernels.attention_text import DTYPES, Case, emitted
from tests.support.kernels.cpu_kernel import CompiledKernel, compile_kernel, host_targets

BEST = host_targets()[0]
FUSING = [target for target in host_targets() if "v2" not in target.name]
# Relative to the element; the other part of f32 is relative to the sum's terms. Halves are rounded once.
TOLERANCE = {"f32": 3e-6, "f64": 1e-14, "f16": 2**-11 + 1e-5, "bf16": 2**-8 + 1e-5}


def compiled(case: Case, target: CpuTarget = BEST, wish: Fields | None = None) -> CompiledKernel:
    return compile_kernel(emitted(case.text(), target, wish), "attention", target)


def run(case: Case, target: CpuTarget = BEST, wish: Fields | None = None) -> np.ndarray:
    """The case's output, after running all its blocks."""
    compiled(case, target, wish).bind(*case.inputs, case.output)()
    return case.output


def check(case: Case, target: CpuTarget = BEST) -> None:
    tolerance = TOLERANCE[{np.dtype(dtype): name for name, dtype in DTYPES.items()}[case.query.dtype]]
    expected = case.expected()
    absolute = min(tolerance, TOLERANCE["f32"])
    np.testing.assert_allclose(run(case, target).astype(np.float64), expected, rtol=tolerance, atol=absolute)


def random(shape: Sequence[int], dtype: str = "f32", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(DTYPES[dtype])


def make(query: Sequence[int], key: Sequence[int], width: int, dtype: str = "f32", **options) -> Case:
    """A contiguous case; the output begins as NaN."""
    options.setdefault("scale", max(1, query[-1]) ** -0.5)
    arrays = [random(shape, dtype, seed) for seed, shape in enumerate((query, key, (*key[:-1], width)))]
    return Case(*arrays, np.full((*query[:-1], width), np.nan, DTYPES[dtype]), **options)


def packed(length: int, heads: int, size: int, **options) -> Case:
    """Queries, keys and values side by side in each row of one matrix, heads beside each other in the output."""
    columns = heads * size
    matrix = random((length, 3 * columns))
    parts = [matrix[:, i * columns : (i + 1) * columns].reshape(1, length, heads, size) for i in range(3)]
    output = np.full((1, length, heads, size), np.nan, np.float32)
    return Case(*(part.transpose(0, 2, 1, 3) for part in parts), output.transpose(0, 2, 1, 3), **options)


@pytest.mark.parametrize("sample", list(Attention.samples()), ids=lambda sample: str(sample.operands[0].shape))
def test_samples_of_the_op(sample):
    query, key, value, mask, offset = sample.operands
    output = np.full((*query.shape[:-1], value.shape[-1]), np.nan).astype(query.dtype)
    check(Case(query, key, value, output, mask, offset, **sample.attributes))


SHAPES = [
    ((1, 2, 128, 64), (1, 2, 128, 64), 64, True),
    ((3, 70, 20), (3, 131, 20), 37, True),
    ((6, 5, 33), (2, 200, 33), 8, False),
    ((2, 17, 16), (2, 3, 16), 16, True),
    ((2, 1, 64), (1, 1100, 64), 64, False),
    ((1, 2, 40), (1, 15, 40), 150, True),
    ((1, 4, 3), (1, 1, 3), 1, False),
]


@pytest.mark.parametrize(("query", "key", "width", "causal"), SHAPES)
def test_bits_depend_on_nothing_but_the_data(query, key, width, causal):
    case = make(query, key, width, causal=causal, scale=0.25)
    results = []
    for target in FUSING:
        kernel = compiled(case, target)
        run_blocks = kernel.bind(*case.inputs, case.output)
        run_blocks()
        np.testing.assert_allclose(case.output, case.expected(), rtol=3e-6, atol=3e-6)
        results.append(case.output.tobytes())
        case.output.fill(np.nan)
        for block in reversed(range(kernel.blocks)):
            run_blocks(block, block + 1)
        results.append(case.output.tobytes())
    assert len(set(results)) == 1


def test_two_threads_give_the_same_bits():
    case = make((4, 150, 64), (4, 150, 64), 64, causal=True)
    kernel = compiled(case)
    run_blocks = kernel.bind(*case.inputs, case.output)
    run_blocks()
    expected = case.output.tobytes()
    case.output.fill(np.nan)
    parts = [threading.Thread(target=run_blocks, args=(i, i + 1)) for i in range(kernel.blocks)]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    assert case.output.tobytes() == expected


@pytest.mark.parametrize("length", [1, 2, 50, 128, 300])
def test_views_of_a_packed_projection(length):
    check(packed(length, 3, 64, causal=True, scale=0.125))


@pytest.mark.parametrize("dtype", ["f64", "f16", "bf16"])
@pytest.mark.parametrize("queries", [1, 45])
def test_dtypes(dtype, queries):
    check(make((2, queries, 24), (1, 90, 24), 40, dtype, causal=True))


def test_any_strides():
    """Keys stored by column, values in reverse order of dimensions, every other element of the output."""
    case = make((2, 37, 24), (2, 70, 24), 20, causal=True)
    key = np.ascontiguousarray(case.key.transpose(0, 2, 1)).transpose(0, 2, 1)
    value = np.ascontiguousarray(case.value.transpose()).transpose()
    room = np.full((2, 37, 40), np.nan, np.float32)
    strided = Case(case.query, key, value, room[:, :, ::2], causal=True)
    check(strided)
    assert np.isnan(room[:, :, 1::2]).all()
    one = make((2, 1, 24), (2, 70, 24), 20)
    check(Case(one.query, key, value, one.output))


# Masks


MASKS = [
    ("i1", (2, 4, 37, 70)),
    ("i1", (2, 1, 1, 70)),
    ("i1", (4, 37, 1)),
    ("i1", ()),
    ("f32", (37, 70)),
    ("f32", (1, 37, 1)),
    ("f32", (2, 4, 1, 1)),
    ("f32", (70,)),
]


@pytest.mark.parametrize("queries", [37, 1])
@pytest.mark.parametrize(("kind", "shape"), MASKS)
def test_masks(kind, shape, queries):
    mask = random([queries if size == 37 else size for size in shape], seed=5)
    mask = np.asarray(mask > -0.5) if kind == "i1" else np.asarray(mask, np.float32)
    check(make((2, 4, queries, 24), (2, 2, 70, 24), 24, mask=mask, causal=len(shape) % 2 == 0))


@pytest.mark.parametrize("queries", [20, 1])
@pytest.mark.parametrize("keys", [7, 100])
def test_queries_that_see_no_key_give_zeros(queries, keys):
    flags = np.ones((queries, keys), np.bool_)
    flags[queries // 2] = False
    added = np.where(flags, np.float32(0), np.float32(-np.inf))
    for mask in (flags, added):
        result = run(make((2, queries, 8), (2, keys, 8), 8, mask=mask))
        assert (result[:, queries // 2] == 0).all()
        assert np.isfinite(result).all()
        assert (np.delete(result, queries // 2, 1) != 0).all()


@pytest.mark.parametrize("queries", [20, 1])
def test_the_lowest_finite_mask_is_not_minus_infinity(queries):
    mask = np.full((queries, 80), np.finfo(np.float32).min)
    check(make((2, queries, 8), (2, 80, 8), 8, mask=mask))


@pytest.mark.parametrize("queries", [20, 1])
def test_scores_far_apart(queries):
    """Weights below the normal numbers count as 0, and nothing overflows."""
    case = make((1, queries, 16), (1, 100, 16), 16, scale=40.0)
    np.testing.assert_allclose(run(case), case.expected(), rtol=1e-4, atol=1e-4)


# Offsets


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_one_query_reads_only_the_keys_it_sees(dtype):
    """Keys and values after the position may be anything. One kernel serves all positions."""
    kernel = None
    for position in (0, 1, 15, 16, 64, 99, 1023, 1024, 1098):
        case = make((1, 4, 1, 64), (1, 2, 1100, 64), 64, causal=True, offset=np.array(position, dtype))
        kernel = kernel or compiled(case)
        expected = case.expected()
        case.key[:, :, position + 1 :] = np.nan
        case.value[:, :, position + 1 :] = np.nan
        kernel.bind(*case.inputs, case.output)()
        np.testing.assert_allclose(case.output, expected, rtol=3e-6, atol=3e-6)


def test_a_prompt_reads_only_the_keys_it_sees():
    kernel = None
    for position in (0, 1, 63, 200, 260):
        case = make((2, 40, 64), (2, 300, 64), 64, causal=True, offset=np.array(position))
        kernel = kernel or compiled(case)
        expected = case.expected()
        case.key[:, position + 40 :] = np.nan
        case.value[:, position + 40 :] = np.nan
        kernel.bind(*case.inputs, case.output)()
        np.testing.assert_allclose(case.output, expected, rtol=3e-6, atol=3e-6)


@pytest.mark.parametrize("queries", [40, 1])
def test_offsets_outside_of_the_keys(queries):
    kernel = None
    for position in (-(2**62), -41, -20, -1, 2**62):
        case = make((2, queries, 8), (2, 50, 8), 8, causal=True, offset=np.array(position))
        kernel = kernel or compiled(case)
        kernel.bind(*case.inputs, case.output)()
        bounded = Case(**{**vars(case), "offset": np.array(np.clip(position, -100, 100))})
        np.testing.assert_allclose(case.output, bounded.expected(), rtol=3e-6, atol=3e-6)


# Special values and sizes


@pytest.mark.parametrize("queries", [20, 1])
def test_nan_and_infinite_scores_make_their_query_nan(queries):
    for special in (np.nan, np.inf):
        case = make((1, queries, 8), (1, 80, 8), 8)
        case.query[0, queries // 2] = 1
        case.key[0, 70] = special
        case.key[0, :, 0] = np.where(np.arange(80) == 70, case.key[0, :, 0], 0)
        assert np.isnan(run(case)[0, queries // 2]).all()
    case = make((1, queries, 8), (1, 80, 8), 8)
    case.query[0, 0, 3] = np.nan
    result = run(case)
    assert np.isnan(result[0, 0]).all()
    assert np.isfinite(result[0, 1:]).all()


@pytest.mark.parametrize(
    ("query", "key", "width"),
    [
        ((2, 0, 8), (2, 5, 8), 8),
        ((0, 5, 8), (0, 5, 8), 8),
        ((2, 5, 8), (2, 0, 8), 8),
        ((2, 1, 8), (2, 0, 8), 8),
        ((2, 5, 0), (2, 6, 0), 8),
        ((2, 1, 0), (2, 6, 0), 8),
        ((2, 5, 8), (2, 6, 8), 0),
        ((2, 20, 1500), (2, 40, 1500), 700),
        ((2, 20, 400), (2, 40, 400), 300),
        ((1, 1, 2, 1, 2, 5, 8), (1, 1, 2, 1, 1, 5, 8), 8),
    ],
)
def test_sizes_at_the_edges(query, key, width):
    check(make(query, key, width, scale=0.1))


def test_splats_that_the_kernel_fills_itself():
    """The fuser repeats constants inside of kernels: here the mask and the offset."""
    case = make((2, 20, 8), (2, 50, 8), 8, mask=np.full((20, 1), 0.5, np.float32), offset=np.array(9), causal=True)
    lines = case.text().splitlines()
    fills = {
        "%3 =": "%c = arith.constant 0.5 : f32\n%e = tensor.empty() : tensor<20x1xf32>\n"
        "%3 = linalg.fill ins(%c : f32) outs(%e : tensor<20x1xf32>) -> tensor<20x1xf32>",
        "%4 =": "%p = arith.constant 9 : i64\n%z = tensor.empty() : tensor<i64>\n"
        "%4 = linalg.fill ins(%p : i64) outs(%z : tensor<i64>) -> tensor<i64>",
    }
    text = "\n".join(fills.get(line[:4], line) for line in lines)
    compile_kernel(emitted(text, BEST), "attention").bind(*case.inputs, case.output)()
    np.testing.assert_allclose(case.output, case.expected(), rtol=3e-6, atol=3e-6)


def test_schedules_give_the_same_bits():
    case = make((2, 90, 20), (2, 150, 20), 23, causal=True)
    results = {run(case).tobytes()}
    for groups, rows, matrices in ((1, 3, "in_place"), (1, 12, "copied"), (4, 3, "copied"), (4, 12, "in_place")):
        fields = {"query_groups": groups, "vectors": 1, "key_rows": rows, "value_rows": rows, "matrices": matrices}
        case.output.fill(np.nan)
        results.add(run(case, wish={"kind": "prefill", **fields}).tobytes())
    assert len(results) == 1

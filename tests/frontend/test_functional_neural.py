"""einsum and its relatives against NumPy; networks' functions against torch; random numbers against their laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from blu.dialects.core.dtypes import TensorType, f32, i64
from blu.dialects.ops.random import RandomBits, philox
from blu.errors import BluError, DTypeError, ShapeError
from blu.frontend import random
from blu.frontend.functional import functional as blu
from tests.support.programs.traced import evaluated, traced

RNG = np.random.default_rng(0)
KEY = np.array([7, 0], np.int64)


def draw(*shape: int) -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("ij,jk", [(2, 3), (3, 4)]),
        ("ba,bc", [(2, 3), (2, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ij->", [(2, 3)]),
        ("ij", [(2, 3)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]),
        ("...ij,...jk", [(1, 2, 3), (5, 3, 4)]),
        ("b...,b...->...", [(2, 3, 4), (2, 4)]),
        ("i,j,k->kji", [(2,), (3,), (4,)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("ij,j,i->", [(2, 3), (3,), (2,)]),
        ("bij,bjk->bik", [(1, 2, 3), (4, 3, 2)]),
    ],
)
def test_einsum_is_numpys(equation: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [draw(*shape) for shape in shapes]
    expected = np.einsum(equation, *arrays)
    found = evaluated(lambda *tensors: blu.einsum(equation, *tensors), *arrays)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "message"),
    [
        ("ij->ij", "1 operands, got 2"),
        ("ij,jk->il", "different letters"),
        ("ij,jk->ii", "different letters"),
        ("ijk,jk->i", "does not fit"),
        ("i,jk->ik", "does not fit"),
        ("i j,j 1->i", "does not fit"),
    ],
)
def test_wrong_equations(equation: str, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        traced(lambda x, y: blu.einsum(equation, x, y), [TensorType((3, 3), f32)] * 2)


def test_products() -> None:
    for left, right in (((3,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((), (2, 3)), ((2, 3), (5, 3, 4))):
        x, y = draw(*left), draw(*right)
        np.testing.assert_allclose(evaluated(blu.dot, x, y), np.dot(x, y), rtol=1e-5, atol=1e-6)
    x, y = draw(2, 3, 4), draw(4, 3, 5)
    np.testing.assert_allclose(evaluated(blu.outer, x, y), np.outer(x, y))
    for axes in (1, 0, ([1], [1]), ([1, 2], [1, 0])):
        if axes == 1:
            y = draw(4, 3, 5)
        found = evaluated(lambda a, b, axes=axes: blu.tensordot(a, b, axes), x, y)
        np.testing.assert_allclose(found, np.tensordot(x, y, axes), rtol=1e-5, atol=1e-5)
    flags = RNG.integers(0, 2, (3, 3)).astype(bool)
    np.testing.assert_array_equal(evaluated(blu.matmul, flags, flags), flags @ flags)


def test_functions_of_networks_are_torchs() -> None:
    x, weight, bias = draw(3, 5, 8), draw(8), draw(8)
    torch_x, torch_weight, torch_bias = map(torch.tensor, (x, weight, bias))
    pairs = [
        (lambda x: blu.softmax(x), functional.softmax(torch_x, -1)),
        (lambda x: x.log_softmax(axis=1), functional.log_softmax(torch_x, 1)),
        (lambda x: blu.gelu(x), functional.gelu(torch_x)),
        (lambda x: blu.gelu(x, "tanh"), functional.gelu(torch_x, approximate="tanh")),
        (lambda x: x.silu(), functional.silu(torch_x)),
        (lambda x: blu.layer_norm(x, weight, bias), functional.layer_norm(torch_x, (8,), torch_weight, torch_bias)),
        (lambda x: blu.rms_norm(x, weight, 1e-5), functional.rms_norm(torch_x, (8,), torch_weight, 1e-5)),
    ]
    for function, expected in pairs:
        np.testing.assert_allclose(evaluated(function, x), expected.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_attention_is_torchs(causal: bool, groups: int) -> None:
    query, key, value = draw(2, 4, 5, 8), draw(2, 4 // groups, 5, 8), draw(2, 4 // groups, 5, 8)
    found = evaluated(lambda q, k, v: blu.attention(q, k, v, causal=causal), query, key, value)
    expected = functional.scaled_dot_product_attention(
        *map(torch.tensor, (query, key, value)), is_causal=causal, enable_gqa=groups > 1
    )
    np.testing.assert_allclose(found, expected.numpy(), rtol=1e-5, atol=1e-6)


def test_attention_masks_and_offset() -> None:
    query, key, value = draw(4, 3, 8), draw(2, 9, 8), draw(2, 9, 8)
    position = np.array(4, np.int32)
    found = evaluated(lambda q, k, v, p: blu.attention(q, k, v, causal=True, offset=p), query, key, value, position)
    visible = np.arange(9) <= np.arange(3)[:, None] + 4
    by_mask = evaluated(lambda q, k, v: blu.attention(q, k, v, mask=visible), query, key, value)
    np.testing.assert_array_equal(found, by_mask)
    added = np.where(visible, 0, -np.inf).astype(np.float32)
    by_sum = evaluated(lambda q, k, v: blu.attention(q, k, v, added), query, key, value)
    np.testing.assert_array_equal(found, by_sum)
    nothing = evaluated(lambda q, k, v: blu.attention(q, k, v, mask=np.zeros((3, 9), bool)), query, key, value)
    np.testing.assert_array_equal(nothing, np.zeros_like(query))


def test_a_mask_of_f32_is_not_rounded_to_the_halves_of_queries() -> None:
    query, key, value = (item.astype(np.float16) for item in (draw(2, 3, 8), draw(2, 9, 8), draw(2, 9, 8)))
    lowest = np.full((3, 9), np.finfo(np.float32).min)
    found = evaluated(lambda q, k, v: blu.attention(q, k, v, lowest), query, key, value)
    mean = np.broadcast_to(value.astype(np.float32).mean(axis=1, keepdims=True), found.shape)
    np.testing.assert_allclose(found.astype(np.float32), mean, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_is_torchs(reduction: str) -> None:
    logits, targets = draw(2, 5, 7), RNG.integers(0, 7, (2, 5))
    targets[0, 2] = -100
    expected = functional.cross_entropy(
        torch.tensor(logits).reshape(10, 7), torch.tensor(targets).reshape(10), reduction=reduction
    )
    found = evaluated(lambda x, t: blu.cross_entropy(x, t, reduction=reduction), logits, targets)
    np.testing.assert_allclose(found.reshape(-1), expected.numpy().reshape(-1), rtol=1e-6)


def test_targets_out_of_range_are_found() -> None:
    for wrong in (7, -1):
        with pytest.raises(IndexError):
            module_targets = np.array([0, wrong])
            evaluated(_decomposed_loss, draw(2, 7), module_targets)
    with pytest.raises(BluError, match="reduction must be one of"):
        traced(lambda x, t: blu.cross_entropy(x, t, reduction="max"), [TensorType((2, 7), f32), TensorType((2,), i64)])


def _decomposed_loss(logits: object, targets: object) -> object:
    from blu.dialects.ops.loss import CrossEntropy

    return CrossEntropy.decompose(logits, targets, ignore_index=-100)


def test_philox_known_answers() -> None:
    """The published answers of Random123 for Philox4x32-10."""
    ones = 0xFFFFFFFF
    for counter, key, expected in (
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ones,) * 4, (ones,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ):
        words = philox([np.array([word], np.uint64) for word in counter], list(key))
        assert tuple(int(word[0]) for word in words) == expected


def test_random_bits_do_not_depend_on_the_shape() -> None:
    long = RandomBits.reference(KEY, (40,))
    np.testing.assert_array_equal(RandomBits.reference(KEY, (3, 5)).ravel(), long[:15])
    assert len(set(long.tolist())) == 40


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_uniform_numbers(dtype: str) -> None:
    found = evaluated(lambda key: random.uniform(key, (4000,), dtype=dtype), KEY).astype(np.float64)
    assert found.min() >= 0 and found.max() < 1
    assert abs(found.mean() - 0.5) < 0.02 and abs(found.var() - 1 / 12) < 0.01
    wide = evaluated(lambda key: random.uniform(key, (2000,), -3, 5, dtype), KEY).astype(np.float64)
    assert wide.min() >= -3 and wide.max() <= 5 and abs(wide.mean() - 1) < 0.2


def test_laws_of_random_numbers() -> None:
    normal = evaluated(lambda key: random.normal(key, (4000,)), KEY)
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.03
    assert math.isclose((np.abs(normal) < 1).mean(), 0.6827, abs_tol=0.03)
    assert abs(evaluated(lambda key: random.bernoulli(key, 0.3, (4000,)), KEY).mean() - 0.3) < 0.03
    whole = evaluated(lambda key: random.integers(key, -2, 5, (2000,)), KEY)
    assert set(whole.tolist()) == set(range(-2, 5))
    logits = np.log(np.array([0.1, 0.2, 0.7], np.float32))
    drawn = evaluated(lambda key: random.categorical(key, blu.broadcast_to(logits, (4000, 3))), KEY)
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.1, 0.2, 0.7], atol=0.03)
    order = evaluated(lambda key: random.permutation(key, 50), KEY)
    assert sorted(order.tolist()) == list(range(50)) != order.tolist()


def test_keys() -> None:
    keys = evaluated(lambda key: random.split(key, 5), KEY)
    assert keys.shape == (5, 2) and len({tuple(key.tolist()) for key in keys}) == 5
    folded = [tuple(evaluated(random.fold_in, KEY, np.array(step, np.int32)).tolist()) for step in range(5)]
    assert len(set(folded)) == 5
    assert random.key(2**64 - 1).tolist() == [-1, 0]
    with pytest.raises(ShapeError, match=r"blu\.random\.key"):
        traced(lambda: random.bits(np.array([1, 2, 3]), (2,)), [])
    with pytest.raises(DTypeError, match="float dtype"):
        traced(lambda: random.uniform(random.key(0), (2,), dtype="i32"), [])
    with pytest.raises(ShapeError, match="there are none"):
        traced(lambda: random.integers(random.key(0), 2, 2), [])

"""Updates in place: they give what NumPy gives, however memory is shared."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import blu
from tests.support.kernels.gpu_program import compile_program


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BLU_CACHE_DIR", str(tmp_path))


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).standard_normal(200).astype(np.float32)


def test_an_update_may_read_what_it_overwrites(x):
    @blu.jit
    def shift(x, start):
        y = x * 2
        return blu.dynamic_update_slice(y, y[:-1], [start]), blu.dynamic_update_slice(y, y[:-1], [1])

    expected = np.concatenate([x[:1], x[:-1]]) * 2
    for found in shift(x, np.int32(1)):
        np.testing.assert_array_equal(found, expected)


def test_what_is_read_later_is_not_overwritten(x):
    @blu.jit
    def update(x):
        both = blu.concatenate([x, x + 1])
        changed = blu.dynamic_update_slice(both, x * 2, [5])
        return changed, both[4:9], both.reshape(2, -1), blu.pad(changed[:3], [(1, 2)])

    both = np.concatenate([x, x + 1])
    changed = both.copy()
    changed[5 : 5 + len(x)] = x * 2
    expected = [changed, both[4:9], both.reshape(2, -1), np.pad(changed[:3], (1, 2))]
    for found, wanted in zip(update(x), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_concatenations_of_one_shape_do_not_share_memory(x):
    @blu.jit
    def join(x):
        return blu.concatenate([x, x + 1]), blu.concatenate([x + 2, x])

    first, second = join(x)
    np.testing.assert_array_equal(first, np.concatenate([x, x + 1]))
    np.testing.assert_array_equal(second, np.concatenate([x + 2, x]))


def test_parts_of_a_concatenation_are_written_where_they_belong(x):
    """By kernels of all kinds, in any order, through views, where others of the parts are inputs or needed twice."""

    @blu.jit
    def join(x):
        square = x[:144].reshape(12, 12)
        late, early = blu.tanh(square), blu.exp(square)
        sums = blu.sum(early, axis=1)
        product = square @ square
        parts = [early, square, blu.sin(square).T, product, late, (sums * 2)[:, None], sums[:, None], late]
        both = blu.concatenate(parts, axis=1)
        upon = blu.concatenate([blu.cos(both[:1]).reshape(-1), blu.ones(3), blu.cumsum(x)])
        return both, upon, blu.concatenate([blu.concatenate([x * 3, x]), blu.sort(x)])[::-1]

    def expected(x):
        square = x[:144].reshape(12, 12)
        late, early = np.tanh(square), np.exp(square)
        sums = np.sum(early, axis=1)
        product = square @ square
        parts = [early, square, np.sin(square).T, product, late, (sums * 2)[:, None], sums[:, None], late]
        both = np.concatenate(parts, axis=1)
        upon = np.concatenate([np.cos(both[:1]).reshape(-1), np.ones(3), np.cumsum(x)])
        return both, upon, np.concatenate([x * 3, x, np.sort(x)])[::-1]

    for found, wanted in zip(join(x), expected(x.astype(np.float64)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_insertions_that_overlap_keep_their_order(x):
    @blu.jit
    def join(x):
        later = blu.concatenate([x * 2, x * 3])
        return blu.dynamic_update_slice(later, x * 4, [150]), blu.pad(blu.exp(x), [(2, 3)], 1)

    changed = np.concatenate([x * 2, x * 3])
    changed[150:350] = x * 4
    found, padded = join(x)
    np.testing.assert_array_equal(found, changed)
    np.testing.assert_allclose(padded, np.pad(np.exp(x), (2, 3), constant_values=1), rtol=1e-6)


def test_a_donated_argument_comes_back_in_another_shape(x):
    @functools.partial(blu.jit, donate=("x",))
    def reshape(x):
        return x.reshape(2, -1), x

    for found, wanted in zip(reshape(x.copy()), (x.reshape(2, -1), x), strict=True):
        np.testing.assert_array_equal(found, wanted)


SQUARES = {
    "transposed": (lambda x: x + x.T, lambda x: x + x.T),
    "transposed alone": (lambda x: (x.T * 2).T + x.T, lambda x: 2 * x + x.T),
    "rows reversed": (lambda x: x + x[::-1], lambda x: x + x[::-1]),
    "columns reversed": (lambda x: x + x[:, ::-1], lambda x: x + x[:, ::-1]),
    "another shape, reversed": (lambda x: x * x.reshape(-1)[::-1].reshape(x.shape), lambda x: x * x[::-1, ::-1]),
    "rows reversed, after its own": (
        lambda x: x - blu.max(x, axis=1, keepdims=True) + x[::-1],
        lambda x: x - x.max(1, keepdims=True) + x[::-1],
    ),
    "the next row": (lambda x: x - blu.concatenate([x[1:], x[:1]]), lambda x: x - np.roll(x, -1, 0)),
    "the first row": (lambda x: x - x[:1], lambda x: x - x[:1]),
    "the first column": (lambda x: x - x[:, :1], lambda x: x - x[:, :1]),
    "its sum": (lambda x: x - blu.sum(x, axis=1, keepdims=True), lambda x: x - x.sum(1, keepdims=True)),
    "the sum of columns": (lambda x: x - blu.sum(x, axis=0), lambda x: x - x.sum(0)),
    "elements that it chooses": (
        lambda x: x + blu.take_along_axis(x, blu.argsort(x, axis=1), axis=1),
        lambda x: x + np.sort(x, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SQUARES)
def test_what_a_donated_argument_is_read_as_twice(name):
    """Element by element and in some other way: it may only be written over when all of it has been read."""
    compute, expected = SQUARES[name]
    x = np.random.default_rng(1).standard_normal((90, 90)).astype(np.float32)
    found = blu.jit(compute, donate=("x",))(x.copy())
    np.testing.assert_allclose(found, expected(x.astype(np.float64)), rtol=1e-4, atol=1e-5)


READ_AGAIN = {
    "in its own rows only": (lambda y: blu.softmax(y, axis=-1), True),
    "transposed": (lambda y: y + y.T, False),
    "transposed, after its own rows": (lambda y: blu.softmax(y, axis=-1) + y.T, False),
    "in other rows, by another part of the kernel": (lambda y: y - blu.max(y, axis=-1, keepdims=True) + y[::-1], False),
}


@pytest.mark.parametrize("name", READ_AGAIN)
def test_an_intermediate_value_is_written_over_only_if_each_row_is_read_for_itself_on_gpus(name):
    """The plan says which of a launch's arguments are the same memory."""
    compute, is_over = READ_AGAIN[name]
    a = np.zeros((64, 64), np.float32)
    launches = compile_program(lambda a, b, c: compute(a @ b) @ c, a, a, a).plan["launches"]
    ((*read, written),) = [launch["args"] for launch in launches if launch["kernel"].startswith("rows")]
    assert (written in read) == is_over


@pytest.mark.parametrize("shape", [(3, 5, 7), (65, 700, 33), (1, 40, 50), (40, 50, 1), (0, 3, 4), (4, 0, 3)])
def test_a_product_is_added_to_a_donated_argument_in_place(shape):
    """Also where the depth is summed in blocks, and where rows and columns do not fill the last tile."""
    rows, depth, columns = shape
    rng = np.random.default_rng(0)
    left, right, total = (
        rng.integers(-3, 4, sizes).astype(np.float32) for sizes in ((rows, depth), (depth, columns), (rows, columns))
    )
    add = blu.jit(lambda total, left, right: total * 2 + left @ right, donate=("total",))
    assert add.trace(total, left, right).compile().program.outputs[0].input == 0
    np.testing.assert_array_equal(add(total.copy(), left, right), total * 2 + left @ right)


def test_what_moves_to_a_product_may_be_a_result_too():
    """The sigmoid runs where the product is formed, but does not depend on it."""
    rng = np.random.default_rng(1)
    a, b, x = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(3))

    @blu.jit
    def gated(a, b, x):
        gate = blu.sigmoid(x)
        return (a @ b) * gate + blu.tanh(x), gate * 2

    product, twice = gated(a, b, x)
    gate = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(product, a.astype(np.float64) @ b * gate + np.tanh(x), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(twice, 2 * gate, rtol=1e-6)

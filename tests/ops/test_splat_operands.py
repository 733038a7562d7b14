"""Constants whose elements are all equal, and empty slices, as operands of every family of kernels."""

from __future__ import annotations

import numpy as np

import blu
from blu.dialects.core.context import make_context
from blu.dialects.ops.creation import Constant
from blu.dialects.ops.indexing import DynamicUpdateSlice, ScatterAdd
from blu.dialects.tensor.tensor import Tensor

make_context()
X = np.arange(12, dtype=np.float32).reshape(4, 3)
ONES, ZEROS, NO_INDEX = np.ones((3, 3), np.float32), np.zeros((4, 4), np.float32), np.zeros(3, np.int64)


def _programs(x: Tensor, index: Tensor, start: Tensor) -> list[Tensor]:
    ones, zeros, no_index = Constant(value=ONES), Constant(value=ZEROS), Constant(value=NO_INDEX)
    nothing = start * 0
    return [
        zeros @ x,
        x @ ones,
        ScatterAdd(zeros, index, x @ Constant(value=np.ones((3, 4), np.float32)), axis=0),
        ScatterAdd(x, index, Constant(value=np.ones((4, 3), np.float32)), axis=0),
        ScatterAdd(x, no_index, ones, axis=0),
        DynamicUpdateSlice(zeros, x, [nothing, start]),
        DynamicUpdateSlice(x, ones, [start, nothing]),
        blu.take(ones, index, axis=0),
        blu.take(x, no_index, axis=0),
        blu.concatenate([x, ones], axis=0),
        blu.argsort(zeros, axis=0) + index,
        blu.argmax(ones, axis=1) + start,
        x[0:0] + 1,
        x[:, 0:0] @ Constant(value=np.ones((0, 5), np.float32)),
        blu.sort(x[0:0], axis=0),
    ]


def test_equal_constants_and_empty_slices_as_operands() -> None:
    index, start = np.array([1, 1, 0, 2]), np.int64(1)
    found = blu.jit(_programs)(X, index, start)
    scattered, added, first, updated = ZEROS.copy(), X.copy(), X.copy(), ZEROS.copy()
    np.add.at(scattered, index, X.sum(axis=1, keepdims=True))
    np.add.at(added, index, np.float32(1))
    first[0] += 3
    updated[:, 1:] = X
    expected = [
        ZEROS @ X,
        X @ ONES,
        scattered,
        added,
        first,
        updated,
        np.concatenate([X[:1], ONES]),
        ONES[[1, 1, 0, 2]],
        X[[0, 0, 0]],
        np.concatenate([X, ONES]),
        np.arange(4)[:, None] + index,
        np.ones(3, np.int64),
        X[0:0],
        np.zeros((4, 5), np.float32),
        X[0:0],
    ]
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        np.testing.assert_array_equal(np.asarray(one), other, err_msg=f"result {number}")

"""Gradients of tensors without elements: through every public function, through products over nothing, and views."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.core.mlir import ir
from tests.support.programs import empty_cases

GROUPS = ("pointwise", "folding", "arrangement", "contraction", "indexing", "neural")


def floats_of(arrays: tuple[np.ndarray, ...]) -> list[int]:
    return [place for place, array in enumerate(arrays) if array.dtype.kind == "f"]


def cases_of(group: str) -> list[empty_cases.Case]:
    """Cases with a float operand without elements: the last of each function and number of operands."""
    empty = [case for case in getattr(empty_cases, group)() if floats_of(case.arrays)]
    empty = [case for case in empty if not all(array.size for array in case.arrays)]
    if group != "pointwise":
        return empty
    return list({(case.names, case.arrays[-1].shape == ()): case for case in empty}.values())


def scalar_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The sum of what a function gives, as f32; of bools and integers too, whose gradients are zero."""
    return lambda *tensors: blu.sum(function(*tensors).astype("f32"))


@pytest.mark.filterwarnings("ignore:.*of no elements:RuntimeWarning", "ignore:variance of:RuntimeWarning")
@pytest.mark.parametrize("group", GROUPS)
def test_every_function_has_gradients_of_the_operands_shapes(group: str) -> None:
    cases = cases_of(group)

    def program(rows: list[list[Any]]) -> list[Any]:
        return [
            blu.grad(scalar_of(case.function), argnums=floats_of(case.arrays))(*row)
            for case, row in zip(cases, rows, strict=True)
        ]

    lowered = blu.jit(program).trace([list(case.arrays) for case in cases]).lower()
    wanted = [array for case in cases for array in case.arrays if array.dtype.kind == "f"]
    results = json.loads(ir.StringAttr(lowered.module.operation.attributes["blu.plan"]).value)["outputs"]
    assert [tuple(item["shape"]) for item in results] == [array.shape for array in wanted]
    assert {item["dtype"] for item in results} == {"f32"}


PRODUCTS = {
    "three dimensions by a matrix": (lambda a, b: a @ b, (5, 5, 0), (0, 5)),
    "three dimensions by a vector": (lambda a, b: a @ b, (5, 5, 0), (0,)),
    "four dimensions by a matrix": (lambda a, b: a @ b, (2, 3, 4, 0), (0, 5)),
    "no rows by a matrix": (lambda a, b: a @ b, (0, 3, 2), (2, 4)),
    "batches of nothing": (lambda a, b: a @ b, (2, 3, 0), (2, 0, 4)),
    "a vector by a matrix": (lambda a, b: a @ b, (0,), (0, 4)),
    "behind an index": (lambda a, b: (a @ b)[1, 2:], (5, 5, 0), (0, 5)),
    "behind a sum": (lambda a, b: blu.sum(a @ b, 1), (5, 5, 0), (0, 5)),
    "behind expand_dims": (lambda a, b: blu.expand_dims(a, 0) @ b, (5, 5, 0), (0, 5)),
    "an einsum": (lambda a, b: blu.einsum("abc,cd->dab", a, b), (5, 5, 0), (0, 5)),
    "a tensordot": (lambda a, b: blu.tensordot(a, b, 1), (5, 5, 0), (0, 5)),
}


def test_products_over_no_elements_have_gradients_of_nothing_and_zeros() -> None:
    pairs = [(np.ones(left), np.ones(right)) for _, left, right in PRODUCTS.values()]
    functions = [function for function, _, _ in PRODUCTS.values()]

    def program(pairs: list[list[Any]]) -> list[Any]:
        both = zip(functions, pairs, strict=True)
        return [(f(*pair), blu.grad(scalar_of(f), argnums=(0, 1))(*pair)) for f, pair in both]

    for name, pair, (result, gradients) in zip(PRODUCTS, pairs, blu.jit(program)(pairs), strict=True):
        assert not np.asarray(result).any(), name
        for array, gradient in zip(pair, gradients, strict=True):
            np.testing.assert_array_equal(np.asarray(gradient), np.zeros(array.shape), err_msg=name)


EMPTY_OPERANDS = {
    "stacked, then transposed": (lambda x, y: blu.stack([x, x, x], axis=1) @ y, (0, 4), (0, 4, 7)),
    "joined, then multiplied": (lambda x, y: blu.concatenate([x, x], 0) @ y, (2, 0), (0, 3)),
    "joined, then transposed": (lambda x, y: blu.concatenate([x, x], 1).T @ y, (3, 0), (3, 2)),
    "joined, then exponentiated": (lambda x, y: blu.exp(blu.concatenate([x, x], 1)) @ y, (3, 0), (0, 2)),
    "joined, then sorted": (lambda x, y: blu.sort(blu.concatenate([x, x], 0), 1) @ y, (0, 3), (3, 2)),
    "joined, then scattered into": (
        lambda x, y: blu.scatter_add(blu.concatenate([x, x], 1), np.zeros(2, np.int64), y),
        (3, 0),
        (2, 0),
    ),
    "joined, then returned reshaped": (lambda x, y: blu.concatenate([x, x], 0).reshape(3, 0) @ y.T, (0, 3), (2, 0)),
}


@pytest.mark.parametrize("target", ["cpu", "sm_80", "sm_90a"])
def test_values_of_no_elements_reach_views_and_kernels(target: str) -> None:
    """For GPUs the IR of the kernels is enough: no result has an element that is not a sum of nothing."""
    pairs = [(np.ones(left, np.float32), np.ones(right, np.float32)) for _, left, right in EMPTY_OPERANDS.values()]
    functions = [function for function, _, _ in EMPTY_OPERANDS.values()]

    def program(pairs: list[list[Any]]) -> list[Any]:
        both = zip(functions, pairs, strict=True)
        return [(f(*pair), blu.grad(scalar_of(f), argnums=(0, 1))(*pair)) for f, pair in both]

    compiled = blu.jit(program, target=target)
    if target != "cpu":
        assert compiled.trace(pairs).lower().module is not None
        return
    for name, pair, (result, gradients) in zip(EMPTY_OPERANDS, pairs, compiled(pairs), strict=True):
        assert not np.asarray(result).any(), name
        assert [item.shape for item in gradients] == [array.shape for array in pair], name


@pytest.mark.parametrize("shape", [(0, 1, -1), (-1, 0), (-1, 0, 3)])
def test_a_size_that_could_be_any_is_refused_as_in_numpy(shape: tuple[int, ...]) -> None:
    x = np.ones((0, 2))
    with pytest.raises(ValueError, match="cannot reshape"):
        x.reshape(shape)
    with pytest.raises(blu.BluError, match=r"leaves the size -1 open.*\n.*any would do"):
        blu.reshape(x, shape)


@pytest.mark.parametrize("shape", [(5, -1), (-1,), (-1, 7), (1, -1, 2)])
def test_a_size_that_only_zero_fits_is_found_as_in_numpy(shape: tuple[int, ...]) -> None:
    x = np.ones((0, 2))
    assert blu.reshape(x, shape).shape == x.reshape(shape).shape

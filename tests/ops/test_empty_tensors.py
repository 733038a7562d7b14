"""Row 6: tensors of no elements and of no dimensions, through every public function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import blu
from blu.frontend.functional import collective, convolutions, functional, pooling, resizing, sampling
from tests.support.programs import empty_cases

GROUPS = ("pointwise", "folding", "arrangement", "contraction", "indexing", "neural", "losses", "composed")


@pytest.mark.parametrize("group", GROUPS)
def test_row_06_every_function_gives_numpys_result(group: str) -> None:
    cases = list(getattr(empty_cases, group)())

    def program(arguments: list[list[Any]]) -> list[Any]:
        return [case.function(*tensors) for case, tensors in zip(cases, arguments, strict=True)]

    found = blu.jit(program, name=group)([list(case.arrays) for case in cases])
    for case, one in zip(cases, found, strict=True):
        expected = np.asarray(case.reference(*case.arrays))
        assert (one.shape, one.dtype) == (expected.shape, expected.dtype), str(case)
        np.testing.assert_allclose(np.asarray(one), expected, rtol=1e-5, atol=1e-6, err_msg=str(case))


def test_row_06_no_function_is_forgotten() -> None:
    cases = {name for case in empty_cases.all_cases() for name in case.names.split()}
    # Ranks exchange nothing of empty tensors, and windows have sizes of their own (windows/).
    others = {*collective.__all__, *convolutions.__all__, *pooling.__all__, *resizing.__all__, *sampling.__all__}
    assert set(functional.HOMES) - others == cases


def nothing_to_choose() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Functions that must pick an element of [0, 3], where there is none."""
    for name in ("max", "min", "argmax", "argmin"):
        yield name, lambda x, name=name: getattr(blu, name)(x, 0)
        yield name, lambda x, name=name: getattr(blu, name)(x)
    yield "take", lambda x: blu.take(x, 0, 0)


@pytest.mark.parametrize(("name", "function"), list(nothing_to_choose()))
def test_row_06_choosing_from_nothing_is_an_error(name: str, function: Callable[[Any], Any]) -> None:
    empty = np.zeros((0, 3), np.float32)
    with pytest.raises((ValueError, IndexError), match=rf"test_empty_tensors\.py:\d+: {name}: ") as caught:
        blu.jit(function)(empty)
    assert isinstance(caught.value, blu.BluError)
    assert "no elements" in str(caught.value) or "out of range" in str(caught.value)


@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_row_06_the_mean_of_nothing_is_nan_with_a_warning_at_the_line(name: str) -> None:
    empty = np.zeros((0, 3), np.float32)
    with pytest.warns(RuntimeWarning) as caught:
        found = blu.jit(lambda x: getattr(x, name)(0))(empty)
    np.testing.assert_array_equal(np.asarray(found), np.full(3, np.nan, np.float32))
    assert all(warning.filename == __file__ for warning in caught)


def test_row_06_the_loss_of_no_rows_is_nan() -> None:
    logits, targets = np.zeros((0, 5), np.float32), np.zeros((0,), np.int64)
    assert np.isnan(blu.jit(blu.cross_entropy)(logits, targets).item())


@pytest.mark.parametrize("function", [lambda x: blu.asarray(len(x)), list, lambda x: x[0]])
def test_row_06_a_tensor_without_dimensions_has_no_elements(function: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"0-d|0 dimensions"):
        blu.jit(function)(np.float32(1))

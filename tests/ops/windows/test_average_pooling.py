"""What averages over windows count, where windows reach beyond the end, against the matrix that says so."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import blu
from blu.errors import ArgumentError

# Size, window, stride, padding.
FORMS = ((7, 3, 2, 0), (7, 3, 2, 1), (8, 4, 3, 2), (6, 4, 4, 2), (5, 2, 3, 1), (8, 3, 2, 0), (6, 2, 2, 0))
OPTIONS = [{"ceil_mode": ceil, "count_include_pad": pads} for ceil, pads in itertools.product((False, True), repeat=2)]
DIVISORS = [{"divisor_override": 5}, {"divisor_override": 2, "ceil_mode": True}]
CASES: list[tuple[tuple[int, int, int, int], dict[str, Any]]] = list(itertools.product(FORMS, OPTIONS + DIVISORS))


def weights(
    form: tuple[int, int, int, int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: float | None = None,
) -> np.ndarray:
    """What each element counts in each window: [count, size]. Windows begin in the elements or in the padding before.

    None counts what lies beyond the padding.
    """
    size, window, stride, padding = form
    starts = range(-padding, size if ceil_mode else size + padding - window + 1, stride)
    rows = []
    for start in starts:
        own = np.arange(start, min(start + window, size + padding))
        inside = own[(own >= 0) & (own < size)]
        number = divisor_override or (len(own) if count_include_pad else len(inside))
        rows.append(np.bincount(inside, minlength=size) / number)
        if start + window >= size + padding:
            break
    return np.array(rows)


def test_averages_count_what_is_asked_for() -> None:
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal((1, 2, form[0])) for form, _ in CASES]
    matrices = [weights(form, **options) for form, options in CASES]
    given = [rng.standard_normal((1, 2, len(matrix))) for matrix in matrices]

    @blu.jit
    def pooled(operands: list[Any], given: list[Any]) -> Any:
        results = []
        for ((_, *form), options), x, g in zip(CASES, operands, given, strict=True):
            y, pull_back = blu.vjp(lambda x, form=form, options=options: blu.avg_pool1d(x, *form, **options), x)
            results.append((y, *pull_back(g)))
        return results

    found = pooled(operands, given)
    for case, x, matrix, g, (y, gradient) in zip(CASES, operands, matrices, given, found, strict=True):
        np.testing.assert_allclose(y, x @ matrix.T, rtol=1e-12, atol=1e-12, err_msg=str(case))
        np.testing.assert_allclose(gradient, g @ matrix, rtol=1e-12, atol=1e-12, err_msg=str(case))


def test_each_dimension_has_its_own_count() -> None:
    x = np.random.default_rng(1).standard_normal((7, 8))
    found = blu.jit(lambda x: blu.avg_pool2d(x, (3, 4), (2, 3), (1, 2), False, ceil_mode=True))(x[None, None])
    rows, columns = (weights(form, True, False) for form in ((7, 3, 2, 1), (8, 4, 3, 2)))
    np.testing.assert_allclose(found[0, 0], rows @ x @ columns.T, rtol=1e-12)


def test_nothing_is_divided_by_zero() -> None:
    with pytest.raises(ArgumentError, match="divisor_override must not be zero"):
        blu.jit(lambda x: blu.avg_pool1d(x, 2, divisor_override=0))(np.ones((1, 1, 4)))

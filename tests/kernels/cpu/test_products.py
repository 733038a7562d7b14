"""Matrix products on CPUs at all kinds of sizes: compiled programs against exact numbers, element by element."""

from __future__ import annotations

import numpy as np
import pytest

import blu
from tests.support.kernels.product_cases import EPILOGUES, INTEGERS, Case, random_case, table

FLOATS = ("bf16", "f16", "f32", "f64")


def check(case: Case) -> None:
    """Compile a product for this machine and run it."""
    arrays = case.arrays()
    case.check([np.asarray(item) for item in blu.jit(case.compute)(*arrays)])


# Rows of registers and of a thread's share, columns of a vector and of a panel, and k that is packed in pieces.
SIZES = [(1, 1, 1), (7, 17, 31), (13, 63, 65), (33, 241, 9), (130, 50, 600), (65, 129, 64), (97, 7, 1030)]
TILES = table(FLOATS, SIZES, epilogue=EPILOGUES, batch=[(), (), (2,)], offset=[0, 8, 1, 0, 2])
EMPTY = table(FLOATS, [(0, 5, 7), (5, 0, 7), (5, 7, 0)], ["nn", "tt"], batch=[(2, 0), (), ()])
APART = table(FLOATS, [(6, 70, 40), (33, 9, 65), (1, 40, 33)], ["nt", "tn"], step=[2, 3], offset=[0, 1, 3])
# Of one row up to one more than those that are read beside a matrix.
FEW_ROWS = [(1, 129, 264), (4, 24, 72), (2, 9, 512), (5, 33, 8), (16, 65, 100), (17, 12, 33), (3, 1, 1000)]
FEW = table(FLOATS, FEW_ROWS, ["nn", "nt"], epilogue=["bias", "two", "none"], batch=[(), (2,), (3, 2)])
WHOLE = table(INTEGERS, [(3, 65, 7), (33, 5, 64), (2, 3, 0), (70, 33, 129)], ["nn", "tt"], batch=[(), (3,)])


@pytest.mark.parametrize("case", TILES, ids=str)
def test_tiles_and_what_is_beyond_them(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", EMPTY, ids=str)
def test_sizes_of_0(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", APART, ids=str)
def test_factors_without_neighbours_in_memory(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_few_rows(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("case", WHOLE, ids=str)
def test_integers(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("seed", range(8))
def test_random_products(seed: int) -> None:
    check(random_case(seed, FLOATS, [0, 1, 2, 3, 5, 15, 16, 17, 33, 64, 65, 97, 129, 257]))

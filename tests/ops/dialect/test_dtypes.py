"""Promotion against NumPy, and docs/dtypes.md against the code."""

from __future__ import annotations

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from blu.dialects.core.dtypes import DTYPES, as_dtype, bf16, bool_, f16, f32, f64, i8, i64, promote, promote_scalar, u8
from blu.errors import DTypeError
from tests.support.folders import ROOT

DOCUMENT = ROOT / "docs" / "dtypes.md"


def test_promotion_is_numpys() -> None:
    for left, right in product([dtype for dtype in DTYPES if dtype != bf16], repeat=2):
        assert promote(left, right).numpy == np.promote_types(left.numpy, right.numpy)


def test_promotion_is_symmetric_and_bf16_is_a_half() -> None:
    for left, right in product(DTYPES, repeat=2):
        assert promote(left, right) == promote(right, left)
    for other in DTYPES:
        if other not in (f16, bf16):
            expected = promote(f16, other)
            assert promote(bf16, other) == (bf16 if expected == f16 else expected)
    assert promote(bf16, f16) == f32


def test_the_documented_table_is_true() -> None:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| **")]
    names = [dtype.name for dtype in DTYPES]
    assert len(lines) == len(names)
    for line, left in zip(lines, DTYPES, strict=True):
        cells = [cell.strip(" *") for cell in line.strip("|").split("|")]
        assert cells == [left.name, *(promote(left, right).name for right in DTYPES)]


def test_python_scalars_raise_only_the_kind() -> None:
    assert promote_scalar(i8, 1) == promote_scalar(i8, True) == i8
    assert promote_scalar(bool_, 1) == i64 and promote_scalar(bool_, 1.0) == promote_scalar(i8, 1.0) == f64
    assert promote_scalar(f16, 1e30) == f16 and promote_scalar(bf16, 10**9) == bf16
    with pytest.raises(DTypeError, match=r"-1 does not fit u8, which holds 0\.\.255"):
        promote_scalar(u8, -1)


@pytest.mark.parametrize(
    ("value", "name"),
    [(f32, "f32"), ("f32", "f32"), ("float32", "f32"), (np.int8, "i8"), (int, "i64"), (float, "f64"), (bool, "bool"),
     (np.dtype(">f8"), "f64"), ("bfloat16", "bf16"), (ml_dtypes.bfloat16, "bf16"),
     ("float8_e5m2", "f8e5m2"), (ml_dtypes.float8_e4m3fn, "f8e4m3")],
)  # fmt: skip
def test_dtypes_are_read_in_all_spellings(value: object, name: str) -> None:
    assert as_dtype(value).name == name


@pytest.mark.parametrize("value", ["f8", "i4", ">f4", np.complex64, "float8_e4m3fnuz", None, 3, object])
def test_other_dtypes_are_refused(value: object) -> None:
    with pytest.raises(DTypeError, match="is not a dtype"):
        as_dtype(value)

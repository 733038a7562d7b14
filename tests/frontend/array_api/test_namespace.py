"""`blu.array_api`: what it has, by the signatures of NumPy's main namespace, which follows the same standard."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import blu
import blu.array_api as xp
from blu.errors import BluError
from tests.support.folders import ROOT

FAMILIES = [(xp, np), (xp.linalg, np.linalg), (xp.fft, np.fft)]
# Of fill_value and others, NumPy's functions in C say no names.
REQUIRED = {
    "sum": "axis dtype keepdims",
    "prod": "axis dtype keepdims",
    "max": "axis keepdims",
    "mean": "axis keepdims",
    "var": "axis correction keepdims",
    "std": "axis correction keepdims",
    "all": "axis keepdims",
    "argmax": "axis keepdims",
    "count_nonzero": "axis keepdims",
    "cumulative_sum": "axis dtype include_initial",
    "cumulative_prod": "axis dtype include_initial",
    "diff": "axis n prepend append",
    "sort": "axis descending stable",
    "argsort": "axis descending stable",
    "searchsorted": "side sorter",
    "clip": "min max",
    "concat": "axis",
    "stack": "axis",
    "roll": "shift axis",
    "repeat": "axis",
    "flip": "axis",
    "squeeze": "axis",
    "reshape": "shape copy",
    "expand_dims": "axis",
    "permute_dims": "axes",
    "unstack": "axis",
    "take": "axis",
    "isin": "invert",
    "astype": "copy device",
    "asarray": "dtype device copy",
    "arange": "stop step dtype device",
    "linspace": "num dtype device endpoint",
    "eye": "k dtype device",
    "zeros": "shape dtype device",
    "full": "shape fill_value dtype device",
    "zeros_like": "dtype device",
    "full_like": "fill_value dtype device",
    "meshgrid": "indexing",
    "tril": "k",
    "from_dlpack": "device copy",
    "vecdot": "axis",
    "tensordot": "axes",
    "matrix_norm": "keepdims ord",
    "vector_norm": "axis keepdims ord",
    "trace": "offset dtype",
    "diagonal": "offset",
    "qr": "mode",
    "svd": "full_matrices",
    "cholesky": "upper",
    "pinv": "rtol",
    "fft": "n axis norm",
    "rfftn": "s axes norm",
    "fftfreq": "d dtype device",
}


def test_the_document_lists_all_names() -> None:
    table = (ROOT / "docs/array-api.md").read_text().partition("## What there is")[2].partition("\n\nFunctions are")[0]
    rows = dict(re.findall(r"^\| (\S[^|]*?) \| (.*) \|$", table, re.MULTILINE))
    words = {row: set(" ".join(re.findall(r"`([\w ]+)`", text)).split()) for row, text in rows.items()}
    assert words.pop("`linalg`") == set(xp.linalg.__all__) and words.pop("`fft`") == set(xp.fft.__all__)
    has = {name for name in vars(xp) if not name.startswith("_") and not inspect.ismodule(getattr(xp, name))}
    assert set.union(*words.values()) == has | {"__array_namespace_info__"}


@pytest.mark.parametrize("name", REQUIRED)
def test_functions_take_the_standards_keywords(name: str) -> None:
    [function] = {getattr(home, name) for home, _ in FAMILIES if callable(getattr(home, name, None))}
    parameters = inspect.signature(function).parameters.values()
    keywords = {item.name for item in parameters if item.kind in (item.KEYWORD_ONLY, item.POSITIONAL_OR_KEYWORD)}
    assert set(REQUIRED[name].split()) <= keywords and function.__doc__


def test_dtypes_are_those_of_arrays_and_of_tensors() -> None:
    seen = {}

    def program(x: Any) -> Any:
        seen["tensor"] = x.dtype
        assert x.__array_namespace__(api_version="2025.12") is xp and x.device is None
        return xp.zeros_like(x) + x.mT.mT.to_device("cpu")

    found = blu.jit(program)(np.ones((2, 2), np.float32))
    assert found.dtype == xp.float32 == seen["tensor"] and seen["tensor"] == xp.float32 != xp.float64
    assert found.__array_namespace__() is blu.array_api is xp and xp.__array_api_version__ == "2025.12"
    assert {xp.float32: 1}[seen["tensor"]] == 1 and xp.isdtype(seen["tensor"], ("bool", "real floating"))
    with pytest.raises(BluError, match=r"no version '2019\.01'"):
        found.__array_namespace__(api_version="2019.01")


def test_what_dtypes_say() -> None:
    assert xp.result_type(xp.int8, xp.asarray([1], dtype=xp.uint8), 3) == xp.int16
    assert xp.result_type(xp.float32, 1j) == xp.complex64 and xp.result_type(xp.bfloat16, xp.float32) == xp.float32
    assert xp.can_cast(xp.int8, xp.int32) and not xp.can_cast(xp.asarray([1.0]), xp.float32)
    assert xp.isdtype(xp.uint16, "integral") and not xp.isdtype(xp.complex64, "real floating")
    assert xp.isdtype(xp.int8, xp.int8) and xp.isdtype(xp.bfloat16, "numeric")
    assert (xp.finfo(xp.complex64).bits, xp.finfo(xp.asarray(1.0)).eps) == (32, 2.0**-52)
    assert (xp.iinfo(xp.uint8).max, xp.iinfo("int64").min) == (255, -(2**63))
    for wrong in (lambda: xp.finfo(xp.int8), lambda: xp.iinfo(xp.float32), lambda: xp.isdtype(xp.int8, "whole")):
        with pytest.raises((TypeError, ValueError)):
            wrong()
    with pytest.raises(ValueError, match="at least one"):
        xp.result_type(1, 2)


def test_what_the_namespace_says_of_itself() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_device() in info.devices() and info.default_dtypes()["real floating"] == xp.asarray(1.0).dtype
    assert info.default_dtypes()["integral"] == xp.asarray(1).dtype == info.default_dtypes()["indexing"]
    assert list(info.dtypes(kind="signed integer")) == ["int8", "int16", "int32", "int64"]
    assert len(info.dtypes()) == 13 and info.dtypes(kind=("bool", "complex floating")).keys() == {
        *("bool", "complex64", "complex128")
    }
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}


def test_arrays_of_other_libraries_are_read_without_a_copy() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.arange(3.0)
    ours = xp.from_dlpack(theirs)
    theirs[0] = 7
    assert isinstance(ours, blu.Array) and ours[0].item() == 7 and xp.from_dlpack(ours) is ours
    assert xp.from_dlpack(ours, copy=True)[0].item() == 7
    assert ours.to_device("cpu") is ours and ours.device == "cpu"
    with pytest.raises(BluError, match="no device 'tpu'"):
        ours.to_device("tpu")
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1, 2], copy=False)
    with pytest.raises(OverflowError, match="64 bits"):
        xp.asarray(2**70)
    with pytest.raises(TypeError, match="no numbers"):
        xp.asarray("text")

"""fp8 as a dtype of tensors: it is stored, moved and converted, and refused by what computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import blu
from blu.dialects.core.constants import decode, encode
from blu.dialects.core.context import make_context
from blu.dialects.core.mlir import ir
from tests.support.kernels import float8_cases
from tests.support.kernels.float8_cases import NARROW, codes


def test_conversions_are_those_of_ml_dtypes_to_the_bit() -> None:
    arrays = float8_cases.arguments()
    found = blu.jit(float8_cases.conversions)(*arrays)
    float8_cases.check([np.asarray(item) for item in found], arrays)


@pytest.mark.parametrize("narrow", NARROW)
def test_conversions_are_those_of_torch(narrow: str) -> None:
    """Within the range: beyond it torch 2.13 gives the largest e4m3, where ml_dtypes has NaN."""
    torch = pytest.importorskip("torch")
    dtype = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}[narrow]
    single = float8_cases.around_midpoints(narrow)
    single = single[np.abs(single) <= 464] if narrow == "f8e4m3" else single
    found = np.asarray(blu.jit(lambda x: x.astype(narrow))(single))
    theirs = torch.from_numpy(single).to(dtype)
    is_number = ~np.isnan(theirs.float().numpy())
    assert np.array_equal(is_number, ~float8_cases.is_nan(found))
    assert np.array_equal(found.view(np.uint8)[is_number], theirs.view(torch.uint8).numpy()[is_number])


@pytest.mark.parametrize("narrow", NARROW)
def test_constants_keep_their_bits(narrow: str) -> None:
    with make_context(), ir.Location.unknown():
        for value in (codes(narrow), codes(narrow)[3], codes(narrow)[100:132].reshape(2, 16)[:, :7]):
            again = decode(ir.Attribute.parse(str(encode(np.asarray(value)))))
            assert again.dtype == value.dtype and again.tobytes() == value.tobytes()


@pytest.mark.parametrize("narrow", NARROW)
def test_what_moves_numbers_keeps_their_bits(narrow: str) -> None:
    """NaN included; a scan, a branch and constants beside the ops whose samples there are."""
    given = codes(narrow)

    def moved(x: Any, flag: Any) -> list[Any]:
        chosen = blu.cond(flag, lambda: x[:16], lambda: x[16:32])
        rows = blu.scan(lambda carry, row: (row, carry[::-1]), x[:16], x.reshape(16, 16))
        beside = blu.concatenate([blu.asarray(given[:40]), x])
        return [blu.where(flag, x, x[::-1]), chosen, *rows, beside, blu.stack([x, x], axis=1), x.reshape(16, 16).T]

    found = [np.asarray(item) for item in blu.jit(moved)(given, np.array(False))]
    square = given.reshape(16, 16)
    kept = np.concatenate([given[None, :16], square[:-1]])[:, ::-1]
    wanted = [given[::-1], given[16:32], square[-1], kept, np.concatenate([given[:40], given])]
    for one, other in zip(found, [*wanted, np.stack([given, given], 1), square.T], strict=True):
        assert one.dtype == other.dtype and one.tobytes() == other.tobytes()


COMPUTING = {
    "add": lambda x: x + x,
    "add a number": lambda x: x + 1,
    "exp": blu.exp,
    "compare": lambda x: x < x,
    "sum": blu.sum,
    "mean": blu.mean,
    "softmax": blu.softmax,
    "sort": blu.sort,
    "gelu": blu.gelu,
    "arange": lambda x: blu.arange(3, dtype=x.dtype),
}


@pytest.mark.parametrize("name", COMPUTING)
def test_what_computes_says_to_cast(name: str) -> None:
    with pytest.raises(blu.BluError, match="f8e4m3") as caught:
        blu.jit(COMPUTING[name])(codes("f8e4m3"))
    assert "x.astype('bf16')" in caught.value.advice


def test_there_is_no_common_dtype() -> None:
    x = codes("f8e4m3")
    for other in (codes("f8e5m2"), np.ones(256, np.float32)):
        with pytest.raises(blu.BluError, match="have no common dtype"):
            blu.jit(lambda a, b: a * b)(x, other)


def test_gradients_pass_a_cast_as_they_are() -> None:
    """They are f32 beside fp8: nothing is rounded on the way back, or lost beyond the range."""
    x = np.array([1.07, -3.3, 200.0, 0.0], np.float32)

    def loss(x: Any) -> Any:
        stored = x.astype("f8e4m3")
        both = blu.concatenate([stored, stored[:2]])[1:].reshape(5, 1)
        return blu.sum(blu.take(both, np.array([0, 4, 0]), axis=0).astype("f32") * np.float32(1.01)) * 1000

    gradient = np.asarray(blu.grad(loss)(x))
    np.testing.assert_allclose(gradient, [0.0, 3030.0, 0.0, 0.0], rtol=1e-6)
    rounded = x.astype(NARROW["f8e4m3"]).astype(np.float32)
    slope = blu.grad(lambda x: blu.sum(x.astype("f8e4m3").astype("f32") ** 2))(x)
    np.testing.assert_allclose(np.asarray(slope), 2 * rounded, rtol=1e-6)


def test_stored_weights_have_no_gradient_themselves() -> None:
    x, w = np.array([1.0, 2.0], np.float32), np.array([2.0, 3.0]).astype(NARROW["f8e5m2"])

    def loss(x: Any, w: Any) -> Any:
        return blu.sum(blu.scan(lambda total, v: (total * v.astype("f32"), None), x, w)[0])

    of_x, of_w = blu.grad(loss, argnums=(0, 1))(x, w)
    assert np.asarray(of_x).tolist() == [6.0, 6.0] and of_w is None
    with pytest.raises(blu.BluError, match=r"blu.scan has no gradient of a f8e5m2\[2\]"):
        blu.grad(lambda x: loss(x, x.astype("f8e5m2")))(x)

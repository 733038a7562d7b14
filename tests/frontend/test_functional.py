"""The NumPy-like functions against NumPy. Programs run by the references; test_functional_eager.py compiles some."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from blu.dialects.core.dtypes import DTYPES, TensorType, as_dtype, f32, i32
from blu.dialects.hooks import HOOKS, TracerHooks
from blu.errors import DTypeError, ShapeError, TraceError
from blu.frontend.functional import functional as blu
from tests.support.programs.traced import FILE, LINE, evaluated, traced

RNG = np.random.default_rng(0)
X = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)
Y = RNG.uniform(-3, 3, (2, 3, 4)).astype(np.float32)
COUNTS = np.arange(24, dtype=np.int32).reshape(2, 3, 4) - 5
NUMPY_DTYPES = [dtype for dtype in DTYPES if dtype.name != "bf16"]


def check(function: Any, expected: Any, *arrays: np.ndarray) -> None:
    """A function of tensors gives NumPy's shape, dtype and numbers."""
    found = evaluated(function, *arrays)
    results = found if isinstance(found, list) else [found]
    wanted = expected if isinstance(expected, list | tuple) else [expected]
    for one, other in zip(results, wanted, strict=True):
        other = np.asarray(other)
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(one, other, rtol=3e-6 if other.dtype == np.float32 else 1e-3, atol=1e-6)


def same(name: str, *arrays: np.ndarray, **keywords: Any) -> None:
    """The function of this name gives what NumPy's gives."""
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(*arrays, **keywords)
    check(lambda *tensors: getattr(blu, name)(*tensors, **keywords), expected, *arrays)


# fmt: off
UNARY = (
    "absolute", "negative", "sign", "floor", "ceil", "trunc", "square", "sqrt", "cbrt", "exp", "exp2", "expm1", "log",
    "log2", "log10", "log1p", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh", "arcsinh", "isnan", "isinf",
    "isfinite", "logical_not", "reciprocal",
)
BINARY = (
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "maximum", "minimum", "power", "arctan2",
    "copysign", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift", "logaddexp",
)
# fmt: on


def numpy_result(name: str, *arrays: Any) -> np.ndarray | None:
    """NumPy's result, or None where NumPy refuses the dtypes."""
    try:
        with np.errstate(all="ignore"):
            return getattr(np, name)(*arrays)
    except TypeError:
        return None


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_give_numpy_dtypes(name: str) -> None:
    for dtype in NUMPY_DTYPES:
        array = np.array([1, 0, 1, 1]).astype(dtype.numpy)
        expected = numpy_result(name, array)
        if expected is None:
            with pytest.raises(DTypeError, match="does not take"):
                traced(getattr(blu, name), [TensorType((4,), dtype)])
        elif name == "reciprocal" and not dtype.is_float:
            assert evaluated(blu.reciprocal, array).dtype.kind == "f"  # NumPy's integer reciprocal is of no use
        else:
            check(getattr(blu, name), expected, array)


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_promote_as_numpy(name: str) -> None:
    for left, right in itertools.product(NUMPY_DTYPES, repeat=2):
        arrays = np.array([3, 1, 0]).astype(left.numpy), np.array([1, 2, 1]).astype(right.numpy)
        expected = numpy_result(name, *arrays)
        if expected is None:
            with pytest.raises(DTypeError):
                traced(getattr(blu, name), [TensorType((3,), left), TensorType((3,), right)])
        else:
            check(getattr(blu, name), expected, *arrays)


@pytest.mark.parametrize("scalar", [True, 2, 2.5])
@pytest.mark.parametrize("name", ["add", "multiply", "divide", "less", "power", "maximum", "floor_divide"])
def test_python_scalars_are_weak(name: str, scalar: float) -> None:
    for dtype in NUMPY_DTYPES:
        array = np.array([3, 1, 1]).astype(dtype.numpy)
        with np.errstate(all="ignore"):
            expected = getattr(np, name)(array, scalar)
            reflected = getattr(np, name)(scalar, array)
        check(lambda tensor: getattr(blu, name)(tensor, scalar), expected, array)
        check(lambda tensor: getattr(blu, name)(scalar, tensor), reflected, array)


def test_numpy_scalars_are_strong() -> None:
    check(lambda x: x + np.float64(1), X + np.float64(1), X)
    check(lambda x: x * np.int64(2), COUNTS * np.int64(2), COUNTS)
    check(lambda x: (np.float64(2) * x, Y - x, COUNTS // x), [np.float64(2) * X, Y - X, COUNTS // X], X)
    one = np.float32(1)
    check(lambda x: (one < x, Y == x), [one < X, X == Y], X)  # noqa: SIM300 (the array on the left)


def test_bf16_promotes_as_f16_does() -> None:
    def result(left: str, right: str) -> str:
        types = [TensorType((2,), as_dtype(name)) for name in (left, right)]
        module = traced(blu.add, types)
        return str(module.body.operations[0].type.results[0].element_type)

    assert result("bf16", "f16") == "f32"
    assert result("bf16", "bf16") == result("bf16", "i8") == result("bf16", "bool") == "bf16"
    assert result("bf16", "i16") == result("bf16", "f32") == "f32"
    assert result("bf16", "i32") == result("i64", "bf16") == "f64"
    half = np.ones(2, ml_dtypes.bfloat16)
    assert evaluated(lambda x: x * 3.5 + 1, half).dtype == ml_dtypes.bfloat16


def test_integers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DTypeError, match=r"300 does not fit u8, which holds 0\.\.255"):
        traced(lambda x: x + 300, [TensorType((2,), as_dtype("u8"))])
    with pytest.raises(DTypeError, match="does not fit i64"):
        traced(lambda: blu.asarray(2**63), [])
    with pytest.raises(DTypeError, match="3000000000 does not fit i32"):
        traced(lambda x: x * 3_000_000_000, [TensorType((2,), i32)])


def test_comparisons_with_integers_beyond_the_dtype() -> None:
    array = np.array([0, 255], np.uint8)
    for scalar in (300, -1, 255):
        check(lambda x, scalar=scalar: x < scalar, array < scalar, array)
        check(lambda x, scalar=scalar: x == scalar, array == scalar, array)


def test_floats_that_overflow_become_infinite() -> None:
    check(lambda x: x * 1e10, np.full(2, np.inf, np.float16), np.ones(2, np.float16))


@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5, 0, 0.5, 2.0, -1.0, 2.5, True])
def test_powers(exponent: float) -> None:
    positive = np.abs(X)
    check(lambda x: x**exponent, positive**exponent, positive)
    if exponent >= 0:
        check(lambda x: x**exponent, np.abs(COUNTS) ** exponent, np.abs(COUNTS))
    check(lambda x: 2**x, 2**positive, positive)


def test_negative_powers_of_integers_are_refused() -> None:
    with pytest.raises(DTypeError, match="integers have no negative powers"):
        traced(lambda x: x**-1, [TensorType((2,), i32)])


def test_operators_and_methods() -> None:
    check(lambda x, y: -x + y - 1.5 * x / y, -X + Y - np.float32(1.5) * X / Y, X, Y)
    check(lambda x: (x // 3, x % 3, 7 // (x + 6), x << 1, x >> 1), [
        COUNTS // 3, COUNTS % 3, 7 // (COUNTS + 6), COUNTS << 1, COUNTS >> 1], COUNTS)  # fmt: skip
    check(lambda x: (x & 3) | (x ^ 5), (COUNTS & 3) | (COUNTS ^ 5), COUNTS)
    check(lambda x: ~x, ~COUNTS, COUNTS)
    check(lambda x: abs(x), abs(X), X)
    check(lambda x: (x > 0) & (x <= 2), (X > 0) & (X <= 2), X)
    check(lambda x: x.sum(axis=1).exp(), np.exp(X.sum(axis=1)), X)
    check(lambda x: x.T, X.T, X)
    check(lambda x, y: x @ y.swapaxes(-1, -2), X @ np.swapaxes(Y, -1, -2), X, Y)
    check(lambda x: x.astype("i32"), X.astype(np.int32), X)
    assert evaluated(lambda x: blu.asarray(float(len(x))), X) == 2.0
    check(lambda x: [part.sum() for part in x], [X[0].sum(), X[1].sum()], X)


REDUCTIONS = ["sum", "prod", "max", "min", "any", "all", "mean", "var", "std"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
def test_reductions(name: str, axis: Any) -> None:
    for keepdims in (False, True):
        same(name, X, axis=axis, keepdims=keepdims)
        same(name, COUNTS, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_give_numpy_dtypes(name: str) -> None:
    for dtype in NUMPY_DTYPES:
        array = np.array([1, 0, 1]).astype(dtype.numpy)
        expected = np.asarray(getattr(np, name)(array))
        found = evaluated(getattr(blu, name), array)
        wanted = expected.dtype
        if name in ("var", "std") and dtype.name in ("bool", "i8", "u8", "i16"):
            wanted = np.dtype(np.float64)
        assert found.dtype == wanted
        np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_reductions_of_nothing() -> None:
    empty = np.zeros((0, 3), np.float32)
    check(lambda x: x.sum(axis=0), np.zeros(3, np.float32), empty)
    check(lambda x: x.prod(), np.ones((), np.float32), empty)
    check(lambda x: x.max(axis=1), np.zeros(0, np.float32), empty)
    for function in (blu.max, blu.min, blu.argmax):
        with pytest.raises(ShapeError, match=rf"{FILE}:{LINE}: .*no elements along axes"):
            traced(lambda x, function=function: function(x, 0), [TensorType((0, 3), f32)])
    with pytest.warns(RuntimeWarning, match="mean of no elements"):
        assert np.isnan(evaluated(blu.mean, empty))


def test_more_reductions() -> None:
    for axis in (None, 0, -1):
        same("argmax", X, axis=axis)
        same("argmin", X, axis=axis)
        same("cumsum", X, axis=axis)
        same("cumsum", COUNTS.astype(np.int8), axis=axis)
    check(lambda x: blu.argmax(x, keepdims=True), np.argmax(X, keepdims=True), X)
    check(lambda x: x.sum(dtype="f64"), X.sum(dtype=np.float64), X)
    check(lambda x: x.var(1, correction=1), X.var(1, ddof=1), X)
    expected = np.log(np.exp(X.astype(np.float64)).sum(-1)).astype(np.float32)
    check(lambda x: blu.logsumexp(x, -1), expected, X)
    edges = np.array([[1e4, 1e4], [-np.inf, -np.inf], [np.inf, 0]], np.float32)
    check(lambda x: blu.logsumexp(x, -1), np.array([1e4 + np.log(2), -np.inf, np.inf], np.float32), edges)


@pytest.mark.parametrize("axis", [3, -4, 1.0, "x"])
def test_axes_out_of_range_say_the_range(axis: Any) -> None:
    with pytest.raises(ShapeError, match=r"axes -3\.\.2" if isinstance(axis, int) else "must be an integer"):
        traced(lambda x: x.sum(axis=axis), [TensorType((2, 3, 4), f32)])


def test_arrangement() -> None:
    check(lambda x: x.reshape(4, -1), X.reshape(4, -1), X)
    check(lambda x: x.reshape((3, 8)), X.reshape(3, 8), X)
    check(lambda x: x.reshape(-1), X.reshape(-1), X)
    check(lambda x: x.transpose(), X.transpose(), X)
    check(lambda x: x.transpose(1, 0, 2), X.transpose(1, 0, 2), X)
    check(lambda x: blu.transpose(x, (1, 0, -1)), X.transpose(1, 0, 2), X)
    check(lambda x: x.moveaxis(0, -1), np.moveaxis(X, 0, -1), X)
    check(lambda x: x.moveaxis((0, 1), (2, 0)), np.moveaxis(X, (0, 1), (2, 0)), X)
    check(lambda x: x.expand_dims((0, -1)), np.expand_dims(X, (0, -1)), X)
    check(lambda x: x[None].squeeze(0), X, X)
    check(lambda x: x[:1, :, :1].squeeze(), X[:1, :, :1].squeeze(), X)
    check(lambda x: x.flip((0, -1)), np.flip(X, (0, -1)), X)
    check(lambda x: x.roll(5, 1), np.roll(X, 5, 1), X)
    check(lambda x: x.roll(-1, 2), np.roll(X, -1, 2), X)
    check(lambda x: x.repeat(3, 1), X.repeat(3, 1), X)
    for counts in (2, (2, 1, 3), (2, 1, 1, 3)):
        check(lambda x, counts=counts: x.tile(counts), np.tile(X, counts), X)
    for widths in (1, (1, 2), ((0, 1), (2, 0), (1, 1))):
        check(lambda x, widths=widths: blu.pad(x, widths, 7), np.pad(X, widths, constant_values=7), X)
    check(lambda x, y: blu.broadcast_arrays(x, y), list(np.broadcast_arrays(X, Y[0])), X, Y[0])


def test_joining_and_cutting() -> None:
    check(lambda x, y: blu.concatenate([x, y], -1), np.concatenate([X, Y], -1), X, Y)
    check(lambda x, y: blu.concatenate([x, y], None), np.concatenate([X, Y], None), X, Y)
    check(lambda x, y: blu.concatenate([x, y]), np.concatenate([X, COUNTS]), X, COUNTS)
    check(lambda x, y: blu.stack([x, y], axis=1), np.stack([X, Y], axis=1), X, Y)
    check(lambda x: blu.concatenate([x] * 40), np.concatenate([X] * 40), X)
    check(lambda x: x.split(3, axis=1), np.split(X, 3, axis=1), X)
    check(lambda x: x.split([1, 3], axis=2), np.split(X, [1, 3], axis=2), X)
    check(lambda x: x.split([1, 9, -1], axis=2), np.split(X, [1, 9, -1], axis=2), X)
    for wrong, message in (
        (lambda x: x.split(5), "5 equal parts"),
        (lambda x: blu.stack([x, x[0]]), "one shape"),
        (lambda x: blu.concatenate([]), "at least one"),
        (lambda x: x.reshape(5, -1), "24 elements"),
        (lambda x: x.squeeze(0), "size 1"),
        (lambda x: x.transpose(0, 0, 1), "not a permutation"),
    ):
        with pytest.raises(ShapeError, match=message):
            traced(wrong, [TensorType((2, 3, 4), f32)])


def test_creation() -> None:
    for arguments in ((5,), (2, 9), (2, 9, 3), (9, 2, -2), (5, 5), (0.5, 3), (0, 1, 0.25), (3, 2)):
        check(lambda arguments=arguments: blu.arange(*arguments), np.arange(*arguments))
    check(lambda: blu.arange(4, dtype="f16"), np.arange(4, dtype=np.float16))
    check(lambda: blu.linspace(-1, 1, 7), np.linspace(-1, 1, 7, dtype=np.float32))
    check(lambda: blu.eye(3, 4, 1), np.eye(3, 4, 1, dtype=np.float32))
    check(lambda: blu.tri(3, 4, 1), np.tri(3, 4, 1, dtype=np.float32))
    check(lambda: (blu.zeros((2, 3)), blu.ones(3, "i32"), blu.full((), 2.5)), [
        np.zeros((2, 3), np.float32), np.ones(3, np.int32), np.full((), 2.5)])  # fmt: skip
    check(lambda x: (blu.zeros_like(x), blu.ones_like(x), blu.full_like(x, 3)), [
        np.zeros_like(X), np.ones_like(X), np.full_like(X, 3)], X)  # fmt: skip
    for offset in (-1, 0, 2):
        check(lambda x, offset=offset: (x.tril(offset), x.triu(offset)), [np.tril(X, offset), np.triu(X, offset)], X)
        expected = np.diagonal(X, offset, 1, 2)
        check(lambda x, offset=offset: (x.diagonal(offset), x[0].trace(offset)), [expected, np.trace(X[0], offset)], X)


def test_where_and_clip() -> None:
    same("where", X > 0, X, Y)
    check(lambda x: blu.where(x > 0, x, 0), np.where(X > 0, X, np.float32(0)), X)
    check(lambda x: blu.where(x > 0, 1, 0.5), np.where(X > 0, 1, 0.5), X)
    check(lambda x: x.clip(-1, 2), X.clip(-1, 2), X)
    check(lambda x: x.clip(max=0), X.clip(max=0), X)


def test_constants_in_programs() -> None:
    table = np.arange(4, dtype=">f4")[::-1]
    check(lambda x: x * table + [1.0, 2, 3, 4], X * table.astype(np.float32) + [1.0, 2, 3, 4], X)
    with pytest.raises(DTypeError, match="not a dtype"):
        traced(lambda x: x + np.ones(3, "float8_e5m2fnuz"), [TensorType((3,), f32)])
    with pytest.raises(DTypeError, match=r"blu\.stack"):
        traced(lambda x: blu.asarray([x, x]), [TensorType((3,), f32)])
    with pytest.raises(DTypeError, match="neither a tensor nor a number"):
        traced(lambda x: x + None, [TensorType((3,), f32)])


def test_large_arrays_are_captured_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    capture = TracerHooks(capture=lambda array: (seen.append(array), blu.zeros(array.shape))[1])
    monkeypatch.setattr(HOOKS, "tracer", capture)
    large, small = np.ones(4097, np.float32), np.ones(4096, np.float32)
    traced(lambda x: (x + large, x[:4096] + small), [TensorType((4097,), f32)])
    assert len(seen) == 1 and seen[0] is large


def test_values_that_exist_only_at_run_time() -> None:
    for wrong, advice in (
        (lambda x: 1 if x.sum() > 0 else 0, "blu.where"),
        (lambda x: float(x[0, 0, 0]), "outside"),
        (lambda x: x.item(), "from the function"),
        (lambda x: range(x.sum()), "dynamic_slice"),
        (lambda x: x[: x.argmax()], "dynamic_slice"),
        (lambda x: np.exp(x), "blu"),
        (lambda x: x[x > 0], "blu.where"),
        (lambda x: x.__setitem__(0, 1), "dynamic_update_slice"),
    ):
        with pytest.raises(TraceError) as raised:
            traced(wrong, [TensorType((2, 3, 4), f32)])
        assert advice in raised.value.advice


def test_tensors_of_a_finished_trace() -> None:
    kept = []
    traced(lambda x: (kept.append(x), x)[1], [TensorType((2,), f32)])
    with pytest.raises(TraceError, match="a trace that has ended"):
        blu.exp(kept[0])


def test_all_public_functions_are_documented() -> None:
    for name in blu.HOMES:
        assert getattr(blu, name).__doc__, name
        assert getattr(blu, name).__name__ == name


def test_a_tensor_has_as_many_dimensions_as_numpys_arrays_may_have() -> None:
    assert evaluated(lambda x: x.reshape((1,) * 64), np.ones(1)).ndim == 64
    for rank in (65, 100):
        with pytest.raises(ShapeError, match=f"a tensor of {rank} dimensions: there may be 64, as in NumPy"):
            traced(lambda x, rank=rank: x.reshape((1,) * rank), [TensorType((1,), f32)])

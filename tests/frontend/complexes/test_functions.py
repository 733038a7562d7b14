"""Complex tensors in compiled functions against NumPy: functions, dtypes, special values, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import BluError, DTypeError
from tests.support.kernels.gpu_program import compile_program

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 4))
Z, W = (RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4)) for _ in range(2))
N = X.astype(np.int8)
Case = Callable[..., Any]

UNARY = """exp exp2 expm1 log log2 log10 log1p sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh
    arctanh reciprocal square sign absolute angle conj real imag negative positive isnan isinf isfinite""".split()
ARITHMETIC: tuple[Case, ...] = (
    lambda m, z, w, x: [z + w, z - w, z * w, z / w, z + x, x - z, z - x, x * z, z / x, x / z, -z, abs(z), 1 / z],
    lambda m, z, w, x: [x * 1j, 1j - x, z - 1, 2.5 + z, z * np.float32(2), z * N, z[0] + w[:, :1], N + 1j],
    lambda m, z, w, x: [z**w, z**3, z**-2, z**17, z**0.5, z**2.5, z**x, 2**z, z**0, (0 * z) ** (w + 9), abs(x) ** z],
    lambda m, z, w, x: [z == w, z != z, z == x, m.isclose(z, z + 1e-9), m.allclose(z, w), m.logical_not(z * 0)],
    lambda m, z, w, x: [z.conj(), z.real, z.imag, m.angle(x), m.nan_to_num(z), m.round(z, 1)],
)
FOLDING: tuple[Case, ...] = (
    lambda m, z, w, x: [z.sum(), z.sum(0, keepdims=True), z.mean(1), m.cumsum(z, -1), m.cumsum(z), z[:0].sum(0)],
    lambda m, z, w, x: [m.prod(z, 0), m.prod(z), m.prod(z, (0, 1), keepdims=True), m.prod(z[:0], 0), m.prod(x + 0j)],
    lambda m, z, w, x: [m.cumprod(z, 1), m.cumprod(z), m.cumprod(z[:1], 0), m.var(z, 0), m.std(z), m.diff(z, axis=0)],
    lambda m, z, w, x: [m.any(z), m.all(z * (x > 0), 1), m.count_nonzero(z), m.sum(x, dtype="complex64")],
    lambda m, z, w, x: [z @ w.T, x @ w.T, z.T @ x, m.dot(z, w.T), m.dot(z[0], w[0]), m.vdot(z, w), m.vdot(x, w)],
    lambda m, z, w, x: [m.einsum("ij,kj,ik->i", z, w, x[:, :3]), m.outer(z[0], w[1]), m.tensordot(z, w, 2)],
    lambda m, z, w, x: [m.cross(z[:, :3], x[:, :3]), m.trace(z), m.linalg.vecdot(z, w), m.linalg.vector_norm(z)],
)
ARRANGEMENT: tuple[Case, ...] = (
    lambda m, z, w, x: [m.concatenate([z, x]), m.stack([x, z], 1), m.where(x > 0, z, 2.0), m.where(x > 0, x, 1j)],
    lambda m, z, w, x: [m.where(z, z, w), z.reshape(4, 3).T[::2, None], z[[0, 2], [1, 1]], z[..., 1:], z[1, 2]],
    lambda m, z, w, x: [m.roll(z, 1, 1), m.flip(z), m.tile(z, (2, 1)), m.repeat(z, 2, axis=0), m.tril(z), m.triu(z)],
    lambda m, z, w, x: [m.pad(z, ((1, 1), (0, 2))), m.take(z, np.array([1, 0]), axis=1), m.split(z, 3)[1]],
    lambda m, z, w, x: [m.moveaxis(z, 0, 1), m.broadcast_to(z, (2, 3, 4)), m.squeeze(m.expand_dims(z, 0))],
    lambda m, z, w, x: [*m.broadcast_arrays(z[0], x), m.full((2,), 1 + 2j), m.asarray([1, 2j]), m.ones_like(z)],
    lambda m, z, w, x: [m.zeros((2, 3), dtype="complex64") + 1, m.eye(3, dtype="complex128") * 1j, m.zeros_like(z)],
    lambda m, z, w, x: [
        z.astype("complex64") * 2.5,
        z.astype("complex64") * x,
        x.astype("complex64"),
        z.astype("bool"),
    ],
)


def check(found: Any, expected: Any, what: str) -> None:
    one, other = np.asarray(found), np.asarray(expected)
    assert (one.dtype, one.shape) == (other.dtype, other.shape), what
    loose = other.dtype in (np.complex64, np.float32)
    np.testing.assert_allclose(one, other, rtol=1e-5 if loose else 1e-12, atol=1e-14, err_msg=what)


@pytest.mark.parametrize("cases", [ARITHMETIC, FOLDING, ARRANGEMENT], ids=["arithmetic", "folding", "arrangement"])
def test_functions_are_numpys(cases: tuple[Case, ...]) -> None:
    found = blu.jit(lambda z, w, x: [case(blu, z, w, x) for case in cases])(Z, W, X)
    for place, case in enumerate(cases):
        expected = case(np, Z, W, X)
        assert len(found[place]) == len(expected)
        for number, pair in enumerate(zip(found[place], expected, strict=True)):
            check(*pair, f"case {place}, {number}")


def test_elementwise_functions_are_numpys() -> None:
    function = blu.jit(lambda z: [getattr(blu, name)(z) for name in UNARY])
    for scale in (1e-3, 1.0, 30.0):
        for name, found in zip(UNARY, function(Z * scale), strict=True):
            check(found, getattr(np, name)(Z * scale), name)
    for name, found in zip(UNARY, function(Z.astype(np.complex64)), strict=True):
        assert np.asarray(found).dtype == getattr(np, name)(Z.astype(np.complex64)).dtype, name


ENDS = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan)
SPECIAL = np.array([complex(a, b) for a in ENDS for b in ENDS])
# Where NumPy has something else than C99 asks for: infinities that its formulas lose, and signs that are left open.
UNLIKE = {"expm1": lambda z: ~np.isfinite(z.real), "sinh": lambda z: np.isinf(z.real) & ~np.isfinite(z.imag)}
UNLIKE["sin"] = lambda z: np.isinf(z.imag) & ~np.isfinite(z.real)
UNLIKE["reciprocal"] = lambda z: z == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_special_values_and_branch_cuts_are_numpys() -> None:
    names = [name for name in UNARY if name not in ("exp2", "log1p")]
    compiled = blu.jit(lambda z: [getattr(blu, name)(z) for name in names])
    for name, found in zip(names, compiled(SPECIAL), strict=True):
        kept = ~UNLIKE.get(name, np.zeros_like)(SPECIAL).astype(np.bool_)
        one, other = np.asarray(found)[kept], getattr(np, name)(SPECIAL)[kept]
        for part in ("real", "imag"):
            np.testing.assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-14, err_msg=f"{name} {part}")
            if name == "sign":
                np.testing.assert_array_equal(np.signbit(getattr(one, part)), np.signbit(getattr(other, part)))


def test_updates_and_python_numbers() -> None:
    changed = blu.jit(lambda z: z.at[1].set(2j).at[:, 0].add(1j).at[np.array([0, 0]), 1].add(1.0))(Z)
    expected = Z.copy()
    expected[1] = 2j
    expected[:, 0] += 1j
    expected[0, 1] += 2
    np.testing.assert_allclose(changed, expected)
    scaled = blu.jit(lambda z, k: z * k)
    assert scaled(Z.astype(np.complex64), 2j).dtype == np.complex64 and scaled(Z, 1j).dtype == np.complex128
    assert blu.jit(lambda k: k)(2j).item() == 2j
    assert blu.jit(lambda h: h * 1j)(X.astype(np.float16)).dtype == np.complex64


def test_functions_that_numpy_has_not_or_otherwise() -> None:
    def both(z: Any) -> Any:
        one = blu.cumprod(z[0, 0], 0)
        segments = [join(z, np.array([0, 1, 0]), 2) for join in (blu.segment_sum, blu.segment_mean)]
        return blu.logsumexp(300 * z, 1), blu.logsumexp(z[:0], 0), blu.linspace(1j, 2, 5, "complex64"), one, *segments

    total, none, line, one, *of_segments = blu.jit(both)(Z)
    for found, count in zip(of_segments, (1, 2), strict=True):
        check(found, np.stack([(Z[0] + Z[2]) / count, Z[1]]), "segments")
    check(one, Z[0, 0], "cumprod of a number")
    shift = 300 * Z.real.max(1, keepdims=True)
    np.testing.assert_allclose(total, np.log(np.exp(300 * Z - shift).sum(1)) + shift[:, 0], rtol=1e-12)
    assert np.isneginf(np.asarray(none).real).all()
    check(line, np.linspace(1j, 2, 5, dtype=np.complex64), "linspace")


def test_arrays_of_any_layout_and_nested() -> None:
    tree = {"z": Z[::-1, ::2], "rest": [Z.T, Z.astype(">c16"), Z[:0], np.complex64(1j)]}
    found = blu.jit(lambda tree: {"z": tree["z"] * 1, "rest": [item + 0 for item in tree["rest"]]})(tree)
    np.testing.assert_array_equal(found["z"], tree["z"])
    for one, other in zip(found["rest"], tree["rest"], strict=True):
        assert one.shape == np.shape(other)
        np.testing.assert_array_equal(one, other)
    large = np.resize(Z, 2000)
    np.testing.assert_array_equal(blu.jit(lambda x: x * large)(np.ones(2000)), large)


def test_gpus_compute_the_same() -> None:
    def function(z: Any, w: Any) -> Any:
        return blu.exp(z) @ w.T / (1 + blu.absolute(z).sum())

    pairs = [np.stack([item.real, item.imag], -1) for item in (Z, W)]

    def of_pairs(z: Any, w: Any) -> Any:
        found = function(*(blu.complex(item[..., 0], item[..., 1]) for item in (z, w)))
        return found.real, found.imag

    expected = np.exp(Z) @ W.T / (1 + np.abs(Z).sum())
    real, imag = compile_program(of_pairs, *pairs, target="sm_80").interpret(*pairs)
    np.testing.assert_allclose(real + 1j * imag, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (blu.relu, "relu: does not take complex numbers"),
        (blu.sort, "sort: does not take complex numbers"),
        (blu.softmax, "softmax: does not take complex numbers"),
        (lambda z: z < 1, "less: does not take complex numbers"),
        (lambda z: z // 2, "floor_divide: does not take complex numbers"),
        (lambda z: z.astype("f32"), "complex numbers do not become f32"),
        (lambda z: blu.zeros(3).at[0].set(z[0, 0]), "complex values do not become f32"),
        (lambda z: z.at[0].multiply(z[0]), "multiply does not take complex numbers"),
        (lambda z: blu.sum(z, dtype="f64"), "complex numbers do not become f64"),
        (lambda z: blu.all_reduce(z, "dp", "max"), "complex numbers have no order"),
        (lambda z: float(z), r"float\(\) needs the numbers of complex128\[3, 4\]"),
        (lambda z: 1 if z == 0 else 2, "a Python condition"),
        (blu.grad(lambda z: blu.sum(z)), r"grad: the function's result is complex128\[\]"),
    ],
)
def test_what_has_no_complex_meaning_names_function_and_line(call: Case, sentence: str) -> None:
    with pytest.raises(BluError, match=rf"(?s)test_functions\.py:\d+: .*{sentence}"):
        blu.jit(lambda z: call(z))(Z)


def test_norms_are_by_the_mean_of_squares_as_torchs() -> None:
    weight = RNG.normal(size=4) + 1j * RNG.normal(size=4)
    found = blu.jit(lambda z, weight: [blu.rms_norm(z), blu.rms_norm(z, weight, 0.1), blu.rms_norm(z, axis=(0, 1))])(
        Z, weight
    )
    tensor = torch.tensor(Z)
    check(found[0], torch.nn.functional.rms_norm(tensor, (4,), eps=1e-6), "rms_norm")
    check(found[1], torch.nn.functional.rms_norm(tensor, (4,), torch.tensor(weight), 0.1), "rms_norm with a weight")
    check(found[2], torch.nn.functional.rms_norm(tensor, (3, 4), eps=1e-6), "rms_norm over two axes")


def test_ranks_add_up_parts() -> None:
    def exchanged(z: Any) -> Any:
        added = blu.all_reduce(z, "dp"), blu.all_reduce(z, "dp", "mean")
        return *added, blu.reduce_scatter(z, "dp", dim=1, reduction="sum"), blu.all_gather(z, "dp", 1)

    for found in blu.jit(exchanged, mesh=blu.Mesh(dp=1))(Z):
        np.testing.assert_array_equal(found, Z)
    with pytest.raises(BluError, match=r"all_reduce: complex numbers have no order: there is no max of them"):
        blu.jit(lambda z: blu.all_reduce(z, "dp", "max"), mesh=blu.Mesh(dp=1))(Z)


def test_complex_arrays_do_not_become_real_ones_by_hand() -> None:
    """Dtypes have Blu's names there, too."""
    z = blu.asarray(np.array([1j, 2.0]))
    assert z.astype("complex64").dtype == np.complex64 and blu.sum(z, dtype="complex64").dtype == np.complex64
    assert z.astype("bool").tolist() == [True, True]
    for name in ("f32", "i8", np.float64):
        with pytest.raises(DTypeError, match="astype: complex numbers do not become"):
            z.astype(name)
        with pytest.raises(DTypeError, match="sum: complex numbers do not become"):
            blu.sum(z, dtype=name)

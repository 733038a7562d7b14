"""Fourier transforms against NumPy and PyTorch: values, gradients, pairs as complex numbers, on both targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import blu
from blu.errors import ArgumentError, BluError
from tests.support.kernels.gpu_program import compile_program

RNG = np.random.default_rng(8)
X = RNG.normal(size=(3, 4, 6))
Z = X + 1j * RNG.normal(size=X.shape)
ONE = ({}, {"n": 4}, {"n": 9, "axis": 0}, {"axis": 1, "norm": "ortho"}, {"n": 1, "norm": "forward"}, {"n": 7})
SEVERAL = ({}, {"axes": (0, 2)}, {"axes": (2, 0), "norm": "ortho"}, {"s": (5, 3), "axes": (0, 1), "norm": "forward"})
CASES: list[tuple[str, np.ndarray, dict[str, Any]]] = [
    *((name, Z, options) for name in ("fft", "ifft", "irfft", "hfft") for options in ONE if options.get("n") != 1),
    *((name, X, options) for name in ("fft", "ifft", "rfft", "ihfft") for options in ONE),
    *((name, Z, options) for name in ("fftn", "ifftn", "irfftn") for options in SEVERAL),
    *((name, X, options) for name in ("fftn", "rfftn") for options in SEVERAL),
    *((name, Z, options) for name in ("fft2", "ifft2", "irfft2") for options in ({}, {"s": (5, 7), "norm": "ortho"})),
    ("rfft2", X, {"s": (2, 8), "axes": (1, 0)}),
    ("irfft", Z, {"n": 1}),
    ("rfft", X[..., :1], {}),
]


def name_of(case: Any) -> str:
    return case if isinstance(case, str) else "x".join(map(str, case.items() if isinstance(case, dict) else case.shape))


def pair(x: np.ndarray) -> Any:
    return blu.fft.Complex(x.real.copy(), x.imag.copy()) if np.iscomplexobj(x) else x


def numbers(found: Any) -> np.ndarray:
    return found.numpy() if isinstance(found, blu.fft.Complex) else np.asarray(found)


@pytest.mark.parametrize(("name", "x", "options"), CASES, ids=name_of)
def test_values_are_numpys_by_hand_and_compiled(name: str, x: np.ndarray, options: dict[str, Any]) -> None:
    expected = getattr(np.fft, name)(x, **options)
    function = getattr(blu.fft, name)
    for found in (function(x, **options), blu.jit(lambda x: function(x, **options))(pair(x))):
        assert numbers(found).dtype == expected.dtype
        np.testing.assert_allclose(numbers(found), expected, rtol=1e-12, atol=1e-12)


def weights_of(shape: tuple[int, ...]) -> np.ndarray:
    return np.cos(np.arange(float(np.prod(shape))) + 1).reshape(shape)


def weighted(found: Any) -> Any:
    if not isinstance(found, blu.fft.Complex):
        return blu.sum(found * weights_of(found.shape))
    weights = weights_of(found.shape)
    return blu.sum(found.real * weights) + blu.sum(found.imag * weights[::-1])


def weighted_in_torch(found: torch.Tensor) -> torch.Tensor:
    weights = torch.tensor(weights_of(tuple(found.shape)))
    if not found.is_complex():
        return (found * weights).sum()
    return (found.real * weights).sum() + (found.imag * weights.flip(0)).sum()


@pytest.mark.parametrize(("name", "x", "options"), CASES, ids=name_of)
def test_gradients_are_torchs(name: str, x: np.ndarray, options: dict[str, Any]) -> None:
    named = {"axis": "dim", "axes": "dim"}
    function = getattr(blu.fft, name)
    found = blu.jit(blu.grad(lambda x: weighted(function(x, **options))))(pair(x))
    tensor = torch.tensor(x, requires_grad=True)
    torchs = getattr(torch.fft, name)(tensor, **{named.get(key, key): value for key, value in options.items()})
    weighted_in_torch(torchs).backward()
    np.testing.assert_allclose(numbers(found), tensor.grad.resolve_conj().numpy(), rtol=1e-10, atol=1e-11)


def test_float32_and_halves_are_transformed_in_float32() -> None:
    for dtype in (np.float32, np.float16):
        found = blu.fft.fft(X.astype(dtype))
        assert np.asarray(found.real).dtype == np.float32 and found.shape == X.shape
        np.testing.assert_allclose(found.numpy(), np.fft.fft(X.astype(dtype).astype(np.float64)), atol=1e-5)


def test_pairs_are_complex_numbers() -> None:
    @blu.jit
    def made(a: Any, b: Any, x: Any) -> list[Any]:
        return [a + b, a - b, a * b, -a, a * 2.0, 2.0 * a, a + x, x - a, a - x, a.conj(), abs(a), a.angle(), a[1]]

    a, b, x = Z[0], Z[1], X[0]
    expected = [a + b, a - b, a * b, -a, a * 2, 2 * a, a + x, x - a, a - x, a.conj(), abs(a), np.angle(a), a[1]]
    found = made(pair(a), pair(b), x)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(numbers(one), other, rtol=1e-12)
    np.testing.assert_allclose(numbers(x - pair(a)), x - a)
    np.testing.assert_allclose(numbers(blu.asarray(x) * pair(a)), x * a)


@pytest.mark.parametrize("axes", [None, 1, (0, -1)])
def test_shifts_are_numpys(axes: Any) -> None:
    x = RNG.normal(size=(3, 4, 5))
    for name in ("fftshift", "ifftshift"):
        expected = getattr(np.fft, name)(x, axes)
        np.testing.assert_array_equal(getattr(blu.fft, name)(x, axes), expected)
        both = blu.jit(lambda z, name=name: getattr(blu.fft, name)(z, axes))(pair(x + 2j * x))
        np.testing.assert_array_equal(both.numpy(), expected + 2j * expected)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_frequencies_are_numpys(n: int) -> None:
    for name in ("fftfreq", "rfftfreq"):
        expected = getattr(np.fft, name)(n, 0.25)
        np.testing.assert_array_equal(getattr(blu.fft, name)(n, 0.25, dtype="f64"), expected)
        assert np.asarray(blu.jit(lambda name=name: getattr(blu.fft, name)(n))()).dtype == np.float32


def test_slices_loops_and_gpus() -> None:
    def filtered(x: Any) -> Any:
        return blu.fft.irfft(blu.fft.rfft(x * 2.0) * np.array([1.0, 0, 0, 0]), n=6) + 1.0

    expected = np.fft.irfft(np.fft.rfft(X * 2) * [1, 0, 0, 0], 6) + 1
    np.testing.assert_allclose(blu.jit(blu.vmap(blu.vmap(filtered)))(X), expected, rtol=1e-12)
    np.testing.assert_allclose(blu.jit(lambda x: blu.scan(lambda c, x: (c, filtered(x)), 0.0, x)[1])(X), expected)
    for target in ("sm_80", "sm_90a"):
        np.testing.assert_allclose(compile_program(filtered, X, target=target).interpret(X)[0], expected, rtol=1e-12)


def test_nothing_along_other_axes_is_transformed() -> None:
    assert blu.fft.fft(np.zeros((0, 3))).shape == (0, 3) and blu.fft.rfft(np.zeros((0, 3))).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda x: blu.fft.fft(x, norm="both"), "norm must be one of backward, ortho, forward"),
        (lambda x: blu.fft.fft(x, n=0), "one from 1 on"),
        (lambda x: blu.fft.fft(x[:, :, :0]), "one from 1 on"),
        (lambda x: blu.fft.fft(x, axis=3), "axes"),
        (lambda x: blu.fft.fftn(x, axes=(0, 0)), "each axis is transformed once"),
        (lambda x: blu.fft.fftn(x, s=(2, 2, 2, 2)), "fewer dimensions"),
        (lambda x: blu.fft.irfft(x[:, :, :1]), "Say how many there are"),
        (lambda x: blu.fft.rfft(Z), "takes real numbers"),
        (lambda x: blu.fft.fftfreq(0), "from 1 on"),
    ],
)
def test_what_is_refused(call: Any, sentence: str) -> None:
    with pytest.raises(BluError, match=sentence):
        call(X)
    with pytest.raises(ArgumentError):
        blu.jit(lambda x: blu.fft.fft(x, norm="no"))(X)
